"""Shows a reply in one message that grows while the model generates it."""

import logging
import sys
from abc import ABC, abstractmethod
from typing import Generic

from bot.errors import DeliveryError
from bot.platforms.base import Delivered
from bot.platforms.messaging.live import DraftT, LiveMessage
from bot.platforms.messaging.pacing import Pace, Paced
from bot.platforms.messaging.splitting import MessageParts
from bot.tasks import Tasks

log = logging.getLogger(__name__)

#: Timeout of an edit in flight when a reply is abandoned, in seconds.
LEAVE_SECONDS = 1.0
FILE_NAME = "answer.md"


class GrowingReply(ABC, Generic[DraftT]):
    """A reply that grows by edits of one message and ends in as many messages as necessary.

    Implements `ReplyStream`; an adapter adds the formats of its platform.

    Args:
        message: The first message of the reply.
        pace: The pace of the edits.
        tasks: Owns the task of the edits.
    """

    def __init__(self, message: LiveMessage[DraftT], pace: Pace, tasks: Tasks) -> None:
        self._message = message
        self._pace = pace
        #: Whether an earlier process began the message, and its text was not read yet.
        self._resumed = bool(message.message_id)
        self._shown_before = 0
        self._shown = ""
        self._refused = False
        self._paced = Paced(self._grow, pace, tasks, name="move a reply", failed=self._failed)

    def update(self, text: str) -> None:
        """Show the whole text so far; the newest text wins, at the platform's rate. Never waits."""
        if not self._refused:
            self._paced.put(text)

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Show the complete final text, in as many messages as necessary.

        Raises:
            DeliveryError: The text could not be delivered.
        """
        try:
            await self._paced.close()
            parts = await self._parts(text)
            await self._finish_first(parts.texts[0])
            rest = await self._post_rest(parts) if len(parts.texts) > 1 else ()
            return Delivered((self._message.message_id, *rest))
        finally:
            self._ended()

    async def abandon(self) -> None:
        """Leave the message unchanged: this or another process will resume the turn."""
        self._ended(abandoned=True)
        await self._paced.close(seconds=LEAVE_SECONDS)

    async def _grow(self, text: str) -> None:
        """Show a part of the text."""
        markdown = await self._preview(text)
        if markdown and markdown != self._shown and not await self._shortens(markdown):
            await self._message.show(self._draft(markdown))
            self._was_shown(markdown)

    async def _shortens(self, draft: str) -> bool:
        """Return True if a draft would remove words that users have read before a restart.

        A resumed step begins its text anew, and a message that cannot be read gets no drafts.
        """
        if self._resumed:
            self._resumed = False
            try:
                self._shown_before = len(await self._message.text())
            except DeliveryError as error:
                log.info("A resumed reply shows no drafts: %s", error)
                self._shown_before = sys.maxsize
        if len(draft) < self._shown_before:
            return True
        self._shown_before = 0
        return False

    async def _finish_first(self, markdown: str) -> None:
        """Show the final text of the first message."""
        if markdown != self._shown:
            await self._pace.turn(final=True)
            await self._message.show(self._draft(markdown), final=True)
            self._was_shown(markdown)

    def _was_shown(self, markdown: str) -> None:
        self._shown = markdown

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, DeliveryError):
            log.error("A reply could not be moved", exc_info=error)
            return
        log.info("A reply was not moved: %s", error)
        # A permanent refusal would repeat: only the final text is attempted again.
        self._refused = error.permanent

    @abstractmethod
    async def _preview(self, text: str) -> str:
        """Return a growing text in the platform's format, as one message."""

    @abstractmethod
    async def _parts(self, text: str) -> MessageParts:
        """Return the final text in the platform's format, split into messages."""

    @abstractmethod
    def _draft(self, markdown: str) -> DraftT:
        """Return the content of the first message."""

    @abstractmethod
    async def _post_rest(self, parts: MessageParts) -> tuple[str, ...]:
        """Post all parts but the first and return the ids of their messages."""

    @abstractmethod
    def _ended(self, *, abandoned: bool = False) -> None:
        """Remove the sign that a reply is in progress; called more than once."""
