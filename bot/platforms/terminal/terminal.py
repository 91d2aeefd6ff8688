"""The terminal platform: one user at a time, at a prompt or through a pipe."""

import asyncio
import os
import sys
from typing import TextIO

from bot.platforms.handler import InboundHandler
from bot.platforms.terminal.listener import LineHandler, OnPresent
from bot.platforms.terminal.outlet import TerminalOutlet
from bot.platforms.terminal.people import DEFAULT_NAME, PLATFORM, identity_of
from bot.platforms.terminal.plain import (
    Pipe,
    everything_was_said,
    lines_of,
    wait_unless,
)
from bot.platforms.terminal.state import TerminalState


class Terminal:
    """The terminal as a platform: its outlet, and the intake that runs the chat.

    Args:
        model_name: The model's name in the welcome.
        on_present: Called when a user becomes active, to deliver pending announcements.
        name: The user's name.
        stdin: The input of a pipe.
        stdout: The output of a pipe.
        interactive: Whether a user sits at the terminal; detected if not given.
        idle_seconds: How long a pipe waits without activity for announcements that may never
            come.

    Attributes:
        interactive: Whether a user sits at the terminal.

    Raises:
        BadRequestError: The name is invalid.
    """

    platform = PLATFORM

    def __init__(
        self,
        *,
        model_name: str,
        on_present: OnPresent,
        name: str = DEFAULT_NAME,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        interactive: bool | None = None,
        idle_seconds: float = 2.0,
    ) -> None:
        self._user = identity_of(name)
        self._model_name = model_name
        self._on_present = on_present
        self._stdin = stdin or sys.stdin
        self._stdout = stdout or sys.stdout
        if interactive is None:
            dumb = os.environ.get("TERM", "") in {"dumb", "unknown"}
            interactive = self._stdin.isatty() and self._stdout.isatty() and not dumb
        self.interactive = interactive
        self._settle_seconds = idle_seconds
        self._state = TerminalState()
        self.outlet = TerminalOutlet(self._state)

    @property
    def intake(self) -> "Terminal":
        """The intake: this object."""
        return self

    async def run(self, inbound: InboundHandler, *, ended: asyncio.Event | None = None) -> None:
        """Run until the user leaves, or until the pipe ends and its replies and runs are done.

        Once `ended` is set, no line is read any more, and those read before are still handled.
        """
        ended = ended or asyncio.Event()
        if self.interactive:
            # The drawing libraries take 0.25 s to import, and only an interactive chat needs them.
            from bot.platforms.terminal.screen import Chat  # noqa: PLC0415

            chat = Chat(inbound, self._state, self._on_present)
            await chat.run(self._user, self._model_name, ended)
            return
        listener = LineHandler(inbound, self._state, Pipe(self._stdout), self._on_present)
        try:
            await listener.arrive(self._user)
            async for line in lines_of(self._stdin, ended):
                replied = self._state.next_reply()
                if await listener.take(line):
                    await wait_unless(ended, replied())
                if listener.left:
                    return
            await everything_was_said(self._state, idle_seconds=self._settle_seconds)
        finally:
            self._state.leave()
