"""Measures how long callbacks keep the event loop from reacting, and names the code that does."""

import asyncio
import logging
import selectors
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

log = logging.getLogger(__name__)

Result = TypeVar("Result")

#: A longer block is logged.
WARN_SECONDS = 0.05
#: Interval at which a thread looks at the code that keeps the loop busy.
LOOK_SECONDS = 0.05
#: A look at a shorter block is no use: nearly every one of them ends at once.
SEEN_SECONDS = 0.005
#: The longest block is that of this time, and of as much before.
WINDOW_SECONDS = 60.0
OURS = ("bot.", "db.", "skills.", "migrations.")


@dataclass(frozen=True, slots=True)
class LoopBlock:
    """A time in which the event loop reacted to nothing.

    Attributes:
        seconds: Its length.
        where: The code that ran in it; empty if no thread looked at it.
    """

    seconds: float = 0.0
    where: str = ""

    def __str__(self) -> str:
        return f"{self.seconds * 1000:.0f} ms" + (f" in {self.where}" if self.where else "")


class LoopWatch(selectors.DefaultSelector):
    """The selector of an event loop; times all that happens between two of its calls.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._thread = threading.get_ident()
        #: When the loop began to work; `None` while it waits.
        self._woke: float | None = None
        self._seen: tuple[float, str] | None = None
        self._active = threading.Event()
        self._level = logging.DEBUG
        self._since = clock()
        self._longest = self._before = LoopBlock()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, and note how long the loop was busy with the ones before."""
        if self._woke is not None:
            seconds = self._clock() - self._woke
            if seconds > self._longest.seconds:
                self._note(seconds, self._woke)
            self._woke = None
        found = super().select(timeout)
        self._woke = self._clock()
        if not self._active.is_set():
            self._active.set()
        return found

    def started(self, level: int) -> None:
        """Forget the blocks of the start, and log further ones at this level."""
        self._level = level
        self._longest = self._before = LoopBlock()
        # What led to this call belongs to the start.
        self._woke = self._clock()

    @property
    def longest(self) -> LoopBlock:
        """The longest block of the last one to two minutes."""
        self._turn(self._clock())
        return max(self._longest, self._before, key=lambda block: block.seconds)

    def look(self) -> None:
        """Remember the code that keeps the loop busy, if it does; called by another thread."""
        woke = self._woke
        if woke is None or self._clock() - woke < SEEN_SECONDS:
            return
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - documented as public
        if frame is not None:
            self._seen = (woke, described(frame))

    def look_until(self, over: threading.Event) -> None:
        """Look at the loop at intervals, and not at all while it waits; for a thread."""
        while not over.wait(LOOK_SECONDS):
            self.look()
            if self._woke is None:
                # A wake-up in between is missed until the next one.
                self._active.clear()
                self._active.wait()

    def _note(self, seconds: float, woke: float) -> None:
        self._turn(woke + seconds)
        if seconds <= self._longest.seconds:
            return
        seen = self._seen
        self._longest = LoopBlock(seconds, seen[1] if seen is not None and seen[0] == woke else "")
        if seconds > WARN_SECONDS:
            log.log(self._level, "The event loop was blocked for %s", self._longest)

    def _turn(self, now: float) -> None:
        """Begin a new window when it is time."""
        if now - self._since < WINDOW_SECONDS:
            return
        recent = now - self._since < 2 * WINDOW_SECONDS
        self._before = self._longest if recent else LoopBlock()
        self._longest, self._since = LoopBlock(), now


class WatchedLoop(asyncio.SelectorEventLoop):
    """An event loop that knows its longest block."""

    def __init__(self, watch: LoopWatch) -> None:
        super().__init__(watch)
        self.watch = watch


def longest_block() -> LoopBlock | None:
    """Return the longest block of the running loop; `None` if it is not watched."""
    loop = asyncio.get_running_loop()
    return loop.watch.longest if isinstance(loop, WatchedLoop) else None


def started(level: int = logging.WARNING) -> None:
    """Log blocks of the running loop from now on, if it is watched; those of the start are over."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, WatchedLoop):
        loop.watch.started(level)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Do as `asyncio.run`, on a loop that is watched."""
    watch, over = LoopWatch(), threading.Event()
    looking = threading.Thread(target=watch.look_until, args=(over,), name="loop", daemon=True)
    looking.start()
    try:
        with asyncio.Runner(loop_factory=lambda: WatchedLoop(watch)) as runner:
            return runner.run(work)
    finally:
        over.set()


def described(frame: FrameType) -> str:
    """Return our innermost function of a stack, and the function that it called."""
    inner, ours = frame, frame
    while not (name := ours.f_globals.get("__name__", "")).startswith(OURS):
        if ours.f_back is None:
            return _named(inner)
        ours = ours.f_back
    if name == __name__:  # it only runs the loop
        return _named(inner)
    return _named(ours) if ours is inner else f"{_named(ours)}, called {_named(inner)}"


def _named(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__", "?")
    return f"{name}.{frame.f_code.co_qualname}, line {frame.f_lineno}"
