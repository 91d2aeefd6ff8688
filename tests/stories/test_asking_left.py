"""A run that waits is left when its process cannot go on, and goes on when there is an answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from bot.app import open_bot
from bot.errors import DatabaseUnreachableError
from bot.values import RunStatus
from db.database import Database, Transaction
from db.tables import subagent_runs
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.asking import until
from tests.fakes.outlet import FakeOutlet
from tests.stories.asking import (
    ASKS_AS_TOOL,
    PAINT,
    World,
    baking,
    painter,
    painting,
    painting_in_a_turn,
)
from tests.stories.stage import ALICE, PLATFORM, Gate, Play, Stage, change, config_for, stage


class FarDatabase(Database):
    """A database that is out of reach while a test says so."""

    away = False

    def _reach(self) -> None:
        if self.away:
            raise DatabaseUnreachableError("My memory cannot be reached at the moment.")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        self._reach()
        async with super().transaction() as tx:
            yield tx

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        self._reach()
        async with super().snapshot() as tx:
            yield tx


@asynccontextmanager
async def far_stage(url: str, play: Play) -> AsyncIterator[tuple[Stage, FarDatabase]]:
    outlet, gate = FakeOutlet(PLATFORM), Gate()
    async with FakeAnthropic(play) as server:
        config = config_for(url, server.url)
        async with (
            FarDatabase.open(config.database) as database,
            open_bot(config, {PLATFORM: outlet}, database=database) as bot,
        ):
            yield Stage(bot, outlet, server, play, gate), database


async def test_a_run_that_waits_outlives_a_database_out_of_reach(database_url: str) -> None:
    play = baking()
    async with far_stage(database_url, play) as (it, database):
        await it.say(ALICE, "Bake me a cake.")
        question = await it.outlet.asked()
        run = await it.run_of("Bake")

        async def nobody_has_it() -> bool:
            return run.id not in it.bot.upkeep.active.by_id

        database.away = True
        await until(nobody_has_it)
        database.away = False
        left = await it.run_of("Bake")
        long_ago = it.bot.upkeep.now() - timedelta(minutes=20)
        table = subagent_runs
        await change(it.bot, table, table.c.id == run.id, updated_at=long_ago)
        reply = await it.bot.orchestrator.answer(ALICE, question.id, choice="2")
        await it.bot.upkeep.recover()
        ended = await it.ended("Bake", RunStatus.COMPLETED)

        assert left.status is RunStatus.WAITING_INPUT
        assert "has your answer" in reply.text
        assert ended.attempt > run.attempt
        assert ended.result == "Baked."


async def drained(it: Stage) -> float:
    """Let a bot end in good order, and return the seconds that this took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await it.bot.drain(20)
    return loop.time() - began


async def test_an_end_in_good_order_waits_for_no_run_that_waits_for_its_user(
    database_url: str, tmp_path: Path
) -> None:
    world = World()
    play = painting(PAINT, Reply(text="Painted."))
    opened = painter(tmp_path, world)
    async with stage(database_url, play, **opened) as it:
        await it.say(ALICE, "Have the fence painted.")
        question = await it.outlet.asked()
        await it.outlet.replied()
        seconds = await drained(it)
    async with stage(database_url, play, **opened) as it:
        await it.outlet.asked()
        await it.bot.orchestrator.answer(ALICE, question.id, choice="yes")
        await it.ended("Paint", RunStatus.COMPLETED)

    assert seconds < 10
    assert world.done == ["fence"]


async def test_nor_for_a_turn_that_waits_for_such_a_run(database_url: str, tmp_path: Path) -> None:
    world = World()
    play = painting_in_a_turn(PAINT, Reply(text="Painted."))
    async with stage(database_url, play, **painter(tmp_path, world, ASKS_AS_TOOL)) as it:
        await it.say(ALICE, "Have the fence painted now.")
        await it.outlet.asked()
        seconds = await drained(it)

    assert seconds < 10
