"""Adds a reaction to each received message and removes it once the message is answered."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bot.errors import DeliveryError
from bot.values import Place

log = logging.getLogger(__name__)

#: Longest wait for a platform to remove a mark, in seconds.
TAKE_SECONDS = 20.0
#: Most messages in the cache; the oldest are evicted first.
REMEMBERED = 1_000


@dataclass(slots=True)
class _Mark:
    """The state of the mark of one message.

    Attributes:
        shown: Whether the message has our reaction; `None` when another process may have added it.
    """

    answered: bool = False
    shown: bool | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Acknowledgements:
    """Adds marks to messages and removes them.

    A mark that is removed before it was added is never added.
    """

    def __init__(self) -> None:
        self._marks: OrderedDict[Place, _Mark] = OrderedDict()

    async def put(self, place: Place, show: Callable[[], Awaitable[bool]]) -> None:
        """Mark a message, unless it was answered meanwhile.

        Args:
            place: The place with the message.
            show: Adds the mark; returns True if the mark has to be removed later.

        Raises:
            DeliveryError: The mark could not be added.
        """
        mark = self._of(place)
        async with mark.lock:
            if mark.answered:
                return
            mark.shown = True  # if `show` is cancelled, the mark may exist
            try:
                mark.shown = await show()
            except DeliveryError:
                mark.shown = False
                raise

    async def take(
        self, place: Place, hide: Callable[[], Awaitable[object]], *, unknown: bool = True
    ) -> None:
        """Remove the mark of a message, once. Never raises.

        Args:
            place: The place with the message.
            hide: Removes the mark.
            unknown: Call `hide` also if it is unknown whether the message has a mark.
        """
        mark = self._of(place)
        mark.answered = True
        try:
            async with asyncio.timeout(TAKE_SECONDS), mark.lock:
                shown, mark.shown = mark.shown, False
                if unknown if shown is None else shown:
                    await hide()
        except (DeliveryError, TimeoutError) as error:
            log.info("It is still shown that a message was heard: %s", error)

    def _of(self, place: Place) -> _Mark:
        mark = self._marks.setdefault(place, _Mark())
        self._marks.move_to_end(place)
        if len(self._marks) > REMEMBERED:
            self._marks.popitem(last=False)
        return mark
