"""The interactive terminal: output scrolls up, the live region stays above the input line."""

import asyncio
import logging
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from bot.platforms.base import RunCard
from bot.platforms.terminal.live import live_region
from bot.platforms.terminal.printer import Printer, lay_out
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.surface import Printable, TypedLine
from bot.platforms.terminal.texts import prompt_of
from bot.values import Identity, RunStatus

#: At most ten frames per second, and at most a fifth of the time spent on drawing.
FRAME_SECONDS = 0.1
FRAME_SHARE = 4

#: Interval at which elapsed times are redrawn.
TICK_SECONDS = 1.0


class Screen:
    """The surface for a user at an interactive terminal.

    Args:
        state: The state of the terminal.
        completer: Completes commands and run ids.
        on_line: Called with every line that the user sends.
        on_interrupt: Called when the user presses Ctrl-C.
    """

    can_ask = True

    def __init__(
        self,
        state: TerminalState,
        completer: Completer,
        *,
        on_line: Callable[[str], None],
        on_interrupt: Callable[[], None],
    ) -> None:
        self._state = state
        self._completer = completer
        self._on_line = on_line
        self._on_interrupt = on_interrupt
        self._printer = Printer(self._compose)
        self._dirty = asyncio.Event()
        self._live: StyleAndTextTuples = []
        self._histories: dict[Identity, InMemoryHistory] = {}
        self._session: PromptSession[str] | None = None

    # --- the surface ----------------------------------------------------------------------------

    def show(
        self, said: Printable, as_shown: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """Queue an item for printing above the prompt; see `Surface.show`."""
        return self._printer.put(said, as_shown)

    def card_moved(self, card: RunCard, before: RunStatus | None) -> None:
        """Redraw the card with the next frame; print it if the run has ended."""
        if card.status.final:
            self.show(card)
        self.moved()

    def moved(self) -> None:
        """Redraw the live region with the next frame."""
        self._dirty.set()

    def person_changed(self, user: Identity) -> None:
        """Switch to the user's own input history, so that users cannot recall others' lines."""
        if self._session is not None:
            buffer = self._session.default_buffer
            buffer.history = self._histories.setdefault(user, InMemoryHistory())
            buffer.reset()
        self.moved()

    # --- lifecycle ------------------------------------------------------------------------------

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Print and draw while the block runs; print all queued items before returning."""
        with patch_stdout(), _logs_above_prompt():
            self._session = self._open_session()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._printer.run(), name="terminal printer")
                painter = tasks.create_task(self._paint(), name="terminal painter")
                yield
                painter.cancel()
                self._printer.end()

    async def prompt(self) -> None:
        """Read input until the user leaves."""
        session = self._opened_session
        with suppress(EOFError):
            await session.prompt_async(self._above_and_prompt, set_exception_handler=False)

    def end(self) -> None:
        """Make `prompt` return."""
        app = self._opened_session.app
        if app.is_running and not app.is_done:
            app.exit(result="")

    def clear_line(self) -> bool:
        """Clear the input line; return True if it had text."""
        session = self._opened_session
        had_text = bool(session.default_buffer.text)
        session.default_buffer.reset()
        session.app.invalidate()
        return had_text

    @property
    def _opened_session(self) -> "PromptSession[str]":
        assert self._session is not None, "The screen is not open."
        return self._session

    def _open_session(self) -> "PromptSession[str]":
        in_command = Condition(lambda: session.default_buffer.text.startswith("/"))
        session: PromptSession[str] = PromptSession(
            completer=self._completer,
            complete_while_typing=in_command,
            key_bindings=self._keys(),
            reserve_space_for_menu=6,
            erase_when_done=True,
        )
        session.default_buffer.accept_handler = self._accept
        return session

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _interrupt(_: KeyPressEvent) -> None:
            self._on_interrupt()

        @keys.add("escape", "enter")
        def _new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys

    def _accept(self, buffer: Buffer) -> bool:
        """Send a line and keep the prompt open, so that no output appears between two prompts."""
        if buffer.text.strip() and self._state.present is not None:
            self.show(TypedLine(self._state.present, buffer.text))
            self._on_line(buffer.text)
        return False

    # --- drawing --------------------------------------------------------------------------------

    async def _paint(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS if self._ticking() else None):
                    await self._dirty.wait()
            self._dirty.clear()
            started = time.perf_counter()
            await self._lay_out_answers()
            self._compose()
            self._opened_session.app.invalidate()
            cost = time.perf_counter() - started
            await asyncio.sleep(max(FRAME_SECONDS, cost * FRAME_SHARE))

    async def _lay_out_answers(self) -> None:
        """Render the open replies whose text has changed."""
        width = self._opened_session.output.get_size().columns
        for reply in self._state.replies_of(self._state.present) if self._state.present else []:
            text = reply.text
            if text != reply.drawn_text:
                reply.drawn = await lay_out(text, width)
                reply.drawn_text = text

    def _ticking(self) -> bool:
        user = self._state.present
        return user is not None and (self._state.busy(user) or bool(self._state.cards_of(user)))

    def _compose(self) -> None:
        user = self._state.present
        size = self._opened_session.output.get_size()
        region = ""
        if user is not None:
            # Half of the window remains for earlier output.
            height = max(3, size.rows // 2)
            region = live_region(self._state, user, width=size.columns, height=height)
        self._live = to_formatted_text(ANSI(f"{region}\n")) if region else []

    def _above_and_prompt(self) -> StyleAndTextTuples:
        user = self._state.present
        return [*self._live, ("bold", prompt_of(user) if user else "")]


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class WithoutColours:
    """A stream that removes colours, which prompt_toolkit's patched stream would garble."""

    stream: TextIO

    def write(self, text: str) -> int:
        """Write the text without colour codes."""
        return self.stream.write(_COLOUR.sub("", text))

    def flush(self) -> None:
        """Flush the underlying stream."""
        self.stream.flush()


@contextmanager
def _logs_above_prompt() -> Iterator[None]:
    """Redirect log output from the terminal to the patched stream, to protect the prompt."""
    error_stream = sys.__stderr__
    moved = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler)
        and handler.stream is error_stream
        and error_stream.isatty()
    ]
    for handler in moved:
        handler.setStream(WithoutColours(sys.stderr))
    try:
        yield
    finally:
        for handler in moved:
            handler.setStream(error_stream)
