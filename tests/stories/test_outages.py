"""The database is away for longer than anybody waits for it, and everything continues by itself."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from bot.conversations import upkeep
from bot.errors import DatabaseUnreachableError
from bot.values import RunStatus
from db import database as database_module
from db import runs
from db.database import Database, DatabaseSettings
from tests.fakes.anthropic_server import Reply
from tests.fakes.outage import LONG, Outage, outage_of
from tests.fakes.patience import eventually
from tests.stories.stage import ALICE, BOB, Play, Stage, call, stage

pytestmark = pytest.mark.timeout(120)

SPAWN = "/subagents spawn --label work Work on it"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let half a second be longer than anybody waits, and the duties be done as often."""
    monkeypatch.setattr(database_module, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(upkeep, "SWEEP_SECONDS", 0.3)
    monkeypatch.setattr(upkeep, "OVERDUE", timedelta(seconds=1))
    monkeypatch.setattr(upkeep, "STOP_OVERDUE", timedelta(seconds=1))


@asynccontextmanager
async def outage_stage(url: str, play: Play) -> AsyncIterator[tuple[Stage, Outage]]:
    async with outage_of(url) as outage, stage(url, play) as it:
        yield it, outage


def left(it: Stage, run_id: str) -> Callable[[], Awaitable[bool]]:
    """Look whether this process has given up on a run: neither at work nor ending."""

    async def given_up() -> bool:
        return not it.bot.upkeep.active.holds(run_id)

    return given_up


async def test_a_run_goes_on_and_is_announced_once_after_an_outage(database_url: str) -> None:
    play = Play(runs={"Work": [call("wait_here"), Reply(text=LONG), Reply(text="Finished.")]})
    async with outage_stage(database_url, play) as (it, outage):
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        await it.gate.held(1)

        await outage.begin()
        it.gate.opened.set()
        await eventually(left(it, run.id), "the process gives up on the run")
        await outage.end()

        announced = await it.outlet.announced(run.id)
        async with it.bot.database.snapshot() as tx:
            over = await runs.active(tx, None)
        assert announced.text == "Finished."
        assert not announced.maybe_repeated
        assert over == []


async def test_a_run_that_was_left_by_an_outage_can_be_stopped(database_url: str) -> None:
    play = Play(runs={"Work": [call("wait_here"), Reply(text=LONG), *[call("wait_here")] * 3]})
    async with outage_stage(database_url, play) as (it, outage):
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        await it.gate.held(1)
        await outage.begin()
        it.gate.opened.set()
        await eventually(left(it, run.id), "the process gives up on the run")
        it.gate.opened.clear()
        await outage.end()

        await it.command(ALICE, "/subagents stop work")

        ended = await it.ended("Work", RunStatus.CANCELLED)
        assert ended.id == run.id


async def test_a_conversation_is_answered_after_an_outage(database_url: str) -> None:
    lines = [call("wait_here"), Reply(text=LONG), Reply(text="Yes."), Reply(text="Still.")]
    play = Play(main=lines)
    async with outage_stage(database_url, play) as (it, outage):
        await it.say(ALICE, "Are you there?")
        await it.gate.held(1)
        turn_id = next(iter(it.bot.upkeep.turns.by_id))

        async def given_up() -> bool:
            return not it.bot.upkeep.turns.holds(turn_id)

        await outage.begin()
        it.gate.opened.set()
        await eventually(given_up, "the process gives up on the turn")
        with pytest.raises(DatabaseUnreachableError, match=r"is full|be reached"):
            await it.say(BOB, LONG)
        await outage.end()

        reply = await it.outlet.replied()
        assert reply.final == "Yes."
        await it.say(ALICE, "And now?")
        second = await it.outlet.replied(2)
        assert second.final == "Still."


async def test_a_run_that_is_cancelled_while_its_end_is_stored_ends_all_the_same(
    postgres_url: str,
) -> None:
    play = Play(runs={"Work": [call("wait_here"), Reply(text="Finished.")]})
    settings = DatabaseSettings(url=postgres_url)
    async with Database.open(settings) as elsewhere, stage(postgres_url, play) as it:
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        await it.gate.held(1)
        ending = it.bot.upkeep.active.ending

        async def is_ending() -> bool:
            return run.id in ending.values()

        async with elsewhere.admission():
            it.gate.opened.set()
            await eventually(is_ending, "the end waits for its lock")
            for task in list(ending):
                task.cancel()
        announced = await it.outlet.announced(run.id)

        assert announced.text == "Finished."
        assert (await it.run_of("Work")).attempt == 1
