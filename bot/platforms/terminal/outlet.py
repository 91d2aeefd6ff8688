"""Shows messages at the terminal, only to the user at the prompt."""

import logging
import uuid
from datetime import datetime

from bot.errors import DeliveryError
from bot.platforms.base import (
    Announcement,
    Confirmation,
    Delivered,
    FileMessage,
    OnBegun,
    OnDrawn,
    RunCard,
    Settlement,
    not_kept,
    not_noted,
)
from bot.platforms.messages import PastMessage
from bot.platforms.reading import PlaceOnly
from bot.platforms.terminal.people import PLATFORM
from bot.platforms.terminal.state import OpenReply, TerminalState
from bot.platforms.terminal.surface import FinalReply, Notice
from bot.platforms.terminal.texts import unanswered
from bot.values import Identity, Place

log = logging.getLogger(__name__)


class TerminalReply:
    """A reply that grows in the live region; its final text is printed above."""

    def __init__(self, state: TerminalState, reply: OpenReply, message_id: str) -> None:
        self._state = state
        self._reply = reply
        self._message_id = message_id

    def update(self, text: str) -> None:
        """Show the whole text so far in the next frame."""
        self._reply.text = text
        self._state.notify()

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Print the complete final text and close the reply.

        Raises:
            NotPresentError: The owner is not at the prompt.
        """
        try:
            surface = self._state.surface_for(self._reply.owner)
            await surface.show(FinalReply(text, failed=failed), self._close)
        finally:
            self._close()
        return Delivered((self._message_id,))

    async def abandon(self) -> None:
        """Remove the reply from the screen; the turn will be resumed."""
        self._close()

    def _close(self) -> None:
        self._state.close_reply(self._reply)


class TerminalOutlet(PlaceOnly):
    """The terminal's outlet."""

    platform = PLATFORM
    takes_files = False

    def __init__(self, state: TerminalState) -> None:
        self._state = state

    async def acknowledge(self, place: Place) -> None:
        """Show that the bot is thinking."""
        self._state.receive_message(place)

    async def answered(self, place: Place, *, read: bool = False) -> None:
        """Do nothing, since the reply replaces the indicator."""

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> TerminalReply:
        """Open a reply; a resumed one is printed again, since printed text cannot be edited."""
        reply = self._state.open_reply(owner, place)
        return TerminalReply(self._state, reply, message_id or str(uuid.uuid4()))

    async def announce(self, announcement: Announcement) -> Delivered:
        """Print an announcement above the prompt.

        Raises:
            NotPresentError: The owner is not at the prompt.
        """
        await self._state.surface_for(announcement.owner).show(announcement)
        for run_id, _ in announcement.results:
            self._state.announced(run_id)
        return Delivered((announcement.key,))

    def show_card(
        self, card: RunCard, *, begun: OnBegun = not_kept, drawn: OnDrawn = not_noted
    ) -> None:
        """Show or update a run card."""
        self._state.move_card(card)

    async def ask(self, confirmation: Confirmation) -> str:
        """Print a question above the prompt.

        Raises:
            NotPresentError: The owner is not at the prompt.
            DeliveryError: The surface is a pipe, where no user can answer.
        """
        surface = self._state.surface_for(confirmation.owner)
        if not surface.can_ask:
            raise DeliveryError("There is nobody to ask here, so the answer is no.", permanent=True)
        await surface.show(confirmation)
        self._state.add_question(confirmation)
        return ""

    async def show_settlement(self, question: Confirmation, settlement: Settlement) -> None:
        """Close a question; notify its owner if it was settled without an answer."""
        if self._state.drop_question(question.id) and settlement.by is None:
            await self.tell(question.place, question.owner, unanswered(question, settlement))

    async def post(self, place: Place, owner: Identity, text: str) -> Delivered:
        """Print a short note above the prompt.

        Raises:
            NotPresentError: The owner is not at the prompt.
        """
        await self._state.surface_for(owner).show(Notice(text))
        return Delivered()

    async def send_files(self, message: FileMessage) -> Delivered:
        """Refuse files.

        Raises:
            DeliveryError: Always: they lie on this machine already.
        """
        raise DeliveryError("A terminal shows no files: they lie in the workspace.", permanent=True)

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Return an empty list, since the terminal stores no messages."""
        return []

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Show a short note to a user who is at the prompt; otherwise drop it."""
        try:
            await self._state.surface_for(user).show(Notice(text))
        except DeliveryError as error:
            log.info("A note for a user was not shown in %s: %s", place.channel, error)
