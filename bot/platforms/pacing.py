"""The newest of many values, sent one at a time and not too often; and requests in their order."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from bot.errors import DeliveryError
from bot.tasks import Tasks

log = logging.getLogger(__name__)

#: The longest wait behind other messages: well below the time after which the core takes a message
#: for one that may have arrived.
QUEUE_SECONDS = 30.0
CROWDED = "Earlier messages there take too long; I try again later."

T = TypeVar("T")


class Pace(Protocol):
    """Says when a send may start: a pace for one message, or one that many share."""

    async def turn(self, *, final: bool) -> None:
        """Wait until a send may start.

        Args:
            final: No other comes after it, so that it may overtake those that do not matter.
        """
        ...


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Spacing:
    """The pace of one message: seconds between two sends, but none before the first and the last.

    Args:
        seconds: The least time between two starts.
        now: A clock in seconds that never goes back; the loop's, unless another is given.
        sleep: Waits.
    """

    def __init__(
        self,
        seconds: float,
        *,
        now: Callable[[], float] = _loop_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._seconds = seconds
        self._now = now
        self._sleep = sleep
        self._due = float("-inf")

    async def turn(self, *, final: bool) -> None:
        """Wait until a send may start; the last one may at once."""
        while not final and (left := self._due - self._now()) > 0:
            await self._sleep(left)
        self._due = self._now() + self._seconds


def _logged(error: Exception) -> None:
    log.warning("A send failed; the next one shows more: %s", error)


class Paced(Generic[T]):
    """Sends the newest of the values that it is given; those in between are never sent.

    Args:
        send: Sends one value. What goes wrong in it is told to `failed`, and the next is sent.
        pace: When a send may start.
        tasks: Owns the sending.
        name: Of the sending, for logs.
        failed: Told what went wrong with a value that was not the last.
    """

    def __init__(
        self,
        send: Callable[[T], Awaitable[None]],
        pace: Pace,
        tasks: Tasks,
        *,
        name: str,
        failed: Callable[[Exception], None] = _logged,
    ) -> None:
        self._send = send
        self._pace = pace
        self._tasks = tasks
        self._name = name
        self._failed = failed
        self._newest: tuple[T] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._in_flight = False
        self._closed = False

    def put(self, value: T) -> None:
        """Send a value as soon as its turn comes, unless a newer one is there by then."""
        if self._closed:
            return
        self._newest = (value,)
        if self._worker is None or self._worker.done():
            self._worker = self._tasks.start(self._work(), name=self._name)

    async def flush(self, value: T) -> None:
        """Send a last value, after the one in flight and instead of all that wait.

        Whatever goes wrong with it is raised here.
        """
        await self.close()
        await self._pace.turn(final=True)
        await self._send(value)

    async def close(self, *, seconds: float | None = None) -> None:
        """Send nothing more, and wait for what is in flight.

        Args:
            seconds: What is in flight for longer than this is given up.
        """
        self._closed = True
        self._newest = None
        if self._worker is None:
            return
        if not self._in_flight:
            self._worker.cancel()
        await asyncio.wait({self._worker}, timeout=seconds)
        self._worker.cancel()

    async def _work(self) -> None:
        while self._newest is not None:
            await self._pace.turn(final=False)
            newest, self._newest = self._newest, None
            self._in_flight = True
            try:
                await self._send(*newest)
            except Exception as error:  # noqa: BLE001 - told to whoever knows what it means
                self._failed(error)
            finally:
                self._in_flight = False


class Queues:
    """Lets requests under one key go one after another, in the order in which they came.

    Args:
        seconds: The longest wait for a turn: what waits is not sent, and its sender has to know.
    """

    def __init__(self, seconds: float = QUEUE_SECONDS) -> None:
        self._seconds = seconds
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for a turn, and give it back when the block ends.

        Raises:
            DeliveryError: Those before take too long.
        """
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with asyncio.timeout(self._seconds):
                await lock.acquire()
        except TimeoutError:
            raise DeliveryError(CROWDED) from None
        try:
            yield
        finally:
            lock.release()
