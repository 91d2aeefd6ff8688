"""Validates the form of URLs (pure). Their destination is checked elsewhere: see `addresses`."""

import re
import unicodedata
from typing import TYPE_CHECKING

from bot.net.base import UNREACHABLE, WebError

if TYPE_CHECKING:
    from yarl import URL

MOST_CHARACTERS = 4_000

#: Unicode categories of control characters, spaces and line ends, and of lone surrogates.
_UNFIT = frozenset({"Cc", "Cs", "Zs", "Zl", "Zp"})
_SHAPE = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(?://(?P<authority>[^/?#]*))?", re.IGNORECASE)
_NAME = re.compile(r"(?=.{1,253}\.?\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
_LITERAL_6 = re.compile(r"[0-9a-f:.]*:[0-9a-f:.]*")
_LITERAL_4 = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!\Z)|\Z)){4}", re.ASCII)
#: Texts that some resolvers read as an IPv4 address: `127.1`, `0x7f.1`, `2130706433`.
_NUMBER = re.compile(r"(?:.*\.)?(?:\d+|0x[0-9a-f]*)\.?", re.ASCII)

_NO_URL = "That is no address of a web page. Check how it is written."
_PORTS = "Only the usual ports of http and https are spoken to; leave the port out."


def checked(address: str) -> "URL":
    """Return a valid URL without its fragment.

    Raises:
        WebError: The form is invalid; the text has the reason.
    """
    from yarl import URL  # noqa: PLC0415 - slow, and the start must be quick

    text = address.strip(" \t\r\n")
    if len(text) > MOST_CHARACTERS:
        raise WebError(f"An address may have {MOST_CHARACTERS:,} characters at most.")
    if _has_unfit(text):
        raise WebError(
            "There is a blank, a backslash or a control character in the address. Write blanks as "
            "%20."
        )
    shape = _SHAPE.match(text)
    # A host with a port but without a scheme (`example.com:443`) looks like one.
    if shape is None or "." in shape["scheme"]:
        raise WebError("Give the whole address, with https:// at its beginning.")
    if shape["scheme"].lower() not in {"http", "https"}:
        raise WebError("Only addresses that begin with http:// or https:// are read.")
    if not shape["authority"]:
        raise WebError("There is no host in that address. Write it as https://host/path.")
    if "@" in shape["authority"]:
        raise WebError("An address with a name or password before an @ is not read. Leave it out.")
    try:
        url = URL(text)
        # Some parts are decoded on access, so errors are raised here.
        host, _, _ = (url.raw_host or "", url.port, url.raw_path_qs)
    except ValueError:
        raise WebError(_NO_URL) from None
    if url.user is not None or url.password is not None or not host:
        raise WebError(_NO_URL)
    if not (_NAME.fullmatch(host) or _LITERAL_6.fullmatch(host)):
        raise WebError("That address names no host that could exist. Check how it is written.")
    if _NUMBER.fullmatch(host) and not _LITERAL_4.fullmatch(host):
        raise WebError(UNREACHABLE)
    return url.with_fragment(None)


def next_hop(current: "URL", location: str) -> "URL":
    """Return the target of a redirect.

    Raises:
        WebError: The target is invalid or not allowed.
    """
    from yarl import URL  # noqa: PLC0415

    if not location or len(location) > MOST_CHARACTERS or _has_unfit(location):
        raise WebError("The page redirects to an address that makes no sense. Use another page.")
    try:
        target = str(current.join(URL(location)))
    except ValueError:
        target = ""
    try:
        url = checked(target)
    except WebError:
        raise WebError("The page redirects to an address that is not read. Use another.") from None
    if current.scheme == "https" and url.scheme == "http":
        raise WebError(
            "The page redirects from https to http, which is not followed. Use another page."
        )
    return url


def check_port(url: "URL", ports: frozenset[int]) -> None:
    """Raise unless a URL has one of these ports.

    Raises:
        WebError: The URL has another port.
    """
    if url.port not in ports:
        raise WebError(_PORTS)


def _has_unfit(text: str) -> bool:
    return "\\" in text or any(unicodedata.category(each) in _UNFIT for each in text)
