"""Shared inbound handling: de-duplication, ordering per key, rate-limited refusals."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from bot.tasks import Tasks

Result = TypeVar("Result")

#: Interval between two refusals to the same user in the same channel, in seconds.
TELL_AGAIN_SECONDS = 3_600.0
#: Most keys in the cache; the oldest are evicted first.
REMEMBERED = 10_000

TROUBLE = "Something went wrong on our side; the log has the details. Please try again."
DONE_ALREADY = "That was done already."
NO_TEXT = "That message has no text that I can read. Tell me in words what I can do for you."
NO_DIRECT_MESSAGES = "I do not answer direct messages. Mention me in a {where} instead."
NOT_THIS_PLACE = "I do not answer in this {where}. The people who run me choose where I do."
NOT_YOU = "You cannot use this bot here. Ask the people who run it if you think you should."


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for which a user gets no answer.

    Attributes:
        silent: The bot is not admitted to this place: ignore its messages.
    """

    text: str
    silent: bool = False


class Attendance:
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

    def may_tell(self, account: str, channel: str) -> bool:
        """Return True if a refusal may be sent: once an hour per user and channel."""
        return self.first(("refused", account, channel), again_after=TELL_AGAIN_SECONDS)

    @contextmanager
    def attending(self) -> Iterator[None]:
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


class Lines:
    """Runs work with the same key one after the other, in order of arrival.

    Args:
        tasks: Owns the tasks.
        attendance: Tracks the tasks.
    """

    def __init__(self, tasks: Tasks, attendance: Attendance) -> None:
        self._tasks = tasks
        self._attendance = attendance
        self._newest: dict[Hashable, asyncio.Task[Any]] = {}

    def start(
        self, key: Hashable, work: Coroutine[Any, Any, Result], *, name: str
    ) -> asyncio.Task[Result]:
        """Start work as soon as all earlier work with the same key has finished."""

        async def queued(before: asyncio.Task[Any] | None) -> Result:
            with self._attendance.attending():
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
