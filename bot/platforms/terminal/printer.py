"""Prints items above the prompt, in order, without disturbing the input line."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from prompt_toolkit.application import get_app_session, in_terminal

from bot.errors import DeliveryError, NotPresentError
from bot.platforms.terminal.live import answer_lines
from bot.platforms.terminal.surface import Printable
from bot.platforms.terminal.view import renderable, to_ansi

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _PrintJob:
    item: Printable
    done: asyncio.Future[None]
    as_shown: Callable[[], None] | None

    def finish(self, error: DeliveryError | None = None) -> None:
        """Complete the future of the item, with `error` if given, unless it is done."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
            # Mark the exception as retrieved: asyncio would log it if no caller awaits the future.
            self.done.exception()


class Printer:
    """Prints a queue of items.

    Args:
        before_redraw: Called just before an item is printed, to remove the content that the item
            replaces from the live region before the region is redrawn.
    """

    def __init__(self, before_redraw: Callable[[], None]) -> None:
        self._before_redraw = before_redraw
        self._items: asyncio.Queue[_PrintJob | None] = asyncio.Queue()

    def put(
        self, item: Printable, as_shown: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """Queue an item for printing; see `Surface.show`."""
        job = _PrintJob(item, asyncio.get_running_loop().create_future(), as_shown)
        self._items.put_nowait(job)
        return job.done

    def end(self) -> None:
        """Make `run` return once the queue is empty."""
        self._items.put_nowait(None)

    async def run(self) -> None:
        """Print items until `end`; fail the items that are left in the queue."""
        try:
            while (job := await self._items.get()) is not None:
                await self._deliver(job)
        finally:
            while not self._items.empty():
                if (job := self._items.get_nowait()) is not None:
                    job.finish(_left())

    async def _deliver(self, job: _PrintJob) -> None:
        if job.done.cancelled():
            return
        try:
            output = get_app_session().output
            width = output.get_size().columns
            # Rendering a long answer takes up to 0.5 s and must not block typing.
            text = await asyncio.to_thread(lambda: to_ansi(renderable(job.item), width))
            async with in_terminal():
                if job.as_shown is not None:
                    job.as_shown()
                self._before_redraw()
                output.enable_autowrap()
                output.write_raw(text)
                output.flush()
        except Exception:
            log.exception("An item could not be shown")
            job.finish(DeliveryError("This could not be shown on the terminal; the log says why."))
        else:
            job.finish()
        finally:
            job.finish(_left())


async def lay_out(text: str, width: int) -> tuple[str, ...]:
    """Return the rendered lines of a growing answer's end; empty if rendering fails."""
    try:
        return await asyncio.to_thread(answer_lines, text, width)
    except Exception:
        log.exception("A growing answer could not be drawn")
        return ()


def _left() -> NotPresentError:
    return NotPresentError(
        "The terminal closed before this was shown; it is shown when the user returns."
    )
