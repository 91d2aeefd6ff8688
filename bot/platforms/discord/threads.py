"""Opens the threads for mentions, once each, on first use."""

import asyncio
import logging
from dataclasses import KW_ONLY, dataclass, field

import discord

from bot.errors import DeliveryError
from bot.platforms.discord.problems import THREAD_EXISTS, UNKNOWN_MESSAGE
from bot.platforms.discord.sending import Sender
from bot.platforms.discord.texts import thread_name
from bot.platforms.messaging.outlet import RefusedError
from bot.recent import Recent
from bot.tasks import Tasks
from bot.values import Place

log = logging.getLogger(__name__)

#: Size of the cache of threads; the oldest entries are evicted first.
REMEMBERED = 10_000
#: Error codes after which the thread may still exist: opened by another process, or left after its
#: message was deleted.
MAY_BE_THERE = frozenset({THREAD_EXISTS, UNKNOWN_MESSAGE})
#: Timeout for opening a thread, and for the lookup that follows a timeout. Afterwards the channel
#: is used.
OPEN_SECONDS = 5.0


@dataclass(eq=False, slots=True)
class Threads:
    """Opens the thread of a place whose message arrived before the thread existed.

    Such a place contains the id of its thread in advance: the id of the message that starts the
    thread. If Discord does not open the thread in time, this process sends all further output of
    the place to the channel, so that answers, cards and announcements stay together and in order.
    The place still has its thread's id, and with it its conversation.

    Attributes:
        client: Caches the messages from which threads get their names.
        sender: Makes the requests.
        tasks: Owns the tasks of the requests.
        open_seconds: Timeout for opening a thread, and for the lookup afterwards.
    """

    client: discord.Client
    sender: Sender
    tasks: Tasks
    _: KW_ONLY
    open_seconds: float = OPEN_SECONDS
    _usable: Recent[str, bool] = field(default_factory=lambda: Recent(REMEMBERED))
    _under_way: dict[str, asyncio.Task[bool | DeliveryError]] = field(default_factory=dict)

    async def ready(self, place: Place) -> bool:
        """Open the thread of a place if necessary; return True if the thread is usable.

        Raises:
            DeliveryError: The thread cannot be opened now; a retry is possible soon.
        """
        if place.thread != place.message or not place.thread:
            return bool(place.thread)
        if place.thread in self._usable:
            return self._usable[place.thread]
        task = self._under_way.get(place.thread)
        if task is None:
            making = self._make(place)
            task = self.tasks.start(making, name=f"make thread {place.thread}")
            self._under_way[place.thread] = task
            task.add_done_callback(lambda _: self._under_way.pop(place.thread, None))
        # One waiting caller may be cancelled while others still need the thread.
        made = await asyncio.shield(task)
        if isinstance(made, DeliveryError):
            raise made
        return made

    async def _make(self, place: Place) -> bool | DeliveryError:
        messages = self.client.cached_messages
        found = discord.utils.find(lambda each: str(each.id) == place.message, messages)
        name = thread_name(found.content if found else "")
        usable = True
        try:
            async with asyncio.timeout(self.open_seconds):
                await self.sender.begin_thread(place.channel, place.message, name)
        except RefusedError as error:
            usable = error.code in MAY_BE_THERE
            if not usable:
                log.info("No thread for message %s: %s", place.message, error)
        except TimeoutError:
            usable = await self._exists(place)
        except DeliveryError as error:
            if error.retry_after_seconds <= self.open_seconds:
                return error
            usable = await self._exists(place)
        self._usable[place.thread] = usable
        return usable

    async def _exists(self, place: Place) -> bool:
        """Return True if the thread exists although Discord did not confirm it in time."""
        try:
            async with asyncio.timeout(self.open_seconds):
                there = await self.sender.has_channel(place.thread)
        except (DeliveryError, TimeoutError) as error:
            log.info("It is unknown whether message %s has a thread: %s", place.message, error)
            there = False
        if not there:
            log.warning(
                "Discord does not open a thread for message %s in time: it is answered in its "
                "channel",
                place.message,
            )
        return there
