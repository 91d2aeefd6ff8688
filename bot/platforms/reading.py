"""Defines the ports that read messages and members of a platform."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bot.errors import DeliveryError
from bot.platforms.messages import PastMessage
from bot.values import Identity, Place

NOT_FOUND = "There is no such message, or the user who asks may not read it."
NO_LINK = "That is no link to a message of {platform}. The menu of a message has “{entry}”."
PRIVATE = (
    "Not everyone who reads this place may read that one. The user can ask for it in a direct "
    "message."
)
NOT_ADMITTED = "The admins have not let the bot into that place."
ONLY_HERE = "On this platform only the messages of this place can be read."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A request to read messages beyond the place of a conversation.

    Attributes:
        user: The user for whom it is made, and whose rights count.
        place: The place in which the result is read. If others read it, the result has messages
            only that all of them may read.
        limit: The most messages to return.
        search_token: The platform's permission to search, which came with the user's message; empty
            for none.
    """

    user: Identity
    place: Place
    limit: int
    search_token: str = ""


class MessageReader(Protocol):
    """Reads the messages of one platform."""

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Return the newest `limit` messages of a place after a given time, oldest first.

        Args:
            place: The thread, the direct message, or the channel without its threads.
            after: A time, or the id of a message, which is not returned; empty for the beginning.
            limit: The number, without the message that opened a thread.
            opening: Whether to include that message.

        Raises:
            DeliveryError: The place cannot be read now; permanent if it can never be read.
        """

    async def linked(self, link: str, request: ReadRequest) -> list[PastMessage]:
        """Return the message of a link with the messages around it, oldest first.

        The messages of its thread, if it has one; else those of its channel.

        Raises:
            DeliveryError: The link is invalid, the message cannot be read, or the user or the
                readers of the place of the request may not read it.
        """

    async def search(self, query: str, request: ReadRequest) -> list[PastMessage]:
        """Return the messages that fit a query, the best first.

        Raises:
            DeliveryError: The platform has no search for bots, or none here and now.
        """


@dataclass(frozen=True, slots=True)
class Membership:
    """The membership of a user in a server or workspace.

    Attributes:
        present: The user is an active member there. For a place outside of servers: of any server
            with the bot.
        foreign: The account is of another company, with which single channels are shared.
        groups: The user's roles and user groups there, written like members in `roles.named`;
            `None` if the bot may not read them.
    """

    present: bool = True
    foreign: bool = False
    groups: frozenset[str] | None = frozenset()


class MemberReader(Protocol):
    """Reads the members of the servers and workspaces of one platform."""

    async def membership(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        """Return the membership of a user in the server or workspace of a place.

        Args:
            user: The user.
            place: The place.
            groups: Whether the groups are needed.

        Raises:
            DeliveryError: It cannot be read now.
        """


class PlaceOnly:
    """A reader of a platform without links to messages, without a search and without groups."""

    async def membership(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        """Return that of a member without groups."""
        return Membership()

    async def linked(self, link: str, request: ReadRequest) -> list[PastMessage]:
        """Refuse the link.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(ONLY_HERE, permanent=True)

    async def search(self, query: str, request: ReadRequest) -> list[PastMessage]:
        """Refuse the search.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(ONLY_HERE, permanent=True)
