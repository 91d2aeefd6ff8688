"""The engine and its process: what it needs of the loop, and what it leaves behind."""

import asyncio
import gc
import logging
import threading
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from dbos import error as dbos_error
from sqlalchemy import func, inspect, select, table, text
from sqlalchemy.exc import OperationalError

from bot.engine import Engine, Work
from bot.engine_library import open_pool
from bot.tasks import Tasks
from bot.values import utc_now
from db.database import Database, DatabaseSettings
from tests.fakes.patience import eventually


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    owner = Tasks()
    yield owner
    await owner.close()


def opened(
    url: str, tasks: Tasks, *, done: asyncio.Event | None = None
) -> AbstractAsyncContextManager[Engine]:
    """Return an engine with one kind of work, which says that it was done."""

    async def work(_: str) -> None:
        if done is not None:
            done.set()

    return Engine.open(url, {"run": work}, tasks=tasks, worker_id="w", lanes=["fake"])


def threads_of_the_engine() -> list[str]:
    """Return those that stay; the engine waits for none, and one may not have ended yet."""
    threads = [each for each in threading.enumerate() if each.name.startswith("dbos-executor")]
    for each in threads:
        each.join(timeout=10)
    return [each.name for each in threads if each.is_alive()]


async def test_the_loop_has_threads_while_an_engine_is_open_between_two_and_after(
    database_url: str, tasks: Tasks
) -> None:
    for number in (1, 2):
        done = asyncio.Event()
        async with opened(database_url, tasks, done=done) as engine:
            await engine.start("run", f"work {number}", "fake")
            async with asyncio.timeout(20):
                await done.wait()
            assert await asyncio.to_thread(lambda: "beside it") == "beside it"
        assert await asyncio.to_thread(lambda: "after it") == "after it"
        # Whatever looks up a name does it in such a thread too.
        assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)


async def test_work_that_ends_after_the_engine_is_resumed_and_logs_nothing(
    database_url: str, tasks: Tasks, caplog: pytest.LogCaptureFixture
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(_: str) -> None:
        begun.set()
        await may_end.wait()

    before = asyncio.all_tasks()
    kinds: dict[str, Work] = {"run": work}
    async with Engine.open(
        database_url, kinds, tasks=tasks, worker_id="first", lanes=["fake"]
    ) as engine:
        await engine.start("run", "late", "fake")
        await begun.wait()
    may_end.set()
    async with asyncio.timeout(20):
        await asyncio.wait(asyncio.all_tasks() - before)

    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    begun.clear()
    async with Engine.open(
        database_url, kinds, tasks=tasks, worker_id="second", lanes=["fake"]
    ) as engine:
        assert await engine.take_over([]) == ["late"]
        async with asyncio.timeout(20):
            await begun.wait()


async def test_the_loop_has_threads_although_the_engine_was_asked_until_its_end(
    sqlite_url: str, tasks: Tasks
) -> None:
    async def ask(engine: Engine) -> None:
        # What is asked while the threads are being shut is refused.
        with suppress(dbos_error.DBOSException, asyncio.CancelledError, RuntimeError):
            while True:
                await engine.unknown(["nothing"])

    async with opened(sqlite_url, tasks) as engine:
        asking = tasks.start(ask(engine), name="ask")
        await engine.unknown(["nothing"])

    async with asyncio.timeout(20):
        await asking
        assert await asyncio.to_thread(lambda: "after it") == "after it"


@pytest.mark.timeout(30)
async def test_a_look_that_is_open_while_the_engine_makes_its_tables_can_end(
    empty_postgres_url: str, tasks: Tasks
) -> None:
    begun = asyncio.Event()

    async def waits(database: Database) -> bool:
        """Whether the engine waits for others to end."""
        async with database.snapshot() as tx:
            return bool(
                await tx.scalar(
                    text(
                        "SELECT count(*) FROM pg_stat_activity "
                        "WHERE query LIKE '%CREATE%INDEX%CONCURRENTLY%' "
                        "AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()"
                    )
                )
            )

    async def look(database: Database) -> None:
        """Look at the database until the engine waits for that to end."""
        async with database.snapshot() as tx:
            await tx.execute(text("SELECT count(*) FROM pg_class"))
            begun.set()
            while not await waits(database):  # noqa: ASYNC110 - nobody else could tell
                await asyncio.sleep(0.01)

    async with (
        Database.open(DatabaseSettings(url=empty_postgres_url)) as database,
        asyncio.TaskGroup() as group,
    ):
        looking = group.create_task(look(database))
        await begun.wait()
        async with opened(empty_postgres_url, tasks):
            await looking


#: Tables of the engine that do not grow with the work, and why.
FIXED = {
    "application_versions": "a row per version of our work",
    "dbos_migrations": "a row per version of the tables",
    "event_dispatch_kv": "only on PostgreSQL: a row per kind of event",
    "queues": "a row per kind of work and platform",
    "workflow_schedules": "the library's own schedules, which we do not use",
}
#: Tables of the engine that lose the rows of ended work.
EMPTIED = {
    "notifications",
    "operation_outputs",
    "streams",
    "workflow_events",
    "workflow_events_history",
    "workflow_input",
    "workflow_output",
    "workflow_status",
}


async def test_nothing_is_left_of_ended_work_in_any_table_of_the_engine(
    database_url: str, tasks: Tasks
) -> None:
    done = asyncio.Event()
    async with opened(database_url, tasks, done=done) as engine:
        for number in range(5):
            await engine.start("run", f"work {number}", "fake")
        async with asyncio.timeout(20):
            await done.wait()

        async def all_ended() -> bool:
            return await engine.unknown([f"work {n}" for n in range(5)]) == [
                f"work {n}" for n in range(5)
            ]

        await eventually(all_ended, "the engine has stored that the work is over")
        # Work that brought its process down too often has a status of its own.
        set_status = "UPDATE {table} SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' {where}"
        in_engine(database_url, set_status, "WHERE workflow_uuid = 'work 3'")
        before = rows_of_the_engine(database_url)
        more = await engine.forget_before(utc_now() + timedelta(days=1))
        after = rows_of_the_engine(database_url)

    assert set(after) | {"event_dispatch_kv"} == set(FIXED) | EMPTIED
    assert before["workflow_status"] == 5
    assert {name: after[name] for name in EMPTIED} == dict.fromkeys(EMPTIED, 0)
    assert more is False


def in_engine(url: str, statement: str, where: str) -> None:
    """Change the engine's record of work."""
    engine = open_pool(url)
    table = "workflow_status" if url.startswith("sqlite") else "dbos.workflow_status"
    with engine.begin() as connection:
        connection.execute(text(statement.format(table=table, where=where)))
    engine.dispose()


def rows_of_the_engine(url: str) -> dict[str, int]:
    """Return how many rows each table of the engine has."""
    engine = open_pool(url)
    schema = None if url.startswith("sqlite") else "dbos"
    with engine.connect() as connection:
        found = {
            name: connection.execute(
                select(func.count()).select_from(table(name, schema=schema))
            ).scalar_one()
            for name in inspect(connection).get_table_names(schema=schema)
        }
    engine.dispose()
    return found


async def test_a_launch_that_breaks_off_leaves_no_engine_behind(
    sqlite_url: str, tmp_path: Path, tasks: Tasks
) -> None:
    broken = tmp_path / "broken" / "engine.db"
    broken.mkdir(parents=True)

    with pytest.raises(OperationalError):
        async with opened(f"sqlite:///{tmp_path}/broken/retinue.db", tasks):
            pass

    async with opened(sqlite_url, tasks):
        pass
    assert threads_of_the_engine() == []


def test_the_engines_connections_have_the_millisecond_clock_of_newer_sqlite(
    sqlite_url: str,
) -> None:
    """From Python 3.12 on the library calls a function that SQLite has since 3.42."""
    engine = open_pool(sqlite_url)
    with engine.connect() as connection:
        before = time.time()
        told = connection.execute(text("SELECT CAST(unixepoch('subsec') * 1000 AS REAL)")).scalar()
    engine.dispose()

    assert told is not None
    assert told == pytest.approx(before * 1000, abs=10_000)
    assert round(told) == pytest.approx(told, abs=0.01), "in whole milliseconds"


async def test_a_call_that_is_cancelled_before_it_begins_leaves_no_coroutine_behind(
    sqlite_url: str, tasks: Tasks
) -> None:
    async with opened(sqlite_url, tasks) as engine:
        asked = asyncio.ensure_future(engine.unknown(["nothing"]))
        asyncio.get_running_loop().call_soon(asked.cancel)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(asyncio.CancelledError):
                await asked
            gc.collect()
