"""A program that talks with the bot through a pipe."""

import asyncio
import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bot.platforms.terminal.terminal import Terminal
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.terminal import nothing_waits


class Output(io.StringIO):
    """What was written, to wait on."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def flush(self) -> None:
        super().flush()
        self._changed.set()

    async def shows(self, part: str) -> None:
        try:
            async with asyncio.timeout(5):
                while part not in self.getvalue():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{part!r} was not written:\n{self.getvalue()}") from None


@dataclass(slots=True)
class Piped:
    """A chat through a pipe; `written` is what the bot wrote, `chat` ends with the chat."""

    terminal: Terminal
    inbound: FakeInboundHandler
    written: Output
    chat: asyncio.Task[None]
    read_end: int
    write_end: int

    def send(self, text: str) -> None:
        self.send_bytes(text.encode())

    def send_bytes(self, data: bytes) -> None:
        os.write(self.write_end, data)

    def end(self) -> None:
        os.close(self.write_end)
        self.write_end = -1

    async def ended(self) -> str:
        async with asyncio.timeout(5):
            await self.chat
        return self.written.getvalue()


@asynccontextmanager
async def piped(
    inbound: FakeInboundHandler,
    *,
    idle_seconds: float = 5.0,
    written: Output | None = None,
    ended: asyncio.Event | None = None,
) -> AsyncIterator[Piped]:
    read_end, write_end = os.pipe()
    out = written or Output()
    with os.fdopen(read_end, encoding="utf-8") as stdin:
        terminal = Terminal(
            model_name="a fake model",
            on_present=nothing_waits,
            name="alice",
            stdin=stdin,
            stdout=out,
            idle_seconds=idle_seconds,
        )
        chat = asyncio.ensure_future(_run(terminal, inbound, ended))
        opened = Piped(terminal, inbound, out, chat, read_end, write_end)
        try:
            yield opened
        finally:
            chat.cancel()
            with suppress(asyncio.CancelledError):
                await chat
            if opened.write_end >= 0:
                opened.end()


async def idle() -> None:
    """Let everything happen that waits for nothing from outside."""
    for _ in range(20):
        await asyncio.sleep(0)


async def from_file(path: Path, inbound: FakeInboundHandler) -> str:
    """Return what is written when the lines come from a file."""
    out = Output()
    with path.open(encoding="utf-8") as stdin:
        terminal = Terminal(
            model_name="a fake model", on_present=nothing_waits, stdin=stdin, stdout=out
        )
        async with asyncio.timeout(5):
            await terminal.intake.run(inbound)
    return out.getvalue()


async def _run(
    terminal: Terminal, inbound: FakeInboundHandler, ended: asyncio.Event | None
) -> None:
    await terminal.run(inbound, ended=ended)
