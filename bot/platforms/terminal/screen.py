"""An interactive chat: output scrolls up, the live region stays above the input line."""

import asyncio
import logging
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
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
from bot.platforms.handler import InboundHandler
from bot.platforms.terminal.completion import CommandCompleter
from bot.platforms.terminal.listener import LineHandler, OnPresent
from bot.platforms.terminal.live import live_region
from bot.platforms.terminal.printer import Printer, lay_out
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.surface import Notice, Printable, TypedLine
from bot.platforms.terminal.texts import prompt_of, welcome
from bot.values import Identity, RunStatus

#: At most ten frames per second, and at most a fifth of the time spent on drawing.
FRAME_SECONDS = 0.1
FRAME_SHARE = 4

#: Interval at which elapsed times are redrawn.
TICK_SECONDS = 1.0


@dataclass(eq=False)
class Screen:
    """The surface for a user at an interactive terminal.

    Attributes:
        state: The state of the terminal.
        completer: Completes commands and run ids.
        on_line: Called with every line that the user sends.
        on_interrupt: Called when the user presses Ctrl-C.
    """

    can_ask = True

    state: TerminalState
    completer: Completer
    _: KW_ONLY
    on_line: Callable[[str], None]
    on_interrupt: Callable[[], None]
    _printer: Printer = field(init=False)
    _dirty: asyncio.Event = field(default_factory=asyncio.Event)
    _live: StyleAndTextTuples = field(default_factory=list)
    _histories: dict[Identity, InMemoryHistory] = field(default_factory=dict)
    _session: PromptSession[str] | None = None

    def __post_init__(self) -> None:
        self._printer = Printer(self._compose)

    # --- the surface ----------------------------------------------------------------------------

    def show(
        self, item: Printable, as_shown: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """Queue an item for printing above the prompt; see `Surface.show`."""
        return self._printer.put(item, as_shown)

    def card_moved(self, card: RunCard, before: RunStatus | None) -> None:
        """Redraw the card with the next frame; print it if the run has ended."""
        if card.status.final:
            self.show(card)
        self.moved()

    def moved(self) -> None:
        """Redraw the live region with the next frame."""
        self._dirty.set()

    def user_changed(self, user: Identity) -> None:
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
            in_command = Condition(lambda: session.default_buffer.text.startswith("/"))
            keys = KeyBindings()

            @keys.add("c-c")
            @keys.add("<sigint>")
            def _interrupt(_: KeyPressEvent) -> None:
                self.on_interrupt()

            @keys.add("escape", "enter")
            def _new_line(event: KeyPressEvent) -> None:
                event.current_buffer.insert_text("\n")

            session: PromptSession[str] = PromptSession(
                completer=self.completer,
                complete_while_typing=in_command,
                key_bindings=keys,
                reserve_space_for_menu=6,
                erase_when_done=True,
            )
            session.default_buffer.accept_handler = self._accept
            self._session = session
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
            await session.prompt_async(
                lambda: [*self._live, ("bold", prompt_of(self.state.present))],
                set_exception_handler=False,
            )

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

    def _accept(self, buffer: Buffer) -> bool:
        """Send a line and keep the prompt open, so that no output appears between two prompts."""
        if buffer.text.strip() and self.state.present is not None:
            self.show(TypedLine(self.state.present, buffer.text))
            self.on_line(buffer.text)
        return False

    # --- drawing --------------------------------------------------------------------------------

    async def _paint(self) -> None:
        while True:
            with suppress(TimeoutError):
                user = self.state.present
                ticks = user and (self.state.busy(user) or self.state.cards_of(user))
                async with asyncio.timeout(TICK_SECONDS if ticks else None):
                    await self._dirty.wait()
            self._dirty.clear()
            started = time.perf_counter()
            user, width = self.state.present, self._opened_session.output.get_size().columns
            for reply in self.state.replies_of(user) if user else []:
                text = reply.text
                if text != reply.drawn_text:
                    reply.drawn = await lay_out(text, width)
                    reply.drawn_text = text
            self._compose()
            self._opened_session.app.invalidate()
            cost = time.perf_counter() - started
            await asyncio.sleep(max(FRAME_SECONDS, cost * FRAME_SHARE))

    def _compose(self) -> None:
        user = self.state.present
        size = self._opened_session.output.get_size()
        region = ""
        if user is not None:
            # Half of the window remains for earlier output.
            height = max(3, size.rows // 2)
            region = live_region(self.state, user, width=size.columns, height=height)
        self._live = to_formatted_text(ANSI(f"{region}\n")) if region else []


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


class Chat:
    """One interactive session at the terminal.

    Args:
        inbound: Receives the user's messages and commands.
        state: The state of the terminal.
        on_present: Called when a user becomes active at the prompt.
    """

    def __init__(
        self,
        inbound: InboundHandler,
        state: TerminalState,
        on_present: OnPresent,
    ) -> None:
        self._state = state
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._interrupts = asyncio.Event()
        self._screen = Screen(
            state,
            CommandCompleter(state, inbound),
            on_line=self._lines.put_nowait,
            on_interrupt=self._interrupts.set,
        )
        self._listener = LineHandler(inbound, state, self._screen, on_present)

    async def run(self, user: Identity, model_name: str, ended: asyncio.Event) -> None:
        """Run the chat until the user leaves or `ended` is set; earlier lines are still handled."""
        screen = self._screen
        try:
            async with screen.opened():
                await screen.show(Notice(welcome(user, model_name)))
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._listen(user), name="terminal listener")
                    stopper = tasks.create_task(self._stop_turns(), name="terminal stopper")
                    leaver = tasks.create_task(self._leave(ended), name="terminal leaver")
                    await screen.prompt()
                    stopper.cancel()
                    leaver.cancel()
                    self._lines.put_nowait(None)
                self._state.leave()
        finally:
            self._state.leave()

    async def _listen(self, user: Identity) -> None:
        await self._listener.arrive(user)
        while (line := await self._lines.get()) is not None:
            await self._listener.take(line)
            if self._listener.left:
                self._screen.end()

    async def _leave(self, ended: asyncio.Event) -> None:
        await ended.wait()
        self._screen.end()

    async def _stop_turns(self) -> None:
        while True:
            await self._interrupts.wait()
            self._interrupts.clear()
            user = self._state.present
            if user is not None and self._state.busy(user):
                await self._listener.stop_turn()
            elif not self._screen.clear_line():
                self._screen.show(Notice("Nothing is under way. `/quit` or Ctrl-D leaves."))
