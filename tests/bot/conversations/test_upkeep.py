"""Old rows are deleted in time, and nothing earlier."""

import asyncio
from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Table, update

from bot import serving
from bot.conversations.retention import Retention
from bot.conversations.upkeep import STOP_OVERDUE, SWEEP_SECONDS, Upkeep
from bot.platforms.messaging import catch_up, intake
from bot.subagents.active import ActiveRuns
from bot.subagents.limits import SubagentSettings
from bot.subagents.retention import RetentionSettings
from bot.subagents.wording import Outcome
from bot.values import File, Identity
from db import audit, conversations, todos, workers
from db import files as stored_files
from db.database import LONGEST_PAUSE_SECONDS, Database
from db.postgresql import IDLE_SECONDS
from db.runs import Run
from db.tables import files as table
from db.tables import messages, schedules, subagent_runs, turns
from db.tables import todos as todo_lists
from db.todos import Todo
from skills.mcp.server import McpTimings
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngine
from tests.fakes.office import FakeOffice
from tests.fakes.planned import Plans
from tests.fakes.stored import Stored


async def idle() -> None:
    """Let everything happen that waits for nothing from outside."""
    for _ in range(20):
        await asyncio.sleep(0)


def upkeep(database: Database, clock: FakeClock, retention: RetentionSettings) -> Upkeep:
    """Return the duties, with the parts that forgetting takes."""
    settings = SubagentSettings()
    own = {"heartbeat", "_logged", "_further"}
    parts: dict[str, Any] = {field.name: None for field in fields(Upkeep) if field.name not in own}
    parts |= {
        "database": database,
        "engine": FakeEngine(),
        "endings": FakeOffice(database, settings, clock).endings,
        "settings": settings,
        "configuration": str,
        "version": "",
        "retention": Retention(
            database=database,
            settings=retention,
            runs=settings,
            now=clock,
        ),
        "now": clock,
    }
    return Upkeep(**parts)


async def test_files_are_forgotten_after_their_days_and_their_messages_are_not(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    stored, cat = Stored(database, clock), File("cat.png", "image/png", b"\x89PNG")
    conversation = await stored.conversation(alice)
    async with database.transaction() as tx:
        message = await conversations.say(tx, conversation, role="user", text="Look", now=clock())
        await stored_files.put_files(tx, message, [cat], clock())
    duties = upkeep(database, clock, RetentionSettings(files_days=2))

    clock.advance(47 * 3600)
    await duties.retention.apply()
    kept = await stored.count(table)
    clock.advance(2 * 3600)
    await duties.retention.apply()

    assert kept == 1
    assert await stored.count(table) == 0
    assert await stored.count(messages) == 1


async def test_a_configuration_that_a_start_brings_is_recorded_once(
    database: Database, clock: FakeClock
) -> None:
    for process, configuration in (("one", "a" * 64), ("two", "a" * 64), ("three", "b" * 64)):
        duties = replace(
            upkeep(database, clock, RetentionSettings()),
            worker_id=process,
            platforms=(),
            configuration=partial(str, configuration),
        )
        clock.advance(1)
        await duties.enter()

    found = await database.read(audit.newest, audit.Filter(action="configuration"), limit=9)
    assert [each.entry.subject for each in found] == ["b" * 16, "a" * 16]


async def test_a_duty_that_takes_long_delays_no_other(database: Database, clock: FakeClock) -> None:
    """The audit log is sealed while a provider does not answer, for instance."""
    release, done = asyncio.Event(), list[str]()

    async def slow() -> None:
        done.append("slow")
        await release.wait()

    async def quick() -> None:
        done.append("quick")

    duties = upkeep(database, clock, RetentionSettings())
    duties = replace(duties, further=lambda: [slow, quick])
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for _ in range(2):
            duties.do_further(group)
            await idle()
        release.set()
        await idle()
        duties.do_further(group)

    assert done == ["slow", "quick", "quick", "slow", "quick"]


async def test_schedules_that_are_over_and_old_lists_are_forgotten_with_the_runs(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    plans = Plans(database, clock)
    await plans.plan(alice, at="in 1 hour")
    await plans.plan(alice, cron="0 9 * * *")
    await plans.cancel(1, alice)
    async with database.transaction() as tx:
        await todos.write(tx, "c1", alice.key, [Todo("Rest", "pending")], clock())
    duties = upkeep(database, clock, RetentionSettings(runs_days=2))

    clock.advance(47 * 3600)
    await duties.retention.apply()
    kept = await Stored(database, clock).counts([schedules, todo_lists])
    clock.advance(2 * 3600)
    await duties.retention.apply()

    assert kept == {"schedules": 2, "todos": 1}
    assert await Stored(database, clock).counts([schedules, todo_lists]) == {
        "schedules": 1,
        "todos": 0,
    }


def test_no_wait_for_the_database_is_longer_than_the_time_to_recover() -> None:
    recovery = 30.0
    waits = {
        "work whose end was not stored": 2 * SWEEP_SECONDS,
        "a run that is to stop": STOP_OVERDUE.total_seconds() + SWEEP_SECONDS,
        "a process that starts": serving.LONGEST_WAIT_SECONDS,
        "what was said": max(intake.STORE_PAUSES),
        "what was missed": catch_up.MARK_SECONDS,
        "a step, an end, a booking": LONGEST_PAUSE_SECONDS,
        "the tools of an MCP server": McpTimings().pins_every,
        "what a frozen process holds": IDLE_SECONDS,
    }

    assert {name: wait for name, wait in waits.items() if wait >= recovery} == {}


def releasing(database: Database, clock: FakeClock) -> Upkeep:
    """Return duties that release runs with the outcome that they find."""

    async def unchanged(_: Run, outcome: Outcome) -> Outcome:
        return outcome

    duties = upkeep(database, clock, RetentionSettings())
    return replace(duties, active=ActiveRuns(), worker_id="me", stored_outcome=unchanged)


@pytest.mark.parametrize(("mode", "over"), [("async", "lost"), ("sync", "failed")])
async def test_a_run_whose_tool_takes_hours_in_another_process_is_not_lost(
    database: Database, clock: FakeClock, alice: Identity, mode: str, over: str
) -> None:
    stored, duties = Stored(database, clock), releasing(database, clock)
    run = await stored.run(alice, status="running", worker_id="other", attempt=1, mode=mode)
    await database.write(workers.start, "other", ["discord"])
    clock.advance(5 * 3600)

    await duties.release()

    # On SQLite there is one process, so that any other has died.
    status = over if database.is_sqlite else "running"
    assert (await stored.read_run(run.id)).status == status


async def test_a_delegated_task_that_was_stopped_is_stopped_when_nothing_waits_for_it(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    stored, duties = Stored(database, clock), releasing(database, clock)
    task = await stored.run(
        alice, status="accepted", mode="sync", batch_id="gone", cancel_requested_at=clock()
    )

    await duties.release()

    assert (await stored.read_run(task.id)).status == "cancelled"


@pytest.mark.parametrize("nested", [False, True])
async def test_a_delegated_task_that_never_began_ends_when_nothing_waits_for_it_any_more(
    database: Database, clock: FakeClock, alice: Identity, nested: bool
) -> None:
    stored, duties = Stored(database, clock), releasing(database, clock)
    turn = await stored.turn(alice, await stored.conversation(alice))
    parent = await stored.run(alice, status="running", worker_id="me")
    caller = {"parent_run_id": parent.id} if nested else {}
    task = await stored.run(alice, status="accepted", mode="sync", batch_id=turn, **caller)
    active = duties.active.enter(parent.id)

    await duties.release()

    assert (await stored.read_run(task.id)).status == "accepted"
    over = (subagent_runs, parent.id, "failed") if nested else (turns, turn, "stopped")
    await end(database, *over)

    await duties.release()

    ended = await stored.read_run(task.id)
    assert (ended.status, ended.error) == ("failed", "The work that asked for it is over.")
    duties.active.leave(parent.id, active)


async def end(database: Database, table: Table, key: str, status: str) -> None:
    async with database.transaction() as tx:
        await tx.execute(update(table).where(table.c.id == key).values(status=status))
