"""A message that is updated while work proceeds: edited, or posted again if that fails."""

import logging
from dataclasses import replace

from bot.errors import DeliveryError
from bot.platforms.base import OnBegun
from bot.platforms.discord.problems import ARCHIVED, TOO_MANY_EDITS, RefusedError
from bot.platforms.discord.sending import Draft, Sender
from bot.platforms.discord.threads import Threads
from bot.values import Place

log = logging.getLogger(__name__)

#: Error codes of a message that exists but cannot be edited.
STILL_THERE = frozenset({TOO_MANY_EDITS, ARCHIVED})


class LiveMessage:
    """A message in the thread of a place, or in its channel if no thread is usable.

    Args:
        sender: Sends and edits the message.
        threads: Opens the thread if needed.
        place: The place of the message.
        key: The idempotency key of the message; the same after a crash.
        message_id: The id of the message from before a restart; empty for none.
        replies: Whether the message is a reply to the place's message, if sent to its channel.

    Attributes:
        message_id: The id of the message; empty until it is posted.
        begun: Called with the id of each message that is posted.
    """

    def __init__(
        self,
        sender: Sender,
        threads: Threads,
        place: Place,
        *,
        key: str,
        message_id: str,
        begun: OnBegun,
        replies: bool = False,
    ) -> None:
        self.message_id = message_id
        self.begun = begun
        self._sender = sender
        self._threads = threads
        self._place = place
        self._key = key
        self._replies = replies
        self._channel = ""

    async def channel(self) -> str:
        """Return the channel or thread of the message, also before it is posted.

        Raises:
            DeliveryError: The thread cannot be opened now.
        """
        if not self._channel:
            place = self._place
            self._channel = place.thread if await self._threads.ready(place) else place.channel
        return self._channel

    async def text(self) -> str:
        """Return the text of the message.

        Raises:
            DeliveryError: The message cannot be read.
        """
        return await self._sender.text_of(await self.channel(), self.message_id)

    async def show(self, draft: Draft) -> None:
        """Update the message to the draft; post it if it does not exist or cannot be edited.

        Raises:
            RefusedError: Discord refuses the message in this channel or thread.
            DeliveryError: The request failed for now.
        """
        refused = await self._edit(draft) if self.message_id else None
        if refused is None and self.message_id:
            return
        old = self.message_id
        await self._post(draft)
        if refused is not None and refused.code in STILL_THERE:
            await self._remove(old)

    async def _edit(self, draft: Draft) -> RefusedError | None:
        """Edit the message; return the refusal if it can no longer be edited."""
        place, refused = self._place, None
        for channel in dict.fromkeys(filter(None, (self._channel, place.thread, place.channel))):
            try:
                await self._sender.edit(channel, self.message_id, draft)
            except RefusedError as error:
                refused = error
                if error.code not in STILL_THERE:
                    continue
            else:
                refused = None
            self._channel = channel
            break
        if refused:
            log.info("Message %s has to be posted anew: %s", self.message_id, refused)
        return refused

    async def _post(self, draft: Draft) -> None:
        channel, place = await self.channel(), self._place
        answers = self._replies and place.workspace and channel == place.channel
        draft = replace(draft, reply_to=place.message if answers else "")
        key = f"{self._key} after {self.message_id}"
        self.message_id = await self._sender.post(channel, draft, key=key, exact=True)
        self.begun(self.message_id)

    async def _remove(self, message_id: str) -> None:
        try:
            await self._sender.delete(self._channel, message_id)
        except DeliveryError as error:
            log.info("The old message %s was not deleted: %s", message_id, error)
