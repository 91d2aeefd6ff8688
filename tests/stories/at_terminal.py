"""The whole bot at a terminal of paper: the real adapter, engine, database; a scripted model."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input

from bot.conversations.announcements import Announcements
from bot.platforms.terminal.terminal import Terminal
from bot.running import Bot
from bot.values import Identity
from skills.base import Skill
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.terminal import FakeScreen
from tests.stories.live_file import LiveFile, open_watched
from tests.stories.on_discord import running
from tests.stories.stage import Play, config_for


@dataclass
class Desk:
    """A running bot, and the terminal at which a user sits."""

    bot: Bot
    terminal: Terminal
    screen: FakeScreen
    keys: PipeInput

    def send(self, line: str) -> None:
        """Type a line and press Enter."""
        self.keys.send_text(f"{line}\r")

    async def shows(self, words: str) -> None:
        """Wait until something can be read; where lines break does not matter."""
        await self.until(lambda: words in self.read, words)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something about the screen holds."""
        await self.screen.until(condition, what)

    @property
    def read(self) -> str:
        """All that can be read, without frames and with single spaces."""
        return " ".join(self.screen.text.replace("│", " ").split())


@asynccontextmanager
async def at_terminal(
    database_url: str,
    play: Play,
    *,
    name: str = "alice",
    further_skills: Sequence[Skill] = (),
    file: LiveFile | None = None,
    **sections: Any,
) -> AsyncIterator[Desk]:
    """Start the bot, and let somebody sit down at its terminal, as `chat` does."""
    screen = FakeScreen()
    here: list[Identity] = []
    announcements: list[Announcements] = []

    async def on_present(user: Identity) -> None:
        here[:] = [user]
        for each in announcements:
            await each.deliver_waiting(user)

    async with FakeAnthropic(play) as model:
        config = config_for(database_url, model.url, **sections)
        with create_pipe_input() as keys, create_app_session(input=keys, output=screen):
            terminal = Terminal(
                model_name="a model", on_present=on_present, name=name, interactive=True
            )
            outlets = {terminal.platform: terminal.outlet}
            opening = open_watched(
                config,
                outlets,
                file=file,
                present=lambda: here[0] if here else None,
                further_skills=further_skills,
            )
            async with opening as bot:
                announcements.append(bot.announcements)
                async with running(terminal.run(bot.orchestrator, ended=bot.finished)):
                    await screen.until(lambda: screen.last_line.endswith(">"), "the prompt")
                    yield Desk(bot, terminal, screen, keys)
