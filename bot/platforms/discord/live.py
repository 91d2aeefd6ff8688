"""A message that changes while work goes on: edited, or posted anew where that cannot be."""

import logging
from dataclasses import replace

from bot.errors import DeliveryError
from bot.platforms.base import OnBegun
from bot.platforms.discord.problems import ARCHIVED, TOO_MANY_EDITS, RefusedError
from bot.platforms.discord.sending import Draft, Sender
from bot.platforms.discord.threads import Threads
from bot.values import Place

log = logging.getLogger(__name__)

#: With these a message cannot be edited although it is there.
STILL_THERE = frozenset({TOO_MANY_EDITS, ARCHIVED})


class LiveMessage:
    """One message in the thread of a place, or in its channel where there is no thread.

    Args:
        sender: Takes it.
        threads: Makes the thread if need be.
        place: Where it belongs.
        key: The same whenever this message is meant, after a crash too.
        message_id: Of the message as it was left before; empty for none.
        replies: In a channel it is a reply to the message of the place.

    Attributes:
        message_id: Empty until it is there.
        begun: Told the id whenever a message is posted.
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
        """Return the channel or thread where it is, or is going to be.

        Raises:
            DeliveryError: There is none now.
        """
        if not self._channel:
            place = self._place
            self._channel = place.thread if await self._threads.ready(place) else place.channel
        return self._channel

    async def text(self) -> str:
        """Return the text that it shows.

        Raises:
            DeliveryError: It cannot be read.
        """
        return await self._sender.text_of(await self.channel(), self.message_id)

    async def show(self, draft: Draft) -> None:
        """Let it be like this from now on.

        Raises:
            RefusedError: Not in this channel or thread.
            DeliveryError: Not now.
        """
        refused = await self._edit(draft) if self.message_id else None
        if refused is None and self.message_id:
            return
        old = self.message_id
        await self._post(draft)
        if refused is not None and refused.code in STILL_THERE:
            await self._remove(old)

    async def _edit(self, draft: Draft) -> RefusedError | None:
        """Edit it, or return why that can no longer be done."""
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
