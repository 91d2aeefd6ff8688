"""The engine and its process: what it needs of the loop, and what it leaves behind."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import pytest
from dbos import error as dbos_error
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from bot.engine import Engine
from bot.tasks import Tasks
from db.database import Database, DatabaseSettings


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
