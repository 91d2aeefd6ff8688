"""Finds web addresses in texts, and the site that an address belongs to (pure)."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from bot.net.base import WebError
from bot.net.urls import checked

#: Addresses that a turn with all its runs may choose from after private material, and how many of
#: them it may read: 64 to the power of 10 is 60 bits, the most that the choice can give away.
MOST_KNOWN, MOST_FETCHES = 64, 10
MOST_LOOKED_AT = 1_000

_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\^{}]+", re.IGNORECASE)
#: A host without a scheme, as users write it: `example.com/page`.
_BARE = re.compile(
    r"(?<![\w@./:-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,24}(?![\w@.-]*@)(?:/[^\s<>\"'`|\\^{}]*)?",
    re.IGNORECASE,
)
_TRAILING = ".,;:!?*_~"
#: Braces are in no address that is found.
_PAIRS = {")": "(", "]": "["}


def canonical(address: str) -> str:
    """Return an address in the one form in which addresses are compared; empty for none."""
    with suppress(WebError):
        url = checked(address)
        return f"{url}/" if str(url) == str(url.origin()) else str(url)
    return ""


def addresses_in(text: str, *, bare: bool = False) -> Iterator[str]:
    """Yield the addresses in a text in their canonical form, in order of appearance.

    Args:
        text: Markdown, or what a user wrote.
        bare: Take `example.com` for `https://example.com` too.
    """
    found = [(match.start(), match[0]) for match in _ADDRESS.finditer(text)]
    if bare:
        found += [(match.start(), f"https://{match[0]}") for match in _BARE.finditer(text)]
    for _, address in sorted(found):
        if known := canonical(_without_punctuation(address)):
            yield known


def _without_punctuation(address: str) -> str:
    """Return an address without what belongs to the sentence or the Markdown around it."""
    while address:
        last = address[-1]
        opening = _PAIRS.get(last)
        if last in _TRAILING or (opening and address.count(last) > address.count(opening)):
            address = address[:-1]
        else:
            break
    # In Markdown the address ends with its bracket: `[text](https://a.example) and so on`.
    closing = address.find(")")
    if closing >= 0 and "(" not in address[:closing]:
        return address[:closing]
    return address


def merged(known: Iterable[str], more: Iterable[str]) -> list[str]:
    """Return the first `MOST_KNOWN` different addresses of both, in order.

    Of `more` only the first `MOST_LOOKED_AT` count: a page may have links without end.
    """
    found = dict.fromkeys(known)
    for address in islice(more, MOST_LOOKED_AT):
        if len(found) >= MOST_KNOWN:
            break
        found[address] = None
    return list(found)[:MOST_KNOWN]


def same_site(one: str, other: str) -> bool:
    """Return whether two addresses have the same registrable domain.

    By the Public Suffix List with its private part: two users of a host for pages are two sites.
    """
    from tld import get_fld  # noqa: PLC0415 - reads the list, which the start does not need

    sites = [get_fld(each, fail_silently=True, search_private=True) for each in (one, other)]
    if None in sites:
        from yarl import URL  # noqa: PLC0415

        return URL(one).raw_host == URL(other).raw_host
    return sites[0] == sites[1]
