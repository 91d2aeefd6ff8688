"""Types of web requests and their errors; every import in this module is fast."""

from collections.abc import Callable
from dataclasses import dataclass

from bot.errors import ToolError

UNREACHABLE = (
    "That page cannot be reached from here. Check the address, or look for the same thing "
    "elsewhere."
)


#: Takes two addresses and returns True if a redirect from one to the other is followed.
Follows = Callable[[str, str], bool]


class WebError(ToolError):
    """A page could not be fetched; the text reveals no address, no port and no DNS result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebResponse:
    """The response of a server.

    Attributes:
        url: The final URL, after redirects.
        challenge: The header `WWW-Authenticate`; empty for none.
        hops: The addresses that redirected to it, in order.
        media_type: From the server, in lower case; empty when it sends none.
        charset: From the server; empty when it sends none.
        content: The body, decompressed.
        cut: The body is longer than the limit, and truncated.
    """

    url: str
    status: int
    media_type: str
    charset: str
    content: bytes
    cut: bool = False
    hops: tuple[str, ...] = ()
    challenge: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPart:
    """A part of a form with files.

    Attributes:
        name: The name of the field.
        file_name: The name of the file; empty for a field that is no file.
        media_type: Of the content; empty for plain text.
    """

    name: str
    content: bytes
    file_name: str = ""
    media_type: str = ""
