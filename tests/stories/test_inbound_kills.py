"""Many typed commands under kills: none vanishes, none has its effect twice."""

import random

import pytest
from sqlalchemy import func, select

from db.database import Database, DatabaseSettings
from db.tables import commands, subagent_runs
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.patience import eventually
from tests.stories.actor import Actor, actor
from tests.stories.stage import Play

pytestmark = pytest.mark.timeout(180)

ROUNDS, COMMANDS = 8, 12
CAPS = {
    "subagents": {
        "max_queued_per_user": 1000,
        "spawn_rate_limit": {"max_requests": 1000},
    }
}


def typed(bot: Actor, number: int) -> None:
    """Let the platform deliver the commands of a round."""
    for each in range(COMMANDS):
        name = f"c{number}-{each}"
        text = f"/subagents spawn --announce silent --label {name} Work on {name}"
        bot.say("alice", text, event_id=name)


async def test_no_typed_command_vanishes_under_kills_and_none_is_repeated(sqlite_url: str) -> None:
    choose = random.Random(76)
    async with FakeAnthropic(Play()) as server:
        for number in range(ROUNDS):
            async with actor(sqlite_url, server.url, sections=CAPS) as bot:
                if number:
                    typed(bot, number - 1)
                typed(bot, number)
                wanted = choose.randrange(COMMANDS)
                await bot.until(lambda _, wanted=wanted: len(bot.events("answer")) >= wanted)  # type: ignore[misc]
                await bot.kill()
        async with actor(sqlite_url, server.url, sections=CAPS) as bot:
            typed(bot, ROUNDS - 1)
            bot.say("alice", "/subagents usage")
            await bot.until(lambda line: "Your usage" in line.get("text", ""))
            async with Database.open(DatabaseSettings(url=sqlite_url)) as database:

                async def all_are_answered() -> bool:
                    async with database.snapshot() as tx:
                        left = await tx.scalar(select(func.count()).select_from(commands))
                        made = await tx.scalar(select(func.count()).select_from(subagent_runs))
                    return not left and (made or 0) >= ROUNDS * COMMANDS

                await eventually(all_are_answered, "every command is carried out")
                async with database.snapshot() as tx:
                    labels = list(await tx.scalars(select(subagent_runs.c.label)))

    assert sorted(labels) == sorted(
        f"c{number}-{each}" for number in range(ROUNDS) for each in range(COMMANDS)
    )
