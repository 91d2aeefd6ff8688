"""Updates messages during work: one message, and a reply that grows in its message."""

import logging
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from bot.errors import DeliveryError
from bot.platforms.base import Delivered, OnBegun, not_kept
from bot.platforms.messaging.pacing import Pace, Paced
from bot.platforms.messaging.splitting import MessageParts
from bot.tasks import Tasks

log = logging.getLogger(__name__)

#: Timeout of an edit in flight when a reply is abandoned, in seconds.
LEAVE_SECONDS = 1.0
FILE_NAME = "answer.md"

DraftT = TypeVar("DraftT")


@dataclass(eq=False, kw_only=True)
class LiveMessage(ABC, Generic[DraftT]):
    """A message that is edited during work, or replaced if it can no longer be edited.

    Attributes:
        message_id: The id of the message, of one from before a restart as well; empty until the
            message exists.
        begun: Called with the id of each message that is posted.
    """

    message_id: str
    begun: OnBegun = not_kept

    def adopt(self, message_id: str) -> None:
        """Continue with a message that exists from now on."""
        self.message_id = message_id
        self.begun(message_id)

    async def show(self, draft: DraftT, *, final: bool = False) -> None:
        """Edit the message; post a new message if there is none or it cannot be edited.

        Args:
            draft: The new content.
            final: No later content follows, so an edit must not wait long for a rate limit.

        Raises:
            DeliveryError: The platform does not accept the message; if permanent, it never will.
        """
        refused = await self.edit(draft, final=final) if self.message_id else None
        if refused is None and self.message_id:
            return
        old = self.message_id
        self.adopt(await self.post(draft))
        if refused is None:
            return
        log.info("Message %s was posted anew: %s", old, refused)
        if self.still_shown(refused):
            await self._delete(old)

    async def move_down(self, draft: DraftT) -> None:
        """Post the content as the newest message, and delete the message before.

        Raises:
            DeliveryError: The platform does not accept the new message; the old one stays.
        """
        old = self.message_id
        self.adopt(await self.post(draft))
        await self._delete(old)

    async def _delete(self, message_id: str) -> None:
        try:
            await self.delete(message_id)
        except DeliveryError as error:
            log.info("The old message %s was not deleted: %s", message_id, error)

    @abstractmethod
    async def text(self) -> str:
        """Return the visible text of the message.

        Raises:
            DeliveryError: The message cannot be read.
        """

    @abstractmethod
    async def post(self, draft: DraftT) -> str:
        """Post a message and return its id.

        Raises:
            DeliveryError: The message was not accepted.
        """

    @abstractmethod
    async def edit(self, draft: DraftT, *, final: bool) -> DeliveryError | None:
        """Edit the message; return the error if it can no longer, or not soon enough, be edited.

        Raises:
            DeliveryError: The edit may succeed later.
        """

    @abstractmethod
    def still_shown(self, refused: DeliveryError) -> bool:
        """Return True if a message exists although its edit was refused."""

    @abstractmethod
    async def delete(self, message_id: str) -> None:
        """Delete an earlier message.

        Raises:
            DeliveryError: The message was not deleted.
        """


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
        self._covered = False
        self._paced = Paced(self._grow, pace, tasks, name="update a reply")

    def update(self, text: str) -> None:
        """Show the whole text so far; the newest text wins, at the platform's rate. Never waits."""
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

    def cover(self) -> None:
        """Note that another message of the turn stands below, if the reply has begun."""
        self._covered = self._covered or bool(self._message.message_id)

    async def abandon(self) -> None:
        """Leave the message unchanged: this or another process will resume the turn."""
        self._ended(abandoned=True)
        await self._paced.close(seconds=LEAVE_SECONDS)

    async def _grow(self, text: str) -> None:
        """Show a part of the text, unless that removes words which users read before a restart.

        A resumed step begins its text anew, and a message that cannot be read gets no drafts.
        """
        markdown = await self._preview(text)
        if not markdown or markdown == self._shown:
            return
        if self._resumed:
            self._resumed = False
            try:
                self._shown_before = len(await self._message.text())
            except DeliveryError as error:
                log.info("A resumed reply shows no drafts: %s", error)
                self._shown_before = sys.maxsize
        if len(markdown) >= self._shown_before:
            self._shown_before = 0
            await self._message.show(self._draft(markdown))
            self._shown = markdown

    async def _finish_first(self, markdown: str) -> None:
        """Show the final text of the first message, below all cards of the turn."""
        if self._covered:
            await self._pace.wait(final=True)
            await self._message.move_down(self._draft(markdown))
            self._shown = markdown
        elif markdown != self._shown:
            await self._pace.wait(final=True)
            await self._message.show(self._draft(markdown), final=True)
            self._shown = markdown

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
