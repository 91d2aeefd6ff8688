"""SIGTERM and SIGINT: the first asks for a good end, the second is the end."""

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


class Signals:
    """Hears the signals that end a process, while its block lasts.

    Args:
        numbers: Which.
        on_asked: Called at the first of them.

    Attributes:
        asked: Set once the process was asked to end.
    """

    def __init__(
        self, *numbers: signal.Signals, on_asked: Callable[[], None] = lambda: None
    ) -> None:
        self.asked = asyncio.Event()
        self._on_asked = on_asked
        self._numbers = numbers or (signal.SIGTERM, signal.SIGINT)

    def __enter__(self) -> Self:
        for each in self._numbers:
            asyncio.get_running_loop().add_signal_handler(each, self._came, each)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._numbers:
            asyncio.get_running_loop().remove_signal_handler(each)

    def _came(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        log.info("Asked to end by %s; once more ends it at once", number.name)
        self.asked.set()
        self._on_asked()

    async def unless_asked(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """Do `work` and return what it returns; `None` if it was broken off by being asked."""
        task = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self.asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            asked.cancel()
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def exit_after(seconds: float, end: Callable[[int], object] = os._exit) -> None:
    """End this process by force after a while, should it not have come to its end by then.

    Everything that matters is stored: the next process goes on as after a crash. It works from a
    thread, so that neither a blocked event loop nor a blocked thread at exit keeps it.
    """

    def force() -> None:
        log.warning("The process did not end within %g s of the signal; it is ended now", seconds)
        end(0)

    timer = threading.Timer(seconds, force)
    timer.daemon = True
    timer.start()
