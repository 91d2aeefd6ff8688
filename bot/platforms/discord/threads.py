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


class Threads:
    """Makes the thread of a place that was heard before its thread was there.

    Such a place names a thread that has the id of the message that it begins with.
    """

    def __init__(self, client: discord.Client, sender: Sender, tasks: Tasks) -> None:
        self._client = client
        self._sender = sender
        self._tasks = tasks
        self._usable: OrderedDict[str, bool] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[bool | DeliveryError]] = {}

    async def ready(self, place: Place) -> bool:
        """Return whether the thread of a place may be written to; make it if it is yet to be made.

        Raises:
            DeliveryError: It cannot be made now.
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
            await self._sender.begin_thread(place.channel, place.message, self._name(place))
        except RefusedError as error:
            usable = error.code in MAY_BE_THERE
            if not usable:
                log.info("No thread for message %s: %s", place.message, error)
        except DeliveryError as error:
            return error
        self._usable[place.thread] = usable
        if len(self._usable) > REMEMBERED:
            self._usable.popitem(last=False)
        return usable

    def _name(self, place: Place) -> str:
        messages = self._client.cached_messages
        found = discord.utils.find(lambda each: str(each.id) == place.message, messages)
        return thread_name(found.content if found else "")
