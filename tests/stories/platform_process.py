"""A bot on one platform in a process of its own, which dies where a test wants it to.

Reads one line from standard input for each point at which it is to die from then on.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bot.app import open_bot
from bot.processes import platforms_of
from bot.values import Json
from migrations.run import ensure_current
from tests.fakes.children import Child
from tests.fakes.crashing_database import CrashingDatabase
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.serving import Process
from tests.fakes.slack.server import FakeSlack
from tests.stories.process import lines, tell
from tests.stories.stage import config_for


@dataclass
class MortalBot(Process):
    """A bot's process: the test says when it dies."""

    async def dies(self, crash_at: str) -> None:
        """Let it die at a point of a transaction, such as `after INSERT INTO turns`."""
        self.process.stdin.write(f"{crash_at}\n".encode())
        assert json.loads(await self.process.stdout.readline()) == {"event": crash_at}


@asynccontextmanager
async def mortal_bot(
    fake: FakeDiscord | FakeSlack, database_url: str, model_url: str, **sections: Any
) -> AsyncIterator[MortalBot]:
    """Start a bot on a platform, and kill what is left of it at the end."""
    document = json.dumps({**_platform(fake), **sections})
    process = await Child.start(
        "tests.stories.platform_process",
        f"--database={database_url}",
        f"--model={model_url}",
        f"--sections={document}",
    )
    bot = MortalBot(process)
    reading = asyncio.ensure_future(bot.read())
    try:
        assert json.loads(await process.stdout.readline()) == {"event": "ready"}
        yield bot
    finally:
        await process.close()
        await reading


def _platform(fake: FakeDiscord | FakeSlack) -> Json:
    """Return the section of the configuration for a platform."""
    if isinstance(fake, FakeDiscord):
        urls = {"api_url": fake.api_url, "gateway_url": fake.gateway_url}
        return {"discord": {"token": fake.token, **urls}}
    tokens = {"bot_token": fake.bot_token, "app_token": fake.app_token}
    return {"slack": {"api_url": fake.api_url, **tokens}}


async def main(given: argparse.Namespace) -> None:
    """Serve the platform that is set up, until killed."""
    config = config_for(given.database, given.model, **json.loads(given.sections))
    (opener,) = platforms_of(config).values()
    async with CrashingDatabase.open(config.database, exclusive=True) as database:
        await ensure_current(database, config.database)
        async with (
            opener(database, receives=True) as opened,
            open_bot(config, {opened.outlet.platform: opened.outlet}, database=database) as bot,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(opened.intake.run(bot.orchestrator))
            tell(event="ready")
            orders = await lines()
            while line := await orders.readline():
                database.crash_at = line.decode().strip()
                tell(event=database.crash_at)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("--database", "--model", "--sections"):
        parser.add_argument(name, required=True)
    asyncio.run(main(parser.parse_args()))
