"""Who is at work is known by heartbeat, and one process at a time takes over for the dead."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, event, func, select, text, update

from db import workers
from db.database import Database, DatabaseSettings
from db.tables import workers as table
from tests.fakes.stored import Stored

TEN_SECONDS = timedelta(seconds=10)
WAITS_FOR_LOCK = text(
    "SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database "
    "WHERE NOT granted AND datname = current_database())"
)


async def start(database: Database, *names: str) -> None:
    async with database.transaction() as tx:
        for name in names:
            await workers.start(tx, name, ["discord", "slack"])


async def beat(database: Database, *names: str) -> None:
    async with database.transaction() as tx:
        for name in names:
            await workers.heartbeat(tx, name)


async def let_pass(database: Database, seconds: float) -> None:
    """Let the last sign of life of every process be this much older: nobody moves their clock."""
    async with database.transaction() as tx:
        for name, seen in (await workers.last_seen(tx)).items():
            older = update(table).where(table.c.id == name)
            await tx.execute(older.values(heartbeat_at=seen - timedelta(seconds=seconds)))


async def alive(database: Database) -> set[str]:
    async with database.snapshot() as tx:
        return set(await workers.alive(tx, TEN_SECONDS))


async def test_a_process_is_alive_while_it_beats_and_until_it_stops(database: Database) -> None:
    await start(database, "steady", "silent", "stopped")
    async with database.transaction() as tx:
        await workers.stop(tx, "stopped")

    assert await alive(database) == {"steady", "silent"}
    await let_pass(database, 8)
    await beat(database, "steady")
    assert await alive(database) == {"steady", "silent"}
    await let_pass(database, 8)
    assert await alive(database) == {"steady"}
    await beat(database, "silent", "stopped")
    assert await alive(database) == {"steady", "silent"}


async def test_a_sign_of_life_has_the_time_of_the_database(database: Database) -> None:
    await start(database, "w")

    async with database.snapshot() as tx:
        now = func.datetime("now") if database.is_sqlite else func.now()
        there = (await tx.execute(select(now))).scalar_one()
        seen = (await workers.last_seen(tx))["w"]
    if isinstance(there, str):
        there = datetime.fromisoformat(there).replace(tzinfo=UTC)
    assert abs(there - seen) < TEN_SECONDS


async def test_signs_of_life_are_stored_and_compared_by_the_clock_of_the_database(
    database: Database,
) -> None:
    sent: list[Any] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        sent.extend((statement, value) for value in parameters)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        await start(database, "w", "stopped")
        async with database.transaction() as tx:
            await workers.heartbeat(tx, "w")
            await workers.leave(tx, "w")
            await workers.stop(tx, "stopped")
            await workers.alive(tx, TEN_SECONDS)
            await workers.count_crashes(tx, [])
            await workers.recent_crashes(tx, TEN_SECONDS)
            await workers.forget(tx, TEN_SECONDS)
    finally:
        event.remove(Engine, "before_cursor_execute", note)

    assert sent
    assert [each for each in sent if _is_a_moment(each[1])] == []


def _is_a_moment(value: object) -> bool:
    return isinstance(value, datetime) or bool(re.match(r"\d{4}-\d\d-\d\d", str(value)))


async def test_only_what_has_been_gone_for_long_is_forgotten(
    database: Database, stored: Stored
) -> None:
    await start(database, "gone", "steady")
    await let_pass(database, 60)
    await beat(database, "steady")

    async with database.transaction() as tx:
        await workers.forget(tx, timedelta(seconds=50))
        assert set(await workers.last_seen(tx)) == {"steady"}
    assert await stored.count(table) == 1


async def test_a_process_that_was_forgotten_while_it_slept_is_known_again_when_it_beats(
    database: Database,
) -> None:
    await start(database, "asleep")
    await let_pass(database, 100_000)
    async with database.transaction() as tx:
        await workers.forget(tx, timedelta(days=1))
        known = await workers.heartbeat(tx, "asleep")

    assert known is False
    await start(database, "asleep")
    assert await alive(database) == {"asleep"}


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


async def test_a_process_starts_after_a_takeover_that_does_not_know_it(postgres_url: str) -> None:
    settings = DatabaseSettings(url=postgres_url)
    async with Database.open(settings) as first, Database.open(settings) as second:
        async with first.transaction() as tx, asyncio.timeout(20):
            assert await workers.try_take_over_lock(tx)
            starts = asyncio.ensure_future(start(second, "new"))
            while not await tx.scalar(WAITS_FOR_LOCK):
                assert not starts.done()
            known = await workers.alive(tx, TEN_SECONDS)
        await starts

    assert known == []


async def test_a_platform_that_ended_is_known_until_another_process_serves_it(
    database: Database,
) -> None:
    await start(database, "first")
    async with database.transaction() as tx:
        await workers.end_platform(tx, "first", "discord", "The token is refused.")
        await workers.end_platform(tx, "first", "slack", "Not installed.")

    assert await ended(database) == {
        "discord": "The token is refused.",
        "slack": "Not installed.",
    }
    await let_pass(database, 60)
    assert set(await ended(database)) == {"discord", "slack"}
    await start(database, "second")
    assert await ended(database) == {}
    await beat(database, "first")
    assert set(await ended(database)) == {"discord", "slack"}


async def ended(database: Database) -> dict[str, str]:
    async with database.snapshot() as tx:
        return await workers.ended_platforms(tx, TEN_SECONDS)
