"""Finds web addresses in texts, and compares the sites of addresses (pure)."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from bot.net.base import WebError
from bot.net.urls import checked

#: Most addresses that a turn with all its runs may choose from after private material, and most of
#: them that it may fetch: 64 to the power of 10 is 60 bits, the most that the choice can leak.
MOST_KNOWN, MOST_FETCHES = 64, 10
MOST_LOOKED_AT = 1_000

_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\^{}]+", re.IGNORECASE)
#: A host without a scheme, as users write it: `example.com/page`.
_BARE = re.compile(
    r"(?<![\w@./:-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,24}(?![\w@.-]*@)(?:/[^\s<>\"'`|\\^{}]*)?",
    re.IGNORECASE,
)
_TRAILING = ".,;:!?*_~"
#: Addresses with braces are not found.
_PAIRS = {")": "(", "]": "["}


def canonical(address: str) -> str:
    """Return an address in the canonical form used for comparison; empty if it is invalid."""
    with suppress(WebError):
        url = checked(address)
        return f"{url}/" if str(url) == str(url.origin()) else str(url)
    return ""


def addresses_in(text: str, *, bare: bool = False) -> Iterator[str]:
    """Yield the addresses in a text in their canonical form, in order of appearance.

    Args:
        text: Markdown, or a message of a user.
        bare: Take `example.com` for `https://example.com` too.
    """
    found = [(match.start(), match[0]) for match in _ADDRESS.finditer(text)]
    if bare:
        found += [(match.start(), f"https://{match[0]}") for match in _BARE.finditer(text)]
    for _, address in sorted(found):
        if known := canonical(_without_punctuation(address)):
            yield known


def _without_punctuation(address: str) -> str:
    """Return an address without trailing characters of the sentence or the Markdown around it."""
    while address:
        last = address[-1]
        opening = _PAIRS.get(last)
        if last in _TRAILING or (opening and address.count(last) > address.count(opening)):
            address = address[:-1]
        else:
            break
    # In Markdown the address ends at its bracket: `[text](https://a.example) and so on`.
    closing = address.find(")")
    if closing >= 0 and "(" not in address[:closing]:
        return address[:closing]
    return address


def merged(known: Iterable[str], more: Iterable[str]) -> list[str]:
    """Return the first `MOST_KNOWN` different addresses of both, in order.

    Of `more`, only the first `MOST_LOOKED_AT` are read: a page may have any number of links.
    """
    found = dict.fromkeys(known)
    for address in islice(more, MOST_LOOKED_AT):
        if len(found) >= MOST_KNOWN:
            break
        found[address] = None
    return list(found)[:MOST_KNOWN]


def same_site(one: str, other: str) -> bool:
    """Return True if two addresses have the same registrable domain.

    The Public Suffix List is used with its private part: two users of a page host are two sites.
    """
    from tld import get_fld  # noqa: PLC0415 - reads the list, which the start does not need

    sites = [get_fld(each, fail_silently=True, search_private=True) for each in (one, other)]
    if None in sites:
        from yarl import URL  # noqa: PLC0415

        return URL(one).raw_host == URL(other).raw_host
    return sites[0] == sites[1]
