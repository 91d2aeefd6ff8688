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
from bot.platforms.reading import ReadRequest
from bot.values import Identity, Place

NOT_OPEN = "That platform cannot be reached yet; I try again later."


class PendingOutlet:
    """An outlet that can be used before its platform is open.

    Until then replies and announcements fail, so that they are delivered later, and questions wait.

    Args:
        platform: The key of the platform, as in `Place`.
    """

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self._outlet: Outlet | None = None
        self._opened = asyncio.Event()

    def connect(self, outlet: Outlet) -> None:
        """Forward all calls to the platform's own outlet from now on."""
        self._outlet = outlet
        self._opened.set()

    @property
    def takes_files(self) -> bool:
        """True if files can be sent, or if that is not known yet."""
        return self._outlet is None or self._outlet.takes_files

    async def acknowledge(self, place: Place) -> None:
        """Show at once that the message was received. Never raises."""
        if self._outlet is not None:
            await self._outlet.acknowledge(place)

    async def answered(self, place: Place, *, read: bool = False) -> None:
        """Remove the sign of `acknowledge`. Never raises."""
        if self._outlet is not None:
            await self._outlet.answered(place, read=read)

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> ReplyStream:
        """Begin a reply, or continue the reply with the given message id."""
        if self._outlet is None:
            return _Undeliverable()
        return self._outlet.open_reply(place, owner, message_id, begun=begun)

    async def announce(self, announcement: Announcement) -> Delivered:
        """Send an announcement to its place and ping only its owner.

        Raises:
            DeliveryError: The announcement could not be delivered.
        """
        if self._outlet is None:
            raise DeliveryError(NOT_OPEN)
        return await self._outlet.announce(announcement)

    def show_card(
        self, card: RunCard, *, begun: OnBegun = not_kept, drawn: OnDrawn = not_noted
    ) -> None:
        """Show or update a run card. Never waits."""
        if self._outlet is not None:
            self._outlet.show_card(card, begun=begun, drawn=drawn)

    async def ask(self, confirmation: Confirmation) -> str:
        """Ask the owner a question, once the platform is open.

        Raises:
            DeliveryError: The owner cannot be asked; the answer is then no.
        """
        await self._opened.wait()
        assert self._outlet is not None, "It is set before the event."
        return await self._outlet.ask(confirmation)

    async def show_settlement(self, question: Confirmation, settlement: Settlement) -> None:
        """Show the outcome of a question that is closed. Never raises."""
        if self._outlet is not None:
            await self._outlet.show_settlement(question, settlement)

    async def post(self, place: Place, owner: Identity, text: str) -> Delivered:
        """Post a text in a place for all who read there, without a ping, and nowhere else.

        Raises:
            DeliveryError: The text was not delivered.
        """
        if self._outlet is None:
            raise DeliveryError(NOT_OPEN)
        return await self._outlet.post(place, owner, text)

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Send a short text to one user, privately if the platform can do so. Never raises."""
        if self._outlet is not None:
            await self._outlet.tell(place, user, text)

    async def send_files(
        self,
        place: Place,
        owner: Identity,
        files: Sequence[OutgoingFile],
        *,
        key: str,
        maybe_repeated: bool = False,
    ) -> Delivered:
        """Post files to a place.

        Raises:
            DeliveryError: They were not delivered.
        """
        if self._outlet is None:
            raise DeliveryError(NOT_OPEN)
        return await self._outlet.send_files(
            place, owner, files, key=key, maybe_repeated=maybe_repeated
        )

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Return the newest messages of a place after a given time, oldest first."""
        if self._outlet is None:
            raise DeliveryError(NOT_OPEN)
        return await self._outlet.history(place, after, limit, opening=opening)

    async def linked(self, link: str, request: ReadRequest) -> list[PastMessage]:
        """Return the message of a link with the messages around it, oldest first."""
        if self._outlet is None:
            raise DeliveryError(NOT_OPEN)
        return await self._outlet.linked(link, request)

    async def search(self, query: str, request: ReadRequest) -> list[PastMessage]:
        """Return the messages that fit a query, the best first."""
        if self._outlet is None:
            raise DeliveryError(NOT_OPEN)
        return await self._outlet.search(query, request)


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
