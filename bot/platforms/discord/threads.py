"""The threads that mentions open: made when they are first needed, once."""

import asyncio
import logging
from collections import OrderedDict

import discord

from bot.errors import DeliveryError
from bot.platforms.discord.problems import THREAD_EXISTS, UNKNOWN_MESSAGE, RefusedError
from bot.platforms.discord.sending import Sender
from bot.platforms.discord.texts import thread_name
from bot.tasks import Tasks
from bot.values import Place

log = logging.getLogger(__name__)

#: How many threads are remembered; the oldest are forgotten first.
REMEMBERED = 10_000
#: With these it may be there all the same: made by another process, or left without its message.
MAY_BE_THERE = frozenset({THREAD_EXISTS, UNKNOWN_MESSAGE})
#: What takes longer to open is answered in the channel; so long it is looked for as well.
OPEN_SECONDS = 5.0


class Threads:
    """Makes the thread of a place that was heard before its thread was there.

    Such a place names a thread that has the id of the message that it begins with. When Discord
    does not open it in time, the channel is used instead, for all that this process still says in
    that place: answers, cards and announcements stay together and in order. The place keeps the
    name of its thread, and with it its conversation.

    Args:
        client: Remembers messages, after which threads are named.
        sender: Asks for them.
        tasks: Owns the requests.
        open_seconds: The time for opening a thread, and for looking for it afterwards.
    """

    def __init__(
        self,
        client: discord.Client,
        sender: Sender,
        tasks: Tasks,
        *,
        open_seconds: float = OPEN_SECONDS,
    ) -> None:
        self._client = client
        self._sender = sender
        self._tasks = tasks
        self._open_seconds = open_seconds
        self._usable: OrderedDict[str, bool] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[bool | DeliveryError]] = {}

    async def ready(self, place: Place) -> bool:
        """Return whether the thread of a place may be written to; make it if it is yet to be made.

        Raises:
            DeliveryError: It cannot be made now, and Discord did not ask to wait for long.
        """
        if place.thread != place.message or not place.thread:
            return bool(place.thread)
        if place.thread in self._usable:
            return self._usable[place.thread]
        task = self._under_way.get(place.thread)
        if task is None:
            making = self._make(place)
            task = self._tasks.start(making, name=f"make thread {place.thread}")
            self._under_way[place.thread] = task
            task.add_done_callback(lambda _: self._under_way.pop(place.thread, None))
        # Whoever waits for it may give up; the others need it all the same.
        made = await asyncio.shield(task)
        if isinstance(made, DeliveryError):
            raise made
        return made

    async def _make(self, place: Place) -> bool | DeliveryError:
        usable = True
        try:
            async with asyncio.timeout(self._open_seconds):
                await self._sender.begin_thread(place.channel, place.message, self._name(place))
        except RefusedError as error:
            usable = error.code in MAY_BE_THERE
            if not usable:
                log.info("No thread for message %s: %s", place.message, error)
        except TimeoutError:
            usable = await self._exists(place)
        except DeliveryError as error:
            if error.retry_after_seconds <= self._open_seconds:
                return error
            usable = await self._exists(place)
        self._usable[place.thread] = usable
        if len(self._usable) > REMEMBERED:
            self._usable.popitem(last=False)
        return usable

    async def _exists(self, place: Place) -> bool:
        """Return whether the thread is there although Discord did not say so in time."""
        try:
            async with asyncio.timeout(self._open_seconds):
                there = await self._sender.has_channel(place.thread)
        except (DeliveryError, TimeoutError) as error:
            log.info("It cannot be told whether message %s has a thread: %s", place.message, error)
            there = False
        if not there:
            log.warning(
                "Discord does not open a thread for message %s in time: it is answered in its "
                "channel",
                place.message,
            )
        return there

    def _name(self, place: Place) -> str:
        messages = self._client.cached_messages
        found = discord.utils.find(lambda each: str(each.id) == place.message, messages)
        return thread_name(found.content if found else "")
