"""SIGTERM and SIGINT: the first asks for an orderly end, the second ends the process at once."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class StopSignals:
    """Handles the signals that end a process, while its block runs.

    Args:
        numbers: The signals; SIGTERM and SIGINT by default.
        on_stop: Called at the first signal.

    Attributes:
        requested: Set once a signal has asked the process to end.
    """

    def __init__(
        self, *numbers: signal.Signals, on_stop: Callable[[], None] = lambda: None
    ) -> None:
        self.requested = asyncio.Event()
        self._on_stop = on_stop
        self._numbers = numbers or (signal.SIGTERM, signal.SIGINT)

    def __enter__(self) -> Self:
        for each in self._numbers:
            asyncio.get_running_loop().add_signal_handler(each, self._stop, each)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._numbers:
            asyncio.get_running_loop().remove_signal_handler(each)

    def _stop(self, number: signal.Signals) -> None:
        if self.requested.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        log.info("Asked to end by %s; once more ends it at once", number.name)
        self.requested.set()
        self._on_stop()

    async def until_stopped(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """Run `work` and return its result; `None` if a signal interrupted it."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self.requested.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def exit_after(seconds: float, end: Callable[[int], object] = os._exit) -> None:
    """End this process by force after this time, unless it has ended by then.

    All important data is stored: the next process resumes as after a crash. The timer runs in a
    thread, so that neither a blocked event loop nor a blocked thread at exit can delay it.
    """

    def force() -> None:
        log.warning("The process did not end within %g s of the signal; it is ended now", seconds)
        end(0)

    timer = threading.Timer(seconds, force)
    timer.daemon = True
    timer.start()
