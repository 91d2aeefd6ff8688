"""What comes of a request to the web, and what can go wrong: nothing here is slow to import."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bot.errors import ToolError

UNREACHABLE = (
    "That page cannot be reached from here. Check the address, or look for the same thing "
    "elsewhere."
)


#: Returns whether a redirect from one address to another is followed.
Follows = Callable[[str, str], bool]


class WebError(ToolError):
    """A page was not got; the text names no address, no port and nothing of how names resolve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered.

    Attributes:
        url: Where it came from in the end.
        hops: The addresses that redirected to it, in order.
        media_type: As the server says, in lower case; empty when it says nothing.
        charset: As the server says; empty when it says nothing.
        content: The body, unpacked.
        cut: There was more than is read.
    """

    url: str
    status: int
    media_type: str
    charset: str
    content: bytes
    cut: bool = False
    hops: tuple[str, ...] = ()


class Fetches(Protocol):
    """Gets pages of the public web."""

    async def fetch(self, address: str, *, follows: Follows | None = None) -> Answer:
        """Return what is at an address that nobody vouches for.

        Args:
            address: With its scheme.
            follows: `None` follows all redirects.

        Raises:
            WebError: It is not to be had.
        """
        ...
