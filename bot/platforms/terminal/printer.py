"""Prints above the prompt, one thing after the other, without touching the line being typed."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from prompt_toolkit.application import get_app_session, in_terminal

from bot.errors import DeliveryError, NotPresentError
from bot.platforms.terminal.live import answer_lines
from bot.platforms.terminal.surface import Said
from bot.platforms.terminal.view import renderable, to_ansi

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Item:
    said: Said
    done: asyncio.Future[None]
    as_shown: Callable[[], None] | None

    def settle(self, error: DeliveryError | None = None) -> None:
        """Tell who waits for it, if they still do."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
            # Who does not wait for it must not be warned about an error that nobody looked at.
            self.done.exception()


class Printer:
    """A queue of things to print.

    Args:
        before_redraw: Called when something is about to be printed: what it replaces in the live
            region must be gone when that is drawn again.
    """

    def __init__(self, before_redraw: Callable[[], None]) -> None:
        self._before_redraw = before_redraw
        self._items: asyncio.Queue[_Item | None] = asyncio.Queue()

    def put(self, said: Said, as_shown: Callable[[], None] | None = None) -> asyncio.Future[None]:
        """Print something after what is there already; see `Surface.show`."""
        item = _Item(said, asyncio.get_running_loop().create_future(), as_shown)
        self._items.put_nowait(item)
        return item.done

    def end(self) -> None:
        """Let `run` return when everything is printed."""
        self._items.put_nowait(None)

    async def run(self) -> None:
        """Print until `end`; what cannot be printed any more is refused."""
        try:
            while (item := await self._items.get()) is not None:
                await self._deliver(item)
        finally:
            while not self._items.empty():
                if (item := self._items.get_nowait()) is not None:
                    item.settle(_left())

    async def _deliver(self, item: _Item) -> None:
        if item.done.cancelled():
            return
        try:
            await self._print(item)
        except Exception:
            log.exception("Something could not be shown")
            item.settle(DeliveryError("This could not be shown on the terminal; the log says why."))
        else:
            item.settle()
        finally:
            item.settle(_left())

    async def _print(self, item: _Item) -> None:
        output = get_app_session().output
        width = output.get_size().columns
        # A long answer takes up to half a second to lay out, and typing must not wait for it.
        text = await asyncio.to_thread(lambda: to_ansi(renderable(item.said), width))
        async with in_terminal():
            if item.as_shown is not None:
                item.as_shown()
            self._before_redraw()
            output.enable_autowrap()
            output.write_raw(text)
            output.flush()


async def lay_out(text: str, width: int) -> tuple[str, ...]:
    """Return the end of a growing answer as lines; none when they cannot be made of it."""
    try:
        return await asyncio.to_thread(answer_lines, text, width)
    except Exception:
        log.exception("A growing answer could not be drawn")
        return ()


def _left() -> NotPresentError:
    return NotPresentError("The terminal was left before this was shown; it waits for the return.")
