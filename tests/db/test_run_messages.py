"""Messages to a run are kept in order, read once, and stored once."""

import asyncio

import pytest
from sqlalchemy.exc import IntegrityError

from bot.tasks import Tasks
from bot.values import Identity, new_run_id
from db import run_messages
from db.database import Database, DatabaseSettings
from db.run_messages import RunMessage
from db.runs import Run
from db.steps import Step, StepWriter
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


async def leave(
    database: Database, run: Run, text: str, clock: FakeClock, key: str | None = None
) -> bool:
    async with database.transaction() as tx:
        return await run_messages.add(
            tx, message_id=key or new_run_id(), run_id=run.id, text=text, now=clock()
        )


async def test_messages_wait_in_the_order_in_which_they_were_sent(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run, other, quiet = [await stored.run(alice) for _ in range(3)]
    for text in ("one", "two", "three"):
        assert await leave(database, run, text, clock)
        clock.advance(1)
    await leave(database, other, "not yours", clock)

    async with database.snapshot() as tx:
        assert [text for _, text in await run_messages.unread(tx, run.id)] == [
            "one",
            "two",
            "three",
        ]
        assert await run_messages.unread(tx, quiet.id) == []
        waiting = await run_messages.having_unread(tx, [run.id, quiet.id])
        assert waiting == {run.id}
        assert await run_messages.having_unread(tx, []) == set()


async def test_a_message_is_read_with_the_step_that_tells_it_to_the_model(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = await stored.run(alice, status="running", attempt=1)
    await leave(database, run, "first", clock, "k1")
    clock.advance(1)
    await leave(database, run, "second", clock, "k2")
    step = Step(
        table="runs",
        work_id=run.id,
        attempt=1,
        seq=0,
        kind="answer",
        body={},
        now=clock(),
        read=("k1",),
        number=3,
    )

    await StepWriter(database, Tasks()).write(step)

    async with database.snapshot() as tx:
        assert await run_messages.unread(tx, run.id) == [("k2", "second")]
        assert await run_messages.of_run(tx, run.id) == [
            RunMessage(id="k1", run_id=run.id, text="first", read_at_step=3),
            RunMessage(id="k2", run_id=run.id, text="second", read_at_step=None),
        ]


async def test_a_message_that_is_sent_again_after_a_crash_is_stored_once(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = await stored.run(alice)

    assert await leave(database, run, "once", clock, "key")
    assert not await leave(database, run, "once", clock, "key")

    async with database.snapshot() as tx:
        assert await run_messages.unread(tx, run.id) == [("key", "once")]


async def test_a_message_that_two_processes_store_at_once_is_stored_once(
    database: Database,
    database_settings: DatabaseSettings,
    stored: Stored,
    clock: FakeClock,
    alice: Identity,
) -> None:
    run = await stored.run(alice)
    async with (
        asyncio.timeout(20),
        Database.open(database_settings) as elsewhere,
        asyncio.TaskGroup() as group,
        database.transaction() as tx,
    ):
        first = await run_messages.add(
            tx, message_id="key", run_id=run.id, text="once", now=clock()
        )
        second = group.create_task(leave(elsewhere, run, "once", clock, "key"))
        await asyncio.wait([second], timeout=0.1)

    assert (first, second.result()) == (True, False)


async def test_a_message_to_a_run_that_is_gone_is_refused(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = await stored.run(alice)
    async with database.transaction() as tx:
        await tx.exec_driver_sql("DELETE FROM subagent_runs")

    with pytest.raises(IntegrityError):
        await leave(database, run, "too late", clock)
