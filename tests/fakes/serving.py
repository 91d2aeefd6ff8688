"""The bot as an operator starts it: a process of its own, its log, and its end."""

import asyncio
import json
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bot.values import Json
from tests.fakes.children import Child
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.slack.server import FakeSlack


@dataclass
class Process:
    """A bot's process, and what it has written to its log."""

    process: Child
    log: list[str] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        """Keep what it writes until it ends."""
        async for line in self.process.stderr:
            self.log.append(line.decode())
            self._more.set()

    async def wrote(self, words: str) -> None:
        """Wait until these words are in its log."""
        async with asyncio.timeout(30):
            while not any(words in line for line in self.log):
                self._more.clear()
                await self._more.wait()

    async def ended(self, seconds: float = 30) -> int:
        """Wait until it is over, and return its exit code."""
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    def make_room(self) -> None:
        """Let it write to files again."""
        self.process.limit_files(resource.RLIM_INFINITY)

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal."""
        self.process.signal(number)


@asynccontextmanager
async def serving(
    fake: FakeDiscord | FakeSlack,
    folder: Path,
    *,
    pace: float = 0.01,
    models: Json | None = None,
    database_url: str = "sqlite:///data/retinue.db",
    command: str = "serve",
    fresh: bool = False,
    disk_full: bool = False,
    sections: Json | None = None,
    **environ: str,
) -> AsyncIterator[Process]:
    """Run `python -m bot serve` in a folder, and kill what is left of it at the end.

    Args:
        fake: The Discord or the Slack that it is on; Slack reaches it by Socket Mode.
        folder: Where it runs.
        pace: Of the offline model, in seconds.
        models: What answers instead: the section of the configuration.
        database_url: Where it keeps what it knows.
        command: `worker` speaks, and hears nothing.
        fresh: Let it import everything itself, as one that an operator starts.
        disk_full: Let it write to no file, until `make_room`.
        sections: Further sections of the configuration.
        environ: Further variables of the environment.
    """
    platform, secrets = _platform(fake)
    config = {
        **platform,
        "models": models or {"provider": "offline", "offline": {"pace_seconds": pace}},
        "database": {"url": database_url},
        # Whoever speaks in a test has spoken within a minute.
        "subagents": {"present_seconds": 0},
        **(sections or {}),
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    process = await Child.start(
        "bot",
        command,
        folder=folder,
        environ={"PATH": os.environ["PATH"], **secrets, **environ},
        fresh=fresh,
        file_bytes=0 if disk_full else None,
    )
    bot = Process(process)
    reading = asyncio.ensure_future(bot.read())
    try:
        yield bot
    finally:
        await process.close()
        await reading


def _platform(fake: FakeDiscord | FakeSlack) -> tuple[Json, dict[str, str]]:
    """Return the section of the configuration for a platform, and its secrets."""
    if isinstance(fake, FakeDiscord):
        section = {"api_url": fake.api_url, "gateway_url": fake.gateway_url}
        return {"discord": section}, {"DISCORD_TOKEN": fake.token}
    secrets = {"SLACK_BOT_TOKEN": fake.bot_token, "SLACK_APP_TOKEN": fake.app_token}
    return {"slack": {"api_url": fake.api_url}}, secrets
