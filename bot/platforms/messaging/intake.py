"""Shared inbound handling: de-duplication, ordering per key, rate-limited refusals."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from bot.errors import DatabaseUnreachableError
from bot.tasks import Tasks

Result = TypeVar("Result")

#: Interval between two refusals to the same user in the same channel, in seconds.
TELL_AGAIN_SECONDS = 3_600.0
#: Most keys in the cache; the oldest are evicted first.
REMEMBERED = 10_000

#: Backoff before each further attempt, in seconds: five minutes in all. Each pause is short, so
#: that a message is stored soon after the database is back.
STORE_PAUSES = (1.0, 2.0, 5.0, 10.0, 15.0, *(20.0,) * 14)

AGAIN = "I try again by myself for a few minutes, so do not send it twice."
GIVEN_UP = "I could not take what you said: {reason} Please send it again later."

TROUBLE = "Something went wrong on our side; the log has the details. Please try again."
DONE_ALREADY = "That was done already."
NO_TEXT = "That message has no text that I can read. Tell me in words what I can do for you."
NO_DIRECT_MESSAGES = "I do not answer direct messages. Mention me in a {where} instead."
NOT_THIS_PLACE = "I do not answer in this {where}. The people who run me choose where I do."
NOT_YOU = "You cannot use this bot here. Ask the people who run it if you think you should."


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """The reason for which a user gets no answer.

    Attributes:
        silent: The bot is not admitted to this place: ignore its messages.
    """

    text: str
    silent: bool = False


class Deduplicator:
    """De-duplicates events and tracks the tasks that handle them.

    Args:
        monotonic: A monotonic clock in seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._last: OrderedDict[Hashable, float] = OrderedDict()
        self._under_way: set[asyncio.Task[object]] = set()

    def first(self, key: Hashable, *, again_after: float = float("inf")) -> bool:
        """Return True, and record the time, if an event is new or its last record has expired.

        Args:
            key: The key of the event.
            again_after: Seconds after which a record expires.
        """
        now = self._now()
        last = self._last.get(key)
        if last is not None and now - last < again_after:
            return False
        self._last[key] = now
        self._last.move_to_end(key)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        return True

    def forget(self, key: Hashable) -> None:
        """Remove an event from the cache, so that it counts as new again."""
        self._last.pop(key, None)

    def may_notify(self, account: str, channel: str) -> bool:
        """Return True if a refusal may be sent: once an hour per user and channel."""
        return self.first(("refused", account, channel), again_after=TELL_AGAIN_SECONDS)

    @contextmanager
    def tracking(self) -> Iterator[None]:
        """Let `settle` wait for the task that executes this block."""
        task = asyncio.current_task()
        assert task is not None, "Only tasks attend to somebody."
        self._under_way.add(task)
        try:
            yield
        finally:
            self._under_way.discard(task)

    async def settle(self, seconds: float) -> None:
        """Wait until the tracked tasks have finished, at most `seconds`."""
        if pending := set(self._under_way):
            await asyncio.wait(pending, timeout=seconds)


class KeyedQueue:
    """Runs work with the same key one after the other, in order of arrival.

    Args:
        tasks: Owns the tasks.
        attendance: Tracks the tasks.
    """

    def __init__(self, tasks: Tasks, attendance: Deduplicator) -> None:
        self._tasks = tasks
        self._attendance = attendance
        self._newest: dict[Hashable, asyncio.Task[Any]] = {}

    def start(
        self, key: Hashable, work: Coroutine[Any, Any, Result], *, name: str
    ) -> asyncio.Task[Result]:
        """Start work as soon as all earlier work with the same key has finished."""

        async def queued(before: asyncio.Task[Any] | None) -> Result:
            with self._attendance.tracking():
                if before is not None:
                    await asyncio.wait([before])
                return await work

        def done(ended: asyncio.Task[Result]) -> None:
            work.close()  # if the task was cancelled before the work began
            if self._newest.get(key) is ended:
                del self._newest[key]

        task = self._tasks.start(queued(self._newest.get(key)), name=name)
        self._newest[key] = task
        task.add_done_callback(done)
        return task


async def retry_until_stored(
    store: Callable[[], Awaitable[Result]],
    on_wait: Callable[[int, DatabaseUnreachableError], Awaitable[None]],
    *,
    pauses: tuple[float, ...] = STORE_PAUSES,
) -> Result:
    """Return the result of `store`, with a retry after each pause while the database is down.

    Args:
        store: Stores the message.
        on_wait: Called before each pause with its number, from 0 on, and the reason.
        pauses: The pauses, in seconds.

    Raises:
        DatabaseUnreachableError: The database was still unreachable after the last pause.
    """
    for number, pause in enumerate(pauses):
        try:
            return await store()
        except DatabaseUnreachableError as error:
            await on_wait(number, error)
        await asyncio.sleep(pause)
    return await store()
