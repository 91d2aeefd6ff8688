"""Detects work without events: no token of the model and no event of a tool for too long."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from math import inf

#: Longest silence: a share of the time limit of the work, and its upper bound in seconds.
SILENT_SHARE = 0.5
MOST_SILENT_SECONDS = 450.0
#: Time beyond the timeout of a tool, in seconds: the tool should have been ended by then.
BESIDE_TOOL_SECONDS = 60.0
#: Longest time for the report of interrupted work, in seconds.
STALLED_REPORT_SECONDS = 120.0


class Activity:
    """The events of one piece of work, and its interruption when none comes for too long.

    A wait for a user, for a slot, or for a provider that refused or asked to wait is no silence.

    Args:
        total: The time limit of the work, in seconds.
        waits: Returns True while the work waits for a user or a slot.
        around: The work that waits for this one: an event here is one there.
        monotonic: A monotonic clock, in seconds.

    Attributes:
        stalled: Whether the work was interrupted.
    """

    def __init__(
        self,
        total: float = inf,
        *,
        waits: Callable[[], bool] = lambda: False,
        around: "Activity | None" = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stalled = False
        self._longest = min(total * SILENT_SHARE, MOST_SILENT_SECONDS) if total < inf else inf
        self._waits = waits
        self._around = around
        self._monotonic = monotonic
        self._last = monotonic()
        self._tools: list[float] = []
        self._scope: asyncio.Timeout | None = None

    def note(self) -> None:
        """Record an event."""
        self._last = self._monotonic()
        if self._around is not None:
            self._around.note()

    def note_wait(self, seconds: float) -> None:
        """Record that the work waits for a provider: silence begins afterwards.

        Args:
            seconds: The length of the wait; infinite until the next event.
        """
        self.note()
        self._last += seconds
        if self._around is not None:
            self._around.note_wait(seconds)

    @contextmanager
    def tool(self, seconds: float) -> Iterator[None]:
        """Allow the silence of a tool with this timeout during the block."""
        self.note()
        self._tools.append(seconds)
        try:
            yield
        finally:
            self._tools.remove(seconds)
            self.note()

    @contextmanager
    def interruptible(self, scope: asyncio.Timeout) -> Iterator[None]:
        """Let `interrupt_if_silent` end this timeout during the block."""
        self.note()
        self._scope = scope
        try:
            yield
        finally:
            self._scope = None
            self.note()

    async def do_all(self, works: Iterable[Coroutine[None, None, None]]) -> None:
        """Do work concurrently; an interruption ends all of it.

        The first exception of the work ends the rest and is raised.
        """
        try:
            async with asyncio.timeout(None) as scope:
                with self.interruptible(scope):
                    async with asyncio.TaskGroup() as group:
                        for work in works:
                            group.create_task(work)
        except TimeoutError:
            if not self.stalled:
                raise
        except BaseExceptionGroup as several:
            # A tool's error is a result. Other exceptions (fencing, the engine's) end the work.
            raise several.exceptions[0] from None

    def silent_for(self) -> float:
        """Return the seconds beyond the longest silence; negative before."""
        allowed = self._longest
        if self._tools:
            allowed = max(self._tools) + BESIDE_TOOL_SECONDS
        return self._monotonic() - self._last - allowed

    def interrupt_if_silent(self) -> bool:
        """Interrupt work that is silent for too long; return True if this call did so."""
        if self._waits():
            self.note()
        if self.stalled or self._scope is None or self.silent_for() < 0:
            return False
        self.stalled = True
        self._scope.reschedule(asyncio.get_running_loop().time())
        return True
