"""Says things at the terminal, to the person at the prompt only."""

import logging
import uuid
from datetime import datetime

from bot.errors import DeliveryError
from bot.platforms.base import (
    Announcement,
    Confirmation,
    Delivered,
    OnBegun,
    RunCard,
    Settlement,
    not_kept,
)
from bot.platforms.past import PastMessage
from bot.platforms.terminal.people import PLATFORM
from bot.platforms.terminal.room import OpenReply, Room
from bot.platforms.terminal.surface import Answer, Note
from bot.platforms.terminal.texts import run_id_in, unanswered
from bot.values import Identity, Place

log = logging.getLogger(__name__)


class TerminalReply:
    """One reply: it grows in the live region, and its final text stays above it."""

    def __init__(self, room: Room, reply: OpenReply, message_id: str) -> None:
        self._room = room
        self._reply = reply
        self._message_id = message_id

    def update(self, text: str) -> None:
        """Show the whole text so far; drawn with the next frame."""
        self._reply.text = text
        self._room.stir()

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Show the final text, whole.

        Raises:
            NotPresentError: Its owner is not at the prompt.
        """
        try:
            surface = self._room.surface_for(self._reply.owner)
            await surface.show(Answer(text, failed=failed), self._close)
        finally:
            self._close()
        return Delivered((self._message_id,))

    async def abandon(self) -> None:
        """Take it off the screen: the turn will be resumed."""
        self._close()

    def _close(self) -> None:
        self._room.close_reply(self._reply)


class TerminalOutlet:
    """The terminal's outlet."""

    platform = PLATFORM

    def __init__(self, room: Room) -> None:
        self._room = room

    async def acknowledge(self, place: Place) -> None:
        """Show that the bot is thinking."""
        self._room.hear(place)

    async def answered(self, place: Place) -> None:
        """Do nothing: the reply itself shows it."""

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> TerminalReply:
        """Begin a reply; one that is gone on with is shown anew, since paper cannot be edited."""
        reply = self._room.open_reply(owner, place)
        return TerminalReply(self._room, reply, message_id or str(uuid.uuid4()))

    async def announce(self, announcement: Announcement) -> Delivered:
        """Show an announcement above the prompt.

        Raises:
            NotPresentError: Its owner is not at the prompt.
        """
        await self._room.surface_for(announcement.owner).show(announcement)
        self._room.announced(run_id_in(announcement.key))
        return Delivered((announcement.key,))

    def show_card(self, card: RunCard, *, begun: OnBegun = not_kept) -> None:
        """Show or move a run card."""
        self._room.move_card(card)

    async def ask(self, confirmation: Confirmation) -> str:
        """Show a question above the prompt.

        Raises:
            NotPresentError: Its owner is not at the prompt.
            DeliveryError: Nobody can answer here, since this is a pipe.
        """
        surface = self._room.surface_for(confirmation.owner)
        if not surface.can_ask:
            raise DeliveryError("There is nobody to ask here, so the answer is no.", permanent=True)
        await surface.show(confirmation)
        self._room.add_question(confirmation)
        return ""

    async def settle(self, question: Confirmation, settlement: Settlement) -> None:
        """Let a question wait no more; where nobody answered it, say so to its owner."""
        if self._room.drop_question(question.id) and settlement.by is None:
            await self.tell(question.place, question.owner, unanswered(question, settlement))

    async def history(self, place: Place, after: datetime | str, limit: int) -> list[PastMessage]:
        """Return nothing: the terminal keeps no messages."""
        return []

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Say a short thing to one person, if they are at the prompt."""
        try:
            await self._room.surface_for(user).show(Note(text))
        except DeliveryError as error:
            log.info("Not told in %s: %s", place.channel, error)
