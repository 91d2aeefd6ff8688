"""What every platform's hearing shares: once each, in order, and nobody told the same twice."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from bot.tasks import Tasks

Result = TypeVar("Result")

#: How long nobody is told again that they may not.
TELL_AGAIN_SECONDS = 3_600.0
#: How many things are remembered; the oldest are forgotten first.
REMEMBERED = 10_000

TROUBLE = "Something went wrong on our side; the log has the details. Please try again."
DONE_ALREADY = "That was done already."
NO_TEXT = "That message has no text that I can read. Tell me in words what I can do for you."
NO_DIRECT_MESSAGES = "I do not answer direct messages. Mention me in a {where} instead."
NOT_THIS_PLACE = "I do not answer in this {where}. The people who run me choose where I do."
NOT_YOU = "You cannot use this bot here. Ask the people who run it if you think you should."


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody gets no answer.

    Attributes:
        silent: The bot is not for this place at all: messages there are passed over.
    """

    text: str
    silent: bool = False


class Attendance:
    """Remembers what came already, and knows what is still being seen to.

    Args:
        monotonic: A clock in seconds that never goes back.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._last: OrderedDict[Hashable, float] = OrderedDict()
        self._under_way: set[asyncio.Task[object]] = set()

    def first(self, key: Hashable, *, again_after: float = float("inf")) -> bool:
        """Say whether something happens for the first time, or for the first time in so long.

        Args:
            key: What happens.
            again_after: Seconds after which it counts as new.
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
        """Let something count as new when it happens again."""
        self._last.pop(key, None)

    def may_tell(self, account: str, channel: str) -> bool:
        """Say whether a refusal is worth a sentence: once an hour per person and channel."""
        return self.first(("refused", account, channel), again_after=TELL_AGAIN_SECONDS)

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Let `settle` wait for the task that is in this block."""
        task = asyncio.current_task()
        assert task is not None, "Only tasks attend to somebody."
        self._under_way.add(task)
        try:
            yield
        finally:
            self._under_way.discard(task)

    async def settle(self, seconds: float) -> None:
        """Wait until nothing is being seen to any more, at most so long."""
        if pending := set(self._under_way):
            await asyncio.wait(pending, timeout=seconds)


class Lines:
    """Lets things be done one after the other where their order counts.

    Args:
        tasks: Owns what is done.
        attendance: Is told of it.
    """

    def __init__(self, tasks: Tasks, attendance: Attendance) -> None:
        self._tasks = tasks
        self._attendance = attendance
        self._newest: dict[Hashable, asyncio.Task[Any]] = {}

    def start(
        self, key: Hashable, work: Coroutine[Any, Any, Result], *, name: str
    ) -> asyncio.Task[Result]:
        """Start something once all that came before it under the same key is done."""

        async def queued(before: asyncio.Task[Any] | None) -> Result:
            with self._attendance.attending():
                if before is not None:
                    await asyncio.wait([before])
                return await work

        def done(ended: asyncio.Task[Result]) -> None:
            work.close()  # in case it never began
            if self._newest.get(key) is ended:
                del self._newest[key]

        task = self._tasks.start(queued(self._newest.get(key)), name=name)
        self._newest[key] = task
        task.add_done_callback(done)
        return task
