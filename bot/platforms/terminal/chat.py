"""An interactive chat at a terminal, from the welcome to the farewell."""

import asyncio

from bot.platforms.base import InboundHandler
from bot.platforms.terminal.completion import CommandCompleter
from bot.platforms.terminal.listener import LineHandler, OnPresent
from bot.platforms.terminal.screen import Screen
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.surface import Notice
from bot.platforms.terminal.texts import farewell, welcome
from bot.values import Identity


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

    async def run(self, user: Identity, model_name: str) -> None:
        """Run the chat until the user leaves; lines sent earlier are still handled."""
        screen = self._screen
        try:
            async with screen.opened():
                await screen.show(Notice(welcome(user, model_name)))
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._listen(user), name="terminal listener")
                    stopper = tasks.create_task(self._stop_turns(), name="terminal stopper")
                    await screen.prompt()
                    stopper.cancel()
                    self._lines.put_nowait(None)
                words = farewell(len(self._state.going), answering=bool(self._state.replies))
                if words:
                    screen.show(Notice(words))
        finally:
            self._state.leave()

    async def _listen(self, user: Identity) -> None:
        await self._listener.arrive(user)
        while (line := await self._lines.get()) is not None:
            await self._listener.take(line)
            if self._listener.left:
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
