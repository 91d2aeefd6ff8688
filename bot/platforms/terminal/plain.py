"""Input and output through a pipe: lines in, plain text out."""

import asyncio
import codecs
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TextIO

from bot.agent.sanitizer import safe_markdown
from bot.errors import DeliveryError
from bot.platforms.base import Announcement, CommandReply, Confirmation, RunCard
from bot.platforms.messaging.texts import stop_watch
from bot.platforms.terminal.cards import name_of, progress_text, status_of, step_lines
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.surface import FinalReply, Notice, Printable, TypedLine
from bot.platforms.terminal.texts import REPEATED, choice_lines, footer_of, title_of
from bot.values import Identity, RunStatus


class Pipe:
    """The surface of a pipe: writes everything as plain text and asks no questions.

    Args:
        out: The output stream.
    """

    can_ask = False

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(
        self, item: Printable, as_shown: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """Write an item immediately; see `Surface.show`."""
        done = asyncio.get_running_loop().create_future()
        try:
            print(plain_text(item), file=self._out, flush=True)
        except (OSError, ValueError):
            # The reading process has closed the pipe, as in `… | head -1`.
            error = DeliveryError("Nobody reads what is written here any more.", permanent=True)
            done.set_exception(error)
            done.exception()
        else:
            done.set_result(None)
        if as_shown is not None:
            as_shown()
        return done

    def card_moved(self, card: RunCard, before: RunStatus | None) -> None:
        """Write a line for each new status of a run."""
        if card.status is not before:
            self.show(card)

    def moved(self) -> None:
        """Do nothing, since written text is not redrawn."""

    def user_changed(self, user: Identity) -> None:
        """Do nothing, since a pipe has no state per user."""


def plain_text(item: Printable) -> str:
    """Return an item as plain text, with Markdown left unrendered (pure)."""
    match item:
        case FinalReply(text) | Notice(text) | TypedLine(_, text):
            return safe_markdown(text)
        case RunCard():
            status = status_of(item)
            if not item.status.final:
                return f"{status.icon} {name_of(item)}: {status.words}"
            head = f"{status.icon} Subagent {status.words}: {name_of(item)}"
            unsaid = item.status is not RunStatus.COMPLETED and not item.awaited
            progress = progress_text(item) if unsaid else ""
            lines = [f"{head} after {stop_watch(item.elapsed_seconds)}", progress]
            return "\n".join([*filter(None, lines), *step_lines(item)])
        case Announcement():
            repeated = REPEATED if item.maybe_repeated else ""
            parts = [
                title_of(item),
                safe_markdown(item.text),
                repeated,
                safe_markdown(footer_of(item)),
            ]
            return "\n".join(filter(None, parts))
        case CommandReply():
            more = f"\nThere is more: {item.more}" if item.more else ""
            return safe_markdown(item.text + more)
        case Confirmation():
            lines = [f"Question: {item.text}", *(line for _, line in choice_lines(item))]
            return safe_markdown("\n".join(lines))


async def everything_was_said(state: TerminalState, *, idle_seconds: float) -> None:
    """Wait until all replies and runs have ended and the ended runs are announced.

    Silent runs are never announced and cannot be distinguished here. So the wait for announcements
    ends after `idle_seconds` without activity; a later announcement is stored for the user's next
    chat.
    """
    while True:
        await state.until(lambda: not _under_way(state))
        missing = len(state.unannounced)
        if not missing:
            return
        try:
            async with asyncio.timeout(idle_seconds):
                await state.until(
                    lambda: _under_way(state) or len(state.unannounced) < missing  # noqa: B023
                )
        except TimeoutError:
            return


def _under_way(state: TerminalState) -> bool:
    return bool(state.replies or state.thinking or state.going)


async def wait_unless(ended: asyncio.Event, work: Awaitable[None]) -> None:
    """Wait for work, until an event is set at the latest."""
    waits = [asyncio.ensure_future(work), asyncio.ensure_future(ended.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


async def lines_of(stream: TextIO, ended: asyncio.Event) -> AsyncIterator[str]:
    """Yield the lines of a pipe or a file as they arrive, until an event is set.

    The event loop is not blocked.
    """
    descriptor = stream.fileno()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest, chunk = "", b"more"
    while chunk:
        await wait_unless(ended, _readable(descriptor))
        if ended.is_set():
            return
        chunk = os.read(descriptor, 65_536)
        *lines, rest = (rest + decoder.decode(chunk, final=not chunk)).split("\n")
        for line in lines:
            yield line
    if rest:
        yield rest


async def _readable(descriptor: int) -> None:
    """Wait until the descriptor is readable."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:
        # The kernel cannot watch plain files, which are always readable.
        return
    try:
        await readable.wait()
    finally:
        # Otherwise the loop would call the reader continuously while a line is handled.
        loop.remove_reader(descriptor)
