"""An owner for tasks that outlive the call that starts them."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar
from weakref import WeakSet

from bot.errors import DatabaseUnreachableError, LeftError

log = logging.getLogger(__name__)

Result = TypeVar("Result")

#: The time that `finish` leaves to work whose caller is cancelled, and `close` to brief tasks.
MOMENT_SECONDS = 1.0


class Tasks:
    """Starts tasks, logs their errors, and cancels the remaining ones at the end.

    A TaskGroup would end all its tasks when one fails; here each task fails alone.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._brief: WeakSet[asyncio.Task[Any]] = WeakSet()

    async def __aenter__(self) -> Self:
        """Return the owner; the end of the block closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the owner."""
        await self.close()

    def start(
        self,
        work: Coroutine[Any, Any, Result],
        *,
        name: str,
        fresh_context: bool = False,
        brief: bool = False,
    ) -> asyncio.Task[Result]:
        """Run `work` in a task of its own.

        Args:
            work: The work to run.
            name: Shown in logs and debuggers.
            fresh_context: Whether to pass no context variables on (log lines show some).
            brief: Whether `close` lets it end for a moment: nothing would repeat it.
        """
        context = contextvars.Context() if fresh_context else None
        task = asyncio.create_task(work, name=name, context=context)  # noqa: TID251
        self._tasks.add(task)
        if brief:
            self._brief.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, work: Coroutine[Any, Any, Result], *, name: str) -> Result:
        """Return the result of `work`; if the caller is cancelled, let it end for a moment.

        For something that users see together with its record: without the record, it would be shown
        once more, or could never be changed.
        """
        task = self.start(work, name=name, brief=True)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=MOMENT_SECONDS)
            task.cancel()
            raise

    def later(self, seconds: float, action: Callable[[], None], *, name: str) -> asyncio.Task[Any]:
        """Call `action` once after this time, unless it is cancelled or `close` comes first."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            action()

        return self.start(wait(), name=name)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DatabaseUnreachableError | LeftError):
            # The outage is logged once, at the place that notices it.
            log.debug("The task %s did not reach the database", task.get_name())
        elif error is not None:
            log.error("The task %s failed", task.get_name(), exc_info=error)

    def __len__(self) -> int:
        return len(self._tasks)

    async def wait_idle(self, seconds: float) -> None:
        """Wait until every task has ended, at most `seconds`."""
        pending = set(self._tasks)
        if pending:
            await asyncio.wait(pending, timeout=seconds)

    async def close(self, seconds: float = 5.0) -> None:
        """Cancel the remaining tasks and wait for their end, at most `seconds`.

        Brief tasks are cancelled only if they do not end in a moment.
        """
        brief = self._tasks & set(self._brief)
        for task in self._tasks - brief:
            task.cancel()
        if brief:
            await asyncio.wait(brief, timeout=MOMENT_SECONDS)
        for task in set(self._tasks):
            task.cancel()
        await self.wait_idle(seconds)
        for task in self._tasks:
            log.error("The task %s ignores being cancelled; it is left behind", task.get_name())
