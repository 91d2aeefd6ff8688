"""The database is away for longer than anybody waits for it, and everything continues by itself."""

import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest
from sqlalchemy import select

from bot.conversations import upkeep
from bot.errors import DatabaseUnreachableError
from bot.values import RunStatus
from db import database as database_module
from db import runs, trouble, turns
from db.database import Database, DatabaseSettings
from db.rows import place_columns
from db.tables import conversations
from tests.fakes.anthropic_server import Reply
from tests.fakes.outage import LONG, Outage, outage_of
from tests.fakes.patience import eventually
from tests.fakes.stored import Stored
from tests.stories.stage import ALICE, BOB, ROOM, Play, Stage, call, stage

pytestmark = pytest.mark.timeout(120)

#: What users read about either outage.
REASON = re.compile("is full|cannot be (reached|read or written)")
SPAWN = "/subagents spawn --label work Work on it"
#: What the model says in an outage, however often it is asked: no attempt can store it.
UNSTORED = [Reply(text=LONG)] * 50


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
    play = Play(runs={"Work": [call("wait_here"), *UNSTORED]})
    async with outage_stage(database_url, play) as (it, outage):
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        await it.gate.held(1)

        await outage.begin()
        it.gate.opened.set()
        await eventually(left(it, run.id), "the process gives up on the run")
        paused = it.outlet.card(run.id)
        play.runs["Work"][:] = [Reply(text="Finished.")]
        await outage.end()

        announced = await it.outlet.announced(run.id)
        assert paused.status is RunStatus.RUNNING
        assert REASON.search(paused.line)
        assert not REASON.search(it.outlet.card(run.id).line)
        async with it.bot.database.snapshot() as tx:
            over = await runs.active(tx, None)
        assert announced.text == "Finished."
        assert not announced.maybe_repeated
        assert over == []


async def test_a_run_that_was_left_by_an_outage_can_be_stopped(database_url: str) -> None:
    play = Play(runs={"Work": [call("wait_here"), *UNSTORED]})
    async with outage_stage(database_url, play) as (it, outage):
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        await it.gate.held(1)
        await outage.begin()
        it.gate.opened.set()
        await eventually(left(it, run.id), "the process gives up on the run")
        it.gate.opened.clear()
        play.runs["Work"][:] = [call("wait_here")] * 3
        await outage.end()

        await it.command(ALICE, "/subagents stop work")

        ended = await it.ended("Work", RunStatus.CANCELLED)
        assert ended.id == run.id


async def test_a_conversation_is_answered_after_an_outage(database_url: str) -> None:
    play = Play(main=[call("wait_here"), *UNSTORED])
    async with outage_stage(database_url, play) as (it, outage):
        await it.say(ALICE, "Are you there?")
        await it.gate.held(1)
        turn_id = next(iter(it.bot.upkeep.turns.by_id))

        async def given_up() -> bool:
            return not it.bot.upkeep.turns.holds(turn_id)

        await outage.begin()
        it.gate.opened.set()
        await eventually(given_up, "the process gives up on the turn")
        (shown,) = it.outlet.replies
        assert REASON.search(shown.updates[-1])
        with pytest.raises(DatabaseUnreachableError, match=r"is full|be reached"):
            await it.say(BOB, LONG)
        # Whether the model had been asked before the process gave up depends on the database.
        play.main[:] = [Reply(text="Yes."), Reply(text="Still.")]
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


async def test_a_turn_that_is_cancelled_while_its_end_is_stored_ends_all_the_same(
    postgres_url: str,
) -> None:
    play = Play(main=[call("wait_here"), Reply(text="Yes."), Reply(text="Still.")])
    settings = DatabaseSettings(url=postgres_url)
    async with Database.open(settings) as elsewhere, stage(postgres_url, play) as it:
        await it.say(ALICE, "Are you there?")
        await it.gate.held(1)
        turn_id = next(iter(it.bot.upkeep.turns.by_id))
        ending = it.bot.upkeep.turns.ending
        async with elsewhere.transaction() as tx:
            turn = await turns.get(tx, turn_id)
            assert turn is not None
            this = conversations.c.id == turn.conversation_id
            await tx.execute(select(conversations).where(this).with_for_update(key_share=True))
            it.gate.opened.set()
            await it.outlet.replied()
            for task in list(ending):
                task.cancel()
        await it.say(ALICE, "And now?")
        second = await it.outlet.replied(2)
        async with elsewhere.snapshot() as tx:
            ended = await turns.get(tx, turn_id)

    assert second.final == "Still."
    assert ended is not None
    assert (ended.status, ended.attempt) == ("done", 1)


async def test_an_outage_is_logged_when_it_begins_and_when_it_is_over(
    database_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a full disk what needs no further page may succeed: the outage goes on.
    monkeypatch.setattr(trouble, "QUIET_SECONDS", float("inf"))
    lines = [call("wait_here"), Reply(text=LONG), Reply(text="Yes.")]
    play = Play(main=lines, runs={"Work": [call("wait_here"), Reply(text=LONG)]})
    async with outage_stage(database_url, play) as (it, outage):
        await it.command(ALICE, SPAWN)
        run = await it.run_of("Work")
        await it.say(ALICE, "Are you there?")
        await it.gate.held(2)
        caplog.set_level(logging.WARNING)
        # Of the spawn, where an earlier test of this process has lowered the level.
        caplog.clear()
        await outage.begin()
        it.gate.opened.set()
        await eventually(left(it, run.id), "the process gives up on the run")
        for _ in range(10):
            with pytest.raises(DatabaseUnreachableError):
                await it.say(BOB, LONG)
            for duty in (it.bot.upkeep.recover, it.bot.upkeep.checkpoint):
                with suppress(DatabaseUnreachableError, sqlite3.OperationalError):
                    await duty()
        gone = [*caplog.records]
        await outage.end()
        monkeypatch.setattr(trouble, "QUIET_SECONDS", 0.0)
        await it.outlet.announced(run.id)
        await it.outlet.replied()

        async def is_back() -> bool:
            return len(caplog.records) > len(gone)

        await eventually(is_back, "the end of the outage is logged")

    said = [record.getMessage() for record in gone]
    # The file and the one of the engine beside it fail for a reason each.
    assert 1 <= len(said) == len(set(said)) <= 2, said
    assert all("it is tried again until it is back" in line for line in said)
    back = caplog.records[-1]
    assert len(caplog.records) == len(gone) + 1
    assert "is back after" in back.getMessage()
    assert not any(record.exc_info for record in caplog.records)


async def test_a_run_that_waits_for_a_slot_that_an_outage_freed_begins_with_the_next_sweep(
    database_url: str,
) -> None:
    async with stage(database_url, Play(runs={"Work": [Reply(text="Finished.")]})) as it:
        stored = Stored(it.bot.database, it.bot.upkeep.now)
        values = {"task": "Work", "status": "queued", "token_budget": 50_000}
        run = await stored.run(ALICE, **place_columns(ROOM), **values)
        announced = await it.outlet.announced(run.id)

    assert announced.text == "Finished."
