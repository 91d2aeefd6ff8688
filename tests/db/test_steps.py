"""Steps are stored together, once, and only by the attempt that has the work."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import timedelta
from math import inf
from typing import Any

import pytest
from sqlalchemy import insert, update
from sqlalchemy.exc import OperationalError

from bot.agent.journal import run_columns
from bot.agent.messages import Usage
from bot.errors import FencedError
from bot.tasks import Tasks
from bot.values import Identity, Json
from db import run_claims, run_messages, runs, steps, turns
from db.database import Database, DatabaseSettings
from db.runs import Run
from db.steps import Step, StepWriter
from db.tables import steps as table
from db.tables import turns as turns_table
from tests.fakes.clock import FakeClock
from tests.fakes.forgetting import forget
from tests.fakes.stored import Stored
from tests.fakes.watched_database import WatchedDatabase, When

BROKEN = RuntimeError("the driver fell over")
GONE = OperationalError("COMMIT", {}, ConnectionError("the connection is lost"))


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[WatchedDatabase]:
    async with WatchedDatabase.open(database_settings) as opened:
        yield opened
        assert opened.connections_in_use() == 0, "A connection was not given back."


@pytest.fixture
async def writer(database: Database) -> AsyncIterator[StepWriter]:
    tasks = Tasks()
    yield StepWriter(database, tasks)
    await tasks.wait_idle(5)
    assert not len(tasks)


@pytest.fixture
async def run(stored: Stored, alice: Identity) -> Run:
    return await begun(stored, alice)


async def begun(stored: Stored, user: Identity) -> Run:
    return await stored.run(user, status="running", attempt=1, crashes=2, reserved_tokens=50)


def step(run: Run, seq: int, **values: Any) -> Step:
    row: Json = {
        "table": "runs",
        "work_id": run.id,
        "attempt": 1,
        "seq": seq,
        "kind": "answer",
        "body": {"text": f"step {seq}"},
        "now": run.created_at,
    }
    return Step(**(row | values))


async def outcomes(writes: Sequence[Awaitable[None]]) -> list[BaseException | None]:
    """Wait for all writes, begun at once, and return what each raised."""
    async with asyncio.timeout(20):
        return await asyncio.gather(*writes, return_exceptions=True)  # noqa: TID251


async def texts(database: Database, run: Run) -> list[str]:
    async with database.snapshot() as tx:
        return [body["text"] for _, _, body in await steps.load(tx, run.id)]


async def test_a_step_is_stored_with_all_that_belongs_to_it(
    database: Database, writer: StepWriter, run: Run, clock: FakeClock, stored: Stored
) -> None:
    async with database.transaction() as tx:
        for name in ("a", "b"):
            await run_messages.add(tx, message_id=name, run_id=run.id, text=name, now=clock())

    await writer.write(
        step(
            run,
            0,
            counts=run_columns(Usage(input=8, cache_read=3, output=7, cost=40)),
            reserved_tokens=3,
            tool_calls=2,
            seconds_used=1.5,
            read=("a",),
            number=4,
        )
    )

    after = await stored.read_run(run.id)
    counts = (after.input_tokens, after.output_tokens, after.reserved_tokens)
    assert counts == (11, 7, 3)
    assert (after.cached_tokens, after.cost) == (3, 40)
    assert (after.tool_call_count, after.seconds_used, after.crashes) == (2, 1.5, 0)
    async with database.snapshot() as tx:
        assert await steps.load(tx, run.id) == [(0, "answer", {"text": "step 0"})]
        assert await steps.count(tx, run.id) == 1
        read = {
            message.id: message.read_at_step for message in await run_messages.of_run(tx, run.id)
        }
    assert read == {"a": 4, "b": None}


async def test_a_turns_step_moves_the_counts_of_the_turn(
    database: Database, writer: StepWriter, stored: Stored, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    turn_id = await stored.turn(alice, conversation)
    await stored.claim_turn(conversation)
    await stored.begin_turn(turn_id)
    async with database.transaction() as tx:
        await tx.execute(update(turns_table).values(crashes=2))
    row: Json = {"table": "turns", "work_id": turn_id, "attempt": 1, "seq": 0, "kind": "result"}

    await writer.write(Step(**row, body={}, now=stored.now(), counts=run_columns(Usage(input=5))))

    async with database.snapshot() as tx:
        turn = await turns.get(tx, turn_id)
        assert await steps.count(tx, turn_id) == 0
    assert turn is not None
    assert turn.crashes == 0


async def test_a_hundred_steps_at_once_need_few_transactions_and_keep_their_order(
    database: WatchedDatabase, writer: StepWriter, stored: Stored, alice: Identity, bob: Identity
) -> None:
    works = [await begun(stored, user) for user in (alice, bob) for _ in range(5)]
    database.transactions = 0

    raised = await outcomes([writer.write(step(run, seq)) for seq in range(10) for run in works])

    assert raised == [None] * 100
    assert database.transactions <= 3
    for run in works:
        assert await texts(database, run) == [f"step {seq}" for seq in range(10)]


async def test_the_last_step_of_a_run_does_not_wait_for_more(
    writer: StepWriter, run: Run, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "BUSY_SECONDS", inf)
    monkeypatch.setattr(steps, "GATHER_SECONDS", 1_000)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for seq in range(steps.BUSY_STEPS):
            await writer.write(step(run, seq))
        waits = group.create_task(writer.write(step(run, steps.BUSY_STEPS, reserved_tokens=9)))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waits.done()
        await writer.write(step(run, steps.BUSY_STEPS + 1))

    assert len(await texts(database, run)) == steps.BUSY_STEPS + 2


async def test_a_stale_attempts_step_is_refused_and_the_others_of_its_batch_are_stored(
    database: WatchedDatabase, writer: StepWriter, run: Run, stored: Stored, bob: Identity
) -> None:
    other, over = await begun(stored, bob), await begun(stored, bob)
    async with database.transaction() as tx:
        await run_claims.claim(tx, run.id, worker_id="w2", reserve=0, now=stored.now())
        await runs.finish(tx, over.id, {"status": "failed"}, attempt=None, now=stored.now())
    database.transactions = 0

    stale, fresh, foreign, late = await outcomes(
        [
            writer.write(step(run, 0, counts=run_columns(Usage(input=999)))),
            writer.write(step(run, 0, attempt=2, body={"text": "mine"})),
            writer.write(step(other, 0)),
            writer.write(step(over, 0)),
        ]
    )

    assert isinstance(stale, FencedError)
    assert (fresh, foreign) == (None, None)
    assert isinstance(late, FencedError)
    assert database.transactions == 1
    assert await texts(database, run) == ["mine"]
    assert await texts(database, other) == ["step 0"]
    assert await texts(database, over) == []
    assert (await stored.read_run(run.id)).input_tokens != 999


async def test_a_number_that_is_taken_is_refused_and_the_others_of_its_batch_are_stored(
    database: Database, writer: StepWriter, run: Run, stored: Stored, bob: Identity
) -> None:
    other = await begun(stored, bob)
    await writer.write(step(run, 0))

    taken, next_one, foreign, twice = await outcomes(
        [
            writer.write(step(run, 0, body={"text": "again"})),
            writer.write(step(run, 1)),
            writer.write(step(other, 0)),
            writer.write(step(other, 0, body={"text": "again"})),
        ]
    )

    assert isinstance(taken, FencedError)
    assert isinstance(twice, FencedError)
    assert (next_one, foreign) == (None, None)
    assert await texts(database, run) == ["step 0", "step 1"]
    assert await texts(database, other) == ["step 0"]


async def test_a_step_that_cannot_be_stored_does_not_cost_the_others_theirs(
    database: Database, writer: StepWriter, run: Run, stored: Stored, bob: Identity
) -> None:
    other = await begun(stored, bob)

    bad, good, next_one = await outcomes(
        [
            writer.write(step(run, 0, kind="k" * 50)),
            writer.write(step(other, 0)),
            writer.write(step(other, 1)),
        ]
    )

    assert (good, next_one) == (None, None)
    assert await texts(database, other) == ["step 0", "step 1"]
    # SQLite stores anything anywhere; PostgreSQL does not.
    assert (bad is None) == database.is_sqlite


@pytest.mark.parametrize("when", ["begin", "commit"])
async def test_a_failure_reaches_all_who_wait_and_later_steps_are_stored(
    database: WatchedDatabase, writer: StepWriter, run: Run, when: When
) -> None:
    database.fail_next(BROKEN, when=when)

    raised = await outcomes([writer.write(step(run, seq)) for seq in range(5)])
    await asyncio.wait_for(writer.write(step(run, 0)), 10)

    assert raised == [BROKEN] * 5
    assert await texts(database, run) == ["step 0"]


@pytest.mark.parametrize("when", ["begin", "commit", "answer"])
async def test_a_lost_connection_is_waited_for_and_no_step_is_lost_or_stored_twice(
    database: WatchedDatabase, writer: StepWriter, run: Run, when: When
) -> None:
    database.fail_next(GONE, when=when)

    raised = await outcomes([writer.write(step(run, seq)) for seq in range(3)])

    assert raised == [None] * 3
    assert await texts(database, run) == [f"step {seq}" for seq in range(3)]


async def test_a_failure_while_a_refused_batch_is_sorted_out_leaves_nobody_waiting(
    database: WatchedDatabase, writer: StepWriter, run: Run
) -> None:
    await writer.write(step(run, 0))
    # The batch is refused; then each step is tried by itself, and the first try fails.
    database.fail_next(BROKEN, after=1)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        impatient = group.create_task(outcomes([writer.write(step(run, 0))]))
        patient = group.create_task(outcomes([writer.write(step(run, 1))]))

    assert (impatient.result(), patient.result()) == ([BROKEN], [None])
    assert await texts(database, run) == ["step 0", "step 1"]


async def test_who_waits_when_the_writer_is_cancelled_is_cancelled_too(
    database: WatchedDatabase, run: Run
) -> None:
    tasks = Tasks()
    writer = StepWriter(database, tasks)
    hold = database.hold_next()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        waiting = [group.create_task(writer.write(step(run, seq))) for seq in range(2)]
        await hold.reached.wait()
        await tasks.close()

    assert all(task.cancelled() for task in waiting)
    await asyncio.wait_for(writer.write(step(run, 0)), 10)


async def test_who_stops_waiting_does_not_keep_the_others_from_being_stored(
    database: WatchedDatabase, writer: StepWriter, run: Run
) -> None:
    hold = database.hold_next()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        impatient = group.create_task(writer.write(step(run, 0)))
        patient = group.create_task(writer.write(step(run, 1)))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait([impatient])
        hold.released.set()
        await patient

    assert impatient.cancelled()
    assert "step 1" in await texts(database, run)
    await asyncio.wait_for(writer.write(step(run, 2)), 10)


async def test_what_comes_while_others_are_committed_is_stored_too(
    database: WatchedDatabase, writer: StepWriter, run: Run
) -> None:
    hold = database.hold_next()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for seq in range(3):
            group.create_task(writer.write(step(run, seq)))
            await asyncio.sleep(0)
        hold.released.set()
        group.create_task(writer.write(step(run, 3)))

    assert await texts(database, run) == [f"step {seq}" for seq in range(4)]


async def test_two_processes_write_one_number_and_one_of_them_is_refused(
    database_settings: DatabaseSettings, database: Database, run: Run
) -> None:
    tasks = Tasks()
    async with Database.open(database_settings) as elsewhere:
        writers = [StepWriter(each, tasks) for each in (database, elsewhere)]

        raised = await outcomes(
            [
                writers[seq % 2].write(step(run, seq // 2, body={"text": f"by {seq % 2}"}))
                for seq in range(40)
            ]
        )
        await tasks.wait_idle(5)

    refused = [error for error in raised if error is not None]
    assert len(refused) == 20
    assert all(isinstance(error, FencedError) for error in refused)
    assert len(await texts(database, run)) == 20


async def test_text_that_no_database_takes_is_stored_with_marks_in_its_place(
    database: Database, writer: StepWriter, run: Run
) -> None:
    body = {"text": "a\0b\ud800c\udfff", "deep": [{"\0key": "🙂 ok \\u0000"}], "n": 1}

    await asyncio.wait_for(writer.write(step(run, 0, body=body)), 10)

    async with database.snapshot() as tx:
        ((_, _, kept),) = await steps.load(tx, run.id)
    clean = {"text": "a\ufffdb\ufffdc\ufffd", "deep": [{"\ufffdkey": "🙂 ok \\u0000"}], "n": 1}
    assert kept == clean


async def test_steps_are_forgotten_when_old_but_not_those_of_work_that_goes_on(
    database: Database, writer: StepWriter, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    waiting = await stored.turn(alice, await stored.conversation(alice))
    queued = await stored.run(alice, status="queued")
    going, over = await begun(stored, alice), await begun(stored, alice)
    for run in (going, over):
        await writer.write(step(run, 0, now=clock()))
        await writer.write(step(run, 1, now=clock() + timedelta(2)))
    row = {"seq": 0, "kind": "answer", "body": {"text": "old"}, "created_at": clock()}
    async with database.transaction() as tx:
        await runs.finish(tx, over.id, {"status": "failed"}, attempt=None, now=clock())
        for work in (waiting, queued.id, "nobody's"):
            await tx.execute(insert(table).values(work_id=work, **row))

    async with database.transaction() as tx:
        assert await forget(tx, table, clock() + timedelta(1)) == 2

    async with database.snapshot() as tx:
        kept = {
            work: len(await steps.load(tx, work))
            for work in (waiting, queued.id, going.id, over.id, "nobody's")
        }
    assert list(kept.values()) == [1, 1, 2, 1, 0]
