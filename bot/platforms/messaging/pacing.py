"""Sends the newest of many values at a limited rate, and queues requests in their order."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from bot.errors import DeliveryError
from bot.tasks import Tasks

log = logging.getLogger(__name__)

#: The longest wait in a queue, in seconds: well below the time after which the core treats a
#: message as possibly delivered.
QUEUE_SECONDS = 30.0
CROWDED = "Earlier messages there take too long; I try again later."

T = TypeVar("T")


class Pace(Protocol):
    """Limits the rate of sends, for one message or for many messages together."""

    async def wait(self, *, final: bool) -> None:
        """Wait until a send may start.

        Args:
            final: It is the last send of its message and may overtake less important sends.
        """


@dataclass(eq=False, slots=True)
class Spacing:
    """The pace of one message: seconds between two sends, no wait before the first and the last.

    Attributes:
        seconds: The least time between two starts.
        now: A monotonic clock in seconds.
        sleep: Waits.
    """

    seconds: float
    _: KW_ONLY
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _due: float = float("-inf")

    async def wait(self, *, final: bool) -> None:
        """Wait until a send may start; the final send may start at once."""
        while not final and (left := self._due - self.now()) > 0:
            await self.sleep(left)
        self._due = self.now() + self.seconds


class Paced(Generic[T]):
    """Sends the newest of the given values; a value that a newer one replaces is never sent.

    Args:
        send: Sends one value. Its errors are logged, and the next value is sent.
        pace: Limits the rate of the sends.
        tasks: Owns the sending task.
        name: The name of the sending task, for logs: a verb with its object.

    Attributes:
        refused: Whether a value was refused permanently. Further values would be refused as well,
            and platforms count refused requests.
    """

    def __init__(
        self, send: Callable[[T], Awaitable[None]], pace: Pace, tasks: Tasks, *, name: str
    ) -> None:
        self.refused = False
        self._send = send
        self._pace = pace
        self._tasks = tasks
        self._name = name
        self._newest: tuple[T] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._in_flight = False
        self._closed = False

    def put(self, value: T) -> None:
        """Send a value as soon as the pace permits, unless a newer value replaces it."""
        if self._closed or self.refused:
            return
        self._newest = (value,)
        if self._worker is None or self._worker.done():
            self._worker = self._tasks.start(self._work(), name=self._name)

    async def close(self, *, seconds: float | None = None) -> None:
        """Discard a value that waits and wait for the send in flight.

        Args:
            seconds: Timeout for the send in flight, which is then cancelled; `None` for none.
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
            await self._pace.wait(final=False)
            newest, self._newest = self._newest, None
            self._in_flight = True
            try:
                await self._send(*newest)
            except DeliveryError as error:
                self.refused = error.permanent
                log.info("Failed to %s: %s", self._name, error)
            except Exception:
                log.exception("Failed to %s", self._name)
            finally:
                self._in_flight = False


class Queues:
    """Runs requests with the same key one after another, in order of arrival.

    Args:
        seconds: The longest wait for earlier requests; `None` for no limit. Afterwards the request
            fails, because its sender has to know that it was not sent.
    """

    def __init__(self, seconds: float | None = QUEUE_SECONDS) -> None:
        self._seconds = seconds
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def lock(self, key: Hashable) -> AsyncIterator[None]:
        """Let no other request with this key run during the block, and wait for earlier ones.

        Raises:
            DeliveryError: The earlier requests take too long.
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
