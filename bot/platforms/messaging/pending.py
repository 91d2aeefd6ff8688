"""Replaces the outlet of a platform that cannot be reached yet."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from bot.errors import DeliveryError
from bot.platforms.base import (
    Announcement,
    Confirmation,
    Delivered,
    OnBegun,
    OnDrawn,
    OutgoingFile,
    Outlet,
    ReplyStream,
    RunCard,
    Settlement,
    not_kept,
    not_noted,
)
from bot.platforms.messages import PastMessage
from bot.platforms.reading import Membership, ReadRequest
from bot.values import Identity, Place

NOT_OPEN = "That platform cannot be reached yet; I try again later."


class PendingOutlet:
    """The outlet of a platform that is not open yet; the platform's own outlet replaces it.

    Replies and announcements fail, so that they are delivered later, and questions wait.

    Args:
        platform: The key of the platform, as in `Place`.
    """

    #: Not known yet: they are sent later.
    takes_files = True

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self._outlet: asyncio.Future[Outlet] = asyncio.get_running_loop().create_future()

    def connect(self, outlet: Outlet) -> None:
        """Ask the questions that wait through the platform's own outlet."""
        self._outlet.set_result(outlet)

    async def ask(self, confirmation: Confirmation) -> str:
        """Ask the owner a question, once the platform is open.

        Raises:
            DeliveryError: The owner cannot be asked; the answer is then no.
        """
        outlet = await asyncio.shield(self._outlet)
        return await outlet.ask(confirmation)

    async def membership(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        """Refuse, since no member can be read yet.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(NOT_OPEN)

    async def acknowledge(self, place: Place) -> None:
        """Do nothing."""

    async def answered(self, place: Place, *, read: bool = False) -> None:
        """Do nothing."""

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> ReplyStream:
        """Return a reply whose text is delivered later."""
        return _Undeliverable()

    async def announce(self, announcement: Announcement) -> Delivered:
        """Fail, so that the announcement is delivered later.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(NOT_OPEN)

    def show_card(
        self, card: RunCard, *, begun: OnBegun = not_kept, drawn: OnDrawn = not_noted
    ) -> None:
        """Do nothing."""

    async def show_settlement(self, question: Confirmation, settlement: Settlement) -> None:
        """Do nothing."""

    async def post(self, place: Place, owner: Identity, text: str) -> Delivered:
        """Fail, so that the text is posted later.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(NOT_OPEN)

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Do nothing."""

    async def send_files(
        self,
        place: Place,
        owner: Identity,
        files: Sequence[OutgoingFile],
        *,
        key: str,
        maybe_repeated: bool = False,
    ) -> Delivered:
        """Fail, so that the files are sent later.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(NOT_OPEN)

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Fail, so that the place is read later.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(NOT_OPEN)

    async def linked(self, link: str, request: ReadRequest) -> list[PastMessage]:
        """Fail, so that the message is read later.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(NOT_OPEN)

    async def search(self, query: str, request: ReadRequest) -> list[PastMessage]:
        """Fail, so that the search is made later.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(NOT_OPEN)


class _Undeliverable:
    """A reply on a platform that cannot be reached."""

    def update(self, text: str) -> None:
        """Show nothing."""

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Fail, so that the text is delivered later.

        Raises:
            DeliveryError: Always.
        """
        raise DeliveryError(NOT_OPEN)

    async def abandon(self) -> None:
        """Do nothing."""
