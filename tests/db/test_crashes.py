"""A crash counts once, against the work that the dead process started last."""

from datetime import timedelta
from typing import Any

from sqlalchemy import select, update

from bot.values import Identity
from db import workers
from db.database import Database
from db.tables import turns
from db.tables import workers as table
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


async def start(database: Database, *names: str) -> None:
    async with database.transaction() as tx:
        for name in names:
            await workers.start(tx, name, ["discord"])


async def count(database: Database, *alive: str) -> int:
    async with database.transaction() as tx:
        return await workers.count_crashes(tx, alive)


async def at_work(stored: Stored, user: Identity, clock: FakeClock, **values: Any) -> str:
    clock.advance(1)
    begun = {"status": "running", "attempt": 1, "worker_id": "dead", "begun_at": clock()}
    return (await stored.run(user, **begun | values)).id


async def test_a_crash_counts_against_the_work_started_last_and_only_once(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await start(database, "dead", "alive")
    earlier = await at_work(stored, alice, clock)
    last = await at_work(stored, alice, clock)
    elsewhere = await at_work(stored, alice, clock, worker_id="alive")
    over = await at_work(stored, alice, clock, status="completed", completed_at=clock())
    waits = await at_work(stored, alice, clock, status="waiting_input")

    assert await count(database, "alive") == 1
    assert await count(database, "alive") == 0

    found = {each: (await stored.read_run(each)).crashes for each in (earlier, elsewhere, over)}
    assert set(found.values()) == {0}
    assert (await stored.read_run(waits)).crashes == 0
    assert (await stored.read_run(last)).crashes == 1


async def test_a_turn_that_was_started_last_is_counted_too(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await start(database, "w")
    run = await at_work(stored, alice, clock, worker_id="w")
    conversation = await stored.conversation(alice)
    turn = await stored.turn(alice, conversation)
    await stored.claim_turn(conversation)
    clock.advance(1)
    await stored.begin_turn(turn)

    assert await count(database) == 1

    async with database.snapshot() as tx:
        assert await tx.scalar(select(turns.c.crashes).where(turns.c.id == turn)) == 1
    assert (await stored.read_run(run)).crashes == 0


async def test_a_process_that_ended_or_was_asked_to_end_has_not_crashed(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await start(database, "ended", "asked")
    for name in ("ended", "asked"):
        await at_work(stored, alice, clock, worker_id=name)
    async with database.transaction() as tx:
        await workers.stop(tx, "ended")
        await workers.leave(tx, "asked")

    assert await count(database) == 0
    async with database.snapshot() as tx:
        assert await workers.recent_crashes(tx, timedelta(minutes=10)) == 0


async def test_only_crashes_of_the_last_minutes_are_recent(database: Database) -> None:
    await start(database, "first", "second")
    await count(database, "second")
    async with database.transaction() as tx:
        seen = (await workers.last_seen(tx))["first"] - timedelta(minutes=11)
        older = update(table).values(crashed_at=seen, heartbeat_at=seen)
        await tx.execute(older.where(table.c.id == "first"))
    await count(database)

    async with database.snapshot() as tx:
        assert await workers.recent_crashes(tx, timedelta(minutes=10)) == 1


async def test_a_process_that_only_slept_can_crash_again(database: Database) -> None:
    await start(database, "asleep")
    assert await count(database) == 1
    async with database.transaction() as tx:
        # The clock is the database's, and a quick machine does all this within one of its units.
        before = (await workers.last_seen(tx))["asleep"] - timedelta(seconds=1)
        await tx.execute(update(table).values(crashed_at=before))
        await workers.heartbeat(tx, "asleep")

    assert await count(database) == 1
