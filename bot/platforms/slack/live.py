"""A message that changes while work goes on: edited, or posted anew where that cannot be."""

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
    """One message in the thread of a place, or in its channel where there is no thread.

    Args:
        sender: Takes it.
        place: Where it belongs.
        message_id: Of the message as it was left before; empty for none.
        begun: See below.

    Attributes:
        message_id: Empty until it is there.
        begun: Told the id whenever a message is posted.
        place: Where it is, or is going to be.
    """

    def __init__(self, sender: Sender, place: Place, *, message_id: str, begun: OnBegun) -> None:
        self.message_id = message_id
        self.begun = begun
        self.place = place
        self._sender = sender

    def is_there(self, message_id: str) -> None:
        """Take over a message that somebody else has begun."""
        self.message_id = message_id
        self.begun(message_id)

    async def text(self) -> str:
        """Return the text that it shows.

        Raises:
            DeliveryError: It cannot be read.
        """
        return await self._sender.text_of(self.place, self.message_id)

    async def show(self, draft: Draft, *, final: bool = False) -> None:
        """Let it be like this from now on.

        Args:
            draft: What it shows.
            final: It is posted anew when Slack takes no edit for longer than a few seconds.

        Raises:
            RefusedError: Not in this channel or thread.
            DeliveryError: Not now.
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
        """Go on with a new message outside of the thread; return whether that is possible.

        To be done when the thread takes no messages any more. Only direct messages have the same
        reader outside of their threads.
        """
        if not self.place.thread or not is_private(self.place):
            return False
        self.place = replace(self.place, thread="")
        self.message_id = ""
        return True

    async def _edit(self, draft: Draft, *, final: bool) -> DeliveryError | None:
        """Edit it, or return why that can no longer be done, or not soon enough."""
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
            # Whoever streamed it was not able to end that.
            await self._sender.stop_stream(self.place, self.message_id, session=PROCESSING)
            await self._sender.edit(self.place, self.message_id, draft, final=final)

    async def _remove(self, message_id: str) -> None:
        try:
            await self._sender.delete(self.place, message_id)
        except DeliveryError as error:
            log.info("The old message %s was not deleted: %s", message_id, error)
