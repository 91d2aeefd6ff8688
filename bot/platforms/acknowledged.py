"""Keeps the signs on messages that were received, and takes each away once it is answered."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bot.errors import DeliveryError
from bot.values import Place

log = logging.getLogger(__name__)

#: Longest wait for a platform to take a mark away.
TAKE_SECONDS = 20.0
#: How many messages are remembered; the oldest are forgotten first.
REMEMBERED = 1_000


@dataclass(slots=True)
class _Mark:
    """One message.

    Attributes:
        shown: Whether it has our reaction; `None` when another process may have put it there.
    """

    answered: bool = False
    shown: bool | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Acknowledgements:
    """Puts a mark on messages and takes it away, in this order, whichever is asked for first."""

    def __init__(self) -> None:
        self._marks: OrderedDict[Place, _Mark] = OrderedDict()

    async def put(self, place: Place, show: Callable[[], Awaitable[bool]]) -> None:
        """Mark a message, unless it was answered meanwhile.

        Args:
            place: The place with the message.
            show: Puts the mark there; returns whether there is one to be taken away.

        Raises:
            DeliveryError: It could not be done.
        """
        mark = self._of(place)
        async with mark.lock:
            if mark.answered:
                return
            mark.shown = True  # should it be cut off, the mark may be there
            try:
                mark.shown = await show()
            except DeliveryError:
                mark.shown = False
                raise

    async def take(
        self, place: Place, hide: Callable[[], Awaitable[object]], *, unknown: bool = True
    ) -> None:
        """Take the mark of a message away, once. Never raises.

        Args:
            place: The place with the message.
            hide: Takes the mark away.
            unknown: Whether to try where it is not known that there is one.
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
