"""After a second crash, interrupted work starts one piece at a time."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import update

from bot.subagents import active
from bot.subagents.active import Restarts
from bot.tasks import Tasks
from db import workers
from db.database import Database
from db.tables import workers as table


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    owner = Tasks()
    yield owner
    await owner.close()


async def crash(database: Database, *names: str) -> None:
    async with database.transaction() as tx:
        for name in names:
            await workers.start(tx, name, ["fake"])
        await workers.count_crashes(tx, [])


async def must_wait(database: Database, gate: Restarts, work_id: str) -> bool:
    async with database.snapshot() as tx:
        return await gate.must_wait(tx, work_id)


async def test_interrupted_work_waits_after_the_second_crash_and_not_after_the_first(
    database: Database, tasks: Tasks
) -> None:
    gate = Restarts(tasks)
    assert not await must_wait(database, gate, "a")
    await crash(database, "first")
    assert not await must_wait(database, gate, "a")
    await crash(database, "second")
    assert await must_wait(database, gate, "a")

    await gate.wait("a")

    assert not await must_wait(database, gate, "a")
    assert await must_wait(database, gate, "b")


@pytest.mark.parametrize(("minutes", "waits"), [(9, True), (11, False)])
async def test_a_crash_counts_for_ten_minutes(
    database: Database, tasks: Tasks, minutes: int, waits: bool
) -> None:
    await crash(database, "first", "second")
    async with database.transaction() as tx:
        ago = workers.time_of(tx, ago=timedelta(minutes=minutes))
        await tx.execute(update(table).where(table.c.id == "first").values(crashed_at=ago))

    assert await must_wait(database, Restarts(tasks), "a") is waits


async def test_the_next_one_starts_when_the_one_before_made_a_step_or_is_over(tasks: Tasks) -> None:
    gate, started = Restarts(tasks), []

    async def start(name: str) -> None:
        await gate.wait(name)
        started.append(name)

    waiting = [asyncio.ensure_future(start(name)) for name in "abc"]
    await waiting[0]
    await asyncio.sleep(0)
    assert started == ["a"]
    gate.passed("c")
    await asyncio.sleep(0)
    assert started == ["a"]
    gate.passed("a")
    await waiting[1]
    gate.passed("a")
    await asyncio.sleep(0)

    assert started == ["a", "b"]
    gate.passed("b")
    await waiting[2]


async def test_work_that_takes_long_holds_the_others_up_for_a_while_only(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active, "TRIAL_SECONDS", 0.01)
    gate = Restarts(tasks)
    await gate.wait("a")

    async with asyncio.timeout(20):
        await gate.wait("b")
