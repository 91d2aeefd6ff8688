"""Updates one message during work: edits the message, or replaces it by a new message."""

import logging
from dataclasses import replace

from bot.conversations.access import is_private
from bot.errors import DeliveryError
from bot.platforms.base import OnBegun
from bot.platforms.slack.problems import CONTENT, STILL_THERE, STREAMING, RefusedError
from bot.platforms.slack.sending import FINAL_REST_SECONDS, Draft, Sender
from bot.platforms.slack.status import PROCESSING
from bot.values import Place

log = logging.getLogger(__name__)


class LiveMessage:
    """One message in the thread of a place, or in its channel if the place has no thread.

    Args:
        sender: Sends the message.
        place: The place of the message.
        message_id: The id of a message from an earlier process; empty for none.
        begun: See below.

    Attributes:
        message_id: The id of the message; empty until the message exists.
        begun: Called with the id of each message that is posted.
        place: The current or future place of the message.
    """

    def __init__(self, sender: Sender, place: Place, *, message_id: str, begun: OnBegun) -> None:
        self.message_id = message_id
        self.begun = begun
        self.place = place
        self._sender = sender

    def is_there(self, message_id: str) -> None:
        """Adopt a message that was posted elsewhere, for instance as a stream."""
        self.message_id = message_id
        self.begun(message_id)

    async def text(self) -> str:
        """Return the visible text of the message.

        Raises:
            DeliveryError: The message cannot be read.
        """
        return await self._sender.text_of(self.place, self.message_id)

    async def show(self, draft: Draft, *, final: bool = False) -> None:
        """Edit the message, or post a new message if it cannot be edited.

        Args:
            draft: The new content.
            final: Post a new message also if the rate limit delays the edit by more than
                `FINAL_REST_SECONDS`.

        Raises:
            RefusedError: Slack refuses the message in this channel or thread.
            DeliveryError: Slack does not accept the message now.
        """
        refused = await self._edit(draft, final=final) if self.message_id else None
        if refused is None and self.message_id:
            return
        old = self.message_id
        self.is_there(await self._sender.post(self.place, draft))
        if refused is not None and (
            not isinstance(refused, RefusedError) or refused.code in STILL_THERE | CONTENT
        ):
            await self._remove(old)

    def leave_thread(self) -> bool:
        """Continue with a new message outside of the thread; return False if that is impossible.

        Call this when the thread accepts no more messages. Only direct messages have the same
        reader outside of their threads.
        """
        if not self.place.thread or not is_private(self.place):
            return False
        self.place = replace(self.place, thread="")
        self.message_id = ""
        return True

    async def _edit(self, draft: Draft, *, final: bool) -> DeliveryError | None:
        """Edit the message; return the error if it can never, or not soon enough, be edited."""
        try:
            await self._edit_though_streaming(draft, final=final)
        except RefusedError as error:
            if error.token_refused:
                raise
            log.info("Message %s has to be posted anew: %s", self.message_id, error)
            return error
        except DeliveryError as error:
            if not final or error.retry_after_seconds <= FINAL_REST_SECONDS:
                raise
            log.info("Message %s is posted anew, which waits less: %s", self.message_id, error)
            return error
        return None

    async def _edit_though_streaming(self, draft: Draft, *, final: bool) -> None:
        try:
            await self._sender.edit(self.place, self.message_id, draft, final=final)
        except RefusedError as error:
            if error.code != STREAMING:
                raise
            # An earlier process could not end its stream.
            await self._sender.stop_stream(self.place, self.message_id, session=PROCESSING)
            await self._sender.edit(self.place, self.message_id, draft, final=final)

    async def _remove(self, message_id: str) -> None:
        try:
            await self._sender.delete(self.place, message_id)
        except DeliveryError as error:
            log.info("The old message %s was not deleted: %s", message_id, error)
