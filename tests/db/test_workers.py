"""Who is at work is known by heartbeat, and one process at a time takes over for the dead."""

from datetime import timedelta

from sqlalchemy import select

from bot.values import Identity
from db import workers
from db.database import Database, DatabaseSettings
from db.tables import audit
from db.tables import workers as table
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

TEN_SECONDS = timedelta(seconds=10)


async def start(database: Database, clock: FakeClock, *names: str) -> None:
    async with database.transaction() as tx:
        for name in names:
            await workers.start(tx, name, ["discord", "slack"], clock())


async def beat(database: Database, clock: FakeClock, *names: str) -> None:
    async with database.transaction() as tx:
        for name in names:
            await workers.beat(tx, name, clock())


async def alive(database: Database, clock: FakeClock) -> set[str]:
    async with database.snapshot() as tx:
        return set(await workers.alive(tx, clock() - TEN_SECONDS))


async def test_a_process_is_alive_while_it_beats_and_until_it_stops(
    database: Database, clock: FakeClock
) -> None:
    await start(database, clock, "steady", "silent", "stopped")
    begin = clock()
    async with database.transaction() as tx:
        await workers.stop(tx, "stopped", clock())

    assert await alive(database, clock) == {"steady", "silent"}
    clock.advance(10)
    await beat(database, clock, "steady")
    assert await alive(database, clock) == {"steady", "silent"}
    clock.advance(1)
    assert await alive(database, clock) == {"steady"}
    await beat(database, clock, "silent", "stopped")
    assert await alive(database, clock) == {"steady", "silent"}

    async with database.snapshot() as tx:
        seen = await workers.last_seen(tx)
    assert seen["steady"] == begin + TEN_SECONDS


async def test_only_what_has_been_gone_for_long_is_forgotten(
    database: Database, stored: Stored, clock: FakeClock
) -> None:
    await start(database, clock, "gone", "steady")
    clock.advance(60)
    await beat(database, clock, "steady")

    async with database.transaction() as tx:
        await workers.forget_before(tx, clock())
        assert set(await workers.last_seen(tx)) == {"steady"}
    assert await stored.count(table) == 1


async def test_a_process_that_was_forgotten_while_it_slept_is_known_again_when_it_beats(
    database: Database, clock: FakeClock
) -> None:
    await start(database, clock, "asleep")
    clock.advance(100_000)
    async with database.transaction() as tx:
        await workers.forget_before(tx, clock())
        known = await workers.beat(tx, "asleep", clock())

    assert known is False
    await start(database, clock, "asleep")
    assert await alive(database, clock) == {"asleep"}


async def test_one_process_at_a_time_takes_over(
    database: Database, database_settings: DatabaseSettings
) -> None:
    async with Database.open(database_settings) as elsewhere:
        async with database.transaction() as tx:
            assert await workers.try_take_over_lock(tx)
            if not database.is_sqlite:  # On a file there is one bot, and one writer.
                async with elsewhere.transaction() as other:
                    assert not await workers.try_take_over_lock(other)

        async with elsewhere.transaction() as other:
            assert await workers.try_take_over_lock(other)


async def test_what_an_admin_does_is_written_down(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    async with database.transaction() as tx:
        await workers.note(
            tx, user_id=alice.key, action="stop", subject="run", detail="of bob\0", now=clock()
        )

    async with database.snapshot() as tx:
        row = (await tx.execute(select(audit))).one()
    noted = (row.user_id, row.action, row.subject, row.detail, row.created_at)
    assert noted == (alice.key, "stop", "run", "of bob\ufffd", clock())
