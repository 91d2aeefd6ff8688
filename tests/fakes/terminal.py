"""A terminal of paper: what a program writes is on it, and a user can sit down at it."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.utils import get_cwidth

from bot.platforms.handler import InboundHandler
from bot.platforms.terminal.people import DEFAULT_NAME
from bot.platforms.terminal.terminal import Terminal
from bot.values import Identity
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.patience import PATIENCE_SECONDS, Pulse

_COLOURS = re.compile("\x1b\\[[0-9;]*m")


class FakeScreen(DummyOutput):
    """A terminal that is as long as it has to be.

    Attributes:
        intruders: Control characters that would have done something to a real terminal.
        frames: How often something was drawn.
    """

    def __init__(
        self, *, columns: int = 120, rows: int = 40, patience: float = PATIENCE_SECONDS
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.intruders: list[str] = []
        self.frames = 0
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._pulse = Pulse(patience, describe=lambda: self.text)
        self.until = self._pulse.until

    # --- what a test reads ----------------------------------------------------------------------

    @property
    def text(self) -> str:
        """Everything that can be read, scrolled up or not."""
        return "\n".join("".join(line).rstrip() for line in self._lines).rstrip()

    @property
    def last_line(self) -> str:
        """The line that is typed into."""
        return self.text.rpartition("\n")[2]

    def count(self, part: str) -> int:
        """Return how often something can be read."""
        return self.text.count(part)

    async def shows(self, part: str) -> None:
        """Wait until something can be read."""
        await self.until(lambda: part in self.text, part)

    # --- what a program does --------------------------------------------------------------------

    def get_size(self) -> Size:
        """Return how much is seen at once."""
        return Size(rows=self.rows, columns=self.columns)

    def write(self, data: str) -> None:
        """Write text, in which a real terminal's driver masks escapes."""
        self._put(data.replace("\x1b", "?"))

    def write_raw(self, data: str) -> None:
        """Write text with colours; every other escape is an intruder."""
        self._put(_COLOURS.sub("", data))

    def flush(self) -> None:
        """Wake who waits for something to appear."""
        self.frames += 1
        self._pulse.beat()

    def erase_end_of_line(self) -> None:
        """Erase what is right of the cursor."""
        del self._lines[self._row][self._column :]

    def erase_down(self) -> None:
        """Erase what is right of the cursor and below."""
        self.erase_end_of_line()
        del self._lines[self._row + 1 :]

    def cursor_up(self, amount: int) -> None:
        """Go up."""
        self._row = max(self._row - amount, 0)

    def cursor_down(self, amount: int) -> None:
        """Go down."""
        self._go_to_row(self._row + amount)

    def cursor_forward(self, amount: int) -> None:
        """Go right."""
        self._column += amount

    def cursor_backward(self, amount: int) -> None:
        """Go left."""
        self._column = max(self._column - amount, 0)

    def _put(self, data: str) -> None:
        for character in data:
            if character == "\n":
                self._go_to_row(self._row + 1)
                self._column = 0
            elif character == "\r":
                self._column = 0
            elif character < " " or "\x7f" <= character <= "\x9f":
                self.intruders.append(character)
            else:
                self._put_character(character)

    def _put_character(self, character: str) -> None:
        if self._column >= self.columns:
            self._go_to_row(self._row + 1)
            self._column = 0
        line = self._lines[self._row]
        width = get_cwidth(character)
        line.extend(" " * (self._column + width - len(line)))
        if width == 0 and self._column:
            line[self._column - 1] += character
            return
        line[self._column : self._column + width] = [character, *[""] * (width - 1)]
        self._column += width

    def _go_to_row(self, row: int) -> None:
        self._row = row
        self._lines.extend([] for _ in range(row + 1 - len(self._lines)))


async def nothing_waits(_: Identity) -> None:
    """Deliver nothing to the user who comes."""


@dataclass(slots=True)
class Sitting:
    """A user at a terminal.

    Attributes:
        chat: The intake at work; done when the user has left.
    """

    terminal: Terminal
    screen: FakeScreen
    keys: PipeInput
    inbound: FakeInboundHandler
    chat: asyncio.Task[None]

    def type(self, text: str) -> None:
        """Press keys, without Enter."""
        self.keys.send_text(text)

    def send(self, line: str) -> None:
        """Type a line and press Enter."""
        self.keys.send_text(f"{line}\r")


@asynccontextmanager
async def sit_down(
    name: str = DEFAULT_NAME,
    *,
    inbound: FakeInboundHandler | None = None,
    on_present: Callable[[Identity], Awaitable[None]] = nothing_waits,
    screen: FakeScreen | None = None,
    ended: asyncio.Event | None = None,
) -> AsyncIterator[Sitting]:
    """Begin a chat at a terminal of paper; the block begins when its prompt is there."""
    paper = screen or FakeScreen()
    heard = inbound or FakeInboundHandler()
    with create_pipe_input() as keys, create_app_session(input=keys, output=paper):
        terminal = Terminal(
            model_name="a fake model", on_present=on_present, name=name, interactive=True
        )
        chat = asyncio.ensure_future(_chat(terminal, heard, ended))
        await paper.until(lambda: paper.last_line.endswith(">"), "the prompt")
        try:
            yield Sitting(terminal, paper, keys, heard, chat)
        finally:
            chat.cancel()
            with suppress(asyncio.CancelledError):
                await chat


async def _chat(terminal: Terminal, inbound: InboundHandler, ended: asyncio.Event | None) -> None:
    await terminal.run(inbound, ended=ended)
