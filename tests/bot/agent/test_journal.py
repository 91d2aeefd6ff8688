"""The values stored with the steps of a turn or run; the contract of journals has the rest."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select

from bot.agent.journal import StoredJournal
from bot.agent.messages import Usage
from bot.agent.protocols import AnswerEntry, Counters
from bot.tasks import Tasks
from bot.values import Identity
from db import run_claims, run_messages, runs
from db.database import Database
from db.steps import StepWriter
from db.tables import run_messages as messages
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet, store_run
from tests.fakes.scripted_model import says


@pytest.fixture
async def run_id(database: Database, clock: FakeClock, alice: Identity) -> str:
    await meet(database, alice, clock())
    return await store_run(database, alice, clock())


@pytest.fixture
async def journal(
    database: Database, tasks: Tasks, clock: FakeClock, run_id: str
) -> AsyncIterator[StoredJournal]:
    async with database.transaction() as tx:
        run = await run_claims.claim(tx, run_id, worker_id="w", reserve=9, now=clock())
    assert run is not None
    yield StoredJournal(
        database=database,
        writer=StepWriter(database, tasks),
        table="runs",
        work_id=run_id,
        attempt=run.attempt,
        now=clock,
        seconds_used=lambda: 12.5,
    )
    await tasks.wait_idle(5)


async def test_counts_and_working_time_stand_in_the_row_of_the_run(
    journal: StoredJournal, database: Database, run_id: str, clock: FakeClock
) -> None:
    clock.advance(3)
    counters = Counters(usage=Usage(1, 20, 300, 4000), tool_calls=7, reserved=50)
    await journal.write(AnswerEntry(None, says("One.")), counters)

    async with database.snapshot() as tx:
        run = await runs.get(tx, run_id)
    assert run is not None
    assert (run.input_tokens, run.output_tokens, run.reserved_tokens) == (4301, 20, 50)
    assert (run.tool_call_count, run.seconds_used, run.updated_at) == (7, 12.5, clock())


async def test_what_was_reserved_is_charged_when_the_next_attempt_begins(
    journal: StoredJournal, database: Database, run_id: str, clock: FakeClock
) -> None:
    await journal.write(AnswerEntry(None, says("One.")), Counters(usage=Usage(10, 5), reserved=70))

    async with database.transaction() as tx:
        run = await run_claims.claim(tx, run_id, worker_id="w", reserve=9, now=clock())
    assert run is not None
    assert run.tokens == 85


async def test_a_message_is_marked_with_the_step_that_read_it(
    journal: StoredJournal, database: Database, run_id: str, clock: FakeClock
) -> None:
    async with database.transaction() as tx:
        for name in ("m1", "m2"):
            await run_messages.add(tx, message_id=name, run_id=run_id, text="Hi", now=clock())
    await journal.write(AnswerEntry(None, says("One.")), Counters())
    await journal.write(AnswerEntry(None, says("Two."), read=("m1",)), Counters())

    async with database.snapshot() as tx:
        rows = await tx.execute(select(messages.c.id, messages.c.read_at_step))
        assert {row.id: row.read_at_step for row in rows} == {"m1": 2, "m2": None}
        assert await run_messages.unread(tx, run_id) == [("m2", "Hi")]
