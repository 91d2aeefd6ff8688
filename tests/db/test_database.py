"""A block is a transaction: all of it or nothing, and a connection always comes back."""

import asyncio
import errno
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, text, update
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError

from bot.errors import DatabaseBusyError, DatabaseUnreachableError
from bot.values import Identity
from db import database as database_module
from db import postgresql, trouble
from db.database import Database, DatabaseSettings, Transaction, is_connection_trouble, patiently
from db.tables import seen_events, users
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored
from tests.fakes.watched_database import WatchedDatabase


async def add(tx: Transaction, name: str) -> None:
    row = {"platform": "p", "event_id": name, "created_at": FakeClock()()}
    await tx.execute(insert(seen_events).values(row))


async def names(tx: Transaction) -> list[str]:
    return list(await tx.scalars(select(seen_events.c.event_id).order_by(seen_events.c.event_id)))


async def read(database: Database) -> list[str]:
    async with database.snapshot() as tx:
        return await names(tx)


async def test_a_block_that_ends_well_is_kept_and_one_that_raises_is_not(
    database: Database,
) -> None:
    async def fail() -> None:
        async with database.transaction() as tx:
            await add(tx, "lost")
            raise LookupError

    async with database.transaction() as tx:
        await add(tx, "kept")
    with pytest.raises(LookupError):
        await fail()

    assert await read(database) == ["kept"]


async def test_a_block_that_is_cancelled_is_undone_and_the_next_one_works(
    database: Database,
) -> None:
    reached = asyncio.Event()

    async def wait_inside() -> None:
        async with database.transaction() as tx:
            await add(tx, "lost")
            reached.set()
            await asyncio.Event().wait()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        task = group.create_task(wait_inside())
        await reached.wait()
        task.cancel()
    async with database.transaction() as tx:
        await add(tx, "kept")

    assert await read(database) == ["kept"]


async def test_transactions_cancelled_anywhere_leave_whole_pairs_and_no_connection_behind(
    database: Database,
) -> None:
    async def write(number: int) -> None:
        async with database.transaction() as tx:
            await add(tx, f"{number} a")
            await add(tx, f"{number} b")

    done = 0
    for steps in range(25):
        task = asyncio.ensure_future(write(steps))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        done += not task.cancelled()

    found = [name.split()[0] for name in await read(database)]
    assert all(found.count(number) == 2 for number in found)
    assert len(found) >= 2 * done
    assert database.connections_in_use() == 0


async def test_a_snapshot_sees_one_state_and_neither_waits_for_a_writer_nor_keeps_one_waiting(
    database: Database,
) -> None:
    async with asyncio.timeout(20), database.transaction() as tx:
        await add(tx, "one")
        assert await read(database) == []

    async with asyncio.timeout(20), database.snapshot() as before:
        assert await names(before) == ["one"]
        async with database.transaction() as tx:
            await add(tx, "two")
        assert await names(before) == ["one"]

    assert await read(database) == ["one", "two"]


async def test_a_snapshot_cannot_write_and_leaves_a_connection_that_can(
    database_url: str,
) -> None:
    async with Database.open(DatabaseSettings(url=database_url, pool_size=1)) as database:
        for number in range(2):
            with pytest.raises(DBAPIError, match=r"read-?only"):
                await write_in_a_snapshot(database)
            async with database.transaction() as tx:
                await tx.execute(insert(users).values(**person(str(number))))

        async with database.snapshot() as tx:
            assert await tx.scalar(select(func.count()).select_from(users)) == 2


async def test_one_statement_is_read_without_a_transaction_and_what_follows_has_one(
    postgres_url: str,
) -> None:
    async def times(tx: Transaction) -> list[datetime]:
        # In PostgreSQL this is the time at which the transaction began.
        return [(await tx.execute(text("SELECT now()"))).scalar_one() for _ in range(2)]

    async with Database.open(DatabaseSettings(url=postgres_url, pool_size=1)) as database:
        alone = await database.read_statement(times)
        together = await database.read(times)

    assert alone[0] < alone[1]
    assert together[0] == together[1]


async def write_in_a_snapshot(database: Database) -> None:
    async with database.snapshot() as tx:
        await add(tx, "lost")


def person(name: str) -> dict[str, object]:
    return {"id": name, "platform": "p", "account": name, "created_at": FakeClock()()}


async def test_many_more_transactions_than_connections_all_get_their_turn(
    database_url: str,
) -> None:
    async with Database.open(DatabaseSettings(url=database_url, pool_size=2)) as database:
        async with database.transaction() as tx:
            await tx.execute(insert(users).values(**person("p")))

        async def count_up() -> None:
            async with database.transaction() as tx:
                await tx.execute(update(users).values(run_counter=users.c.run_counter + 1))

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(count_up())

        async with database.snapshot() as tx:
            assert await tx.scalar(select(users.c.run_counter)) == 20


async def test_nobody_in_a_queue_that_moves_is_told_that_there_is_no_connection(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Much longer than one of the works, on a busy machine too, and shorter than all of them.
    monkeypatch.setattr(database_module, "FREE_CONNECTION_SECONDS", 1.0)
    async with Database.open(DatabaseSettings(url=postgres_url, pool_size=1)) as database:

        async def work() -> None:
            async with database.transaction() as tx:
                await tx.execute(text("SELECT pg_sleep(0.06)"))

        await work()  # The first one opens the connection.
        async with asyncio.TaskGroup() as group:
            for _ in range(24):
                group.create_task(work())

        async with database.transaction():
            with pytest.raises(DatabaseUnreachableError):
                await work()


async def test_times_come_back_aware_in_utc_and_naive_ones_are_refused(
    database: Database,
) -> None:
    elsewhere = datetime(2026, 11, 21, 12, 0, 0, 123456, timezone(timedelta(hours=5, minutes=30)))
    row = {"platform": "p", "event_id": "e", "created_at": elsewhere}
    async with database.transaction() as tx:
        await tx.execute(insert(seen_events).values(row))

    async with database.snapshot() as tx:
        kept = await tx.scalar(select(seen_events.c.created_at))
        assert kept == elsewhere
        assert kept.tzinfo is UTC
        with pytest.raises(StatementError, match="without a zone"):
            await tx.scalar(select(users.c.id).where(users.c.created_at > datetime(2026, 1, 1)))  # noqa: DTZ001


# -- SQLite ----------------------------------------------------------------------------------------


@pytest.fixture
async def on_file(sqlite_url: str) -> AsyncIterator[Database]:
    async with Database.open(DatabaseSettings(url=sqlite_url)) as database:
        async with database.transaction():
            pass  # The first one makes the file one that readers and a writer can share.
        yield database


async def test_while_another_process_writes_the_file_this_one_waits_and_the_loop_goes_on(
    on_file: Database, sqlite_url: str
) -> None:
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def write() -> None:
        async with on_file.transaction() as tx:
            await add(tx, "mine")

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        writing = group.create_task(write())
        for _ in range(20):
            await asyncio.sleep(0.001)
            assert await read(on_file) == []
        assert not writing.done()
        other.execute("INSERT INTO seen_events VALUES ('p', 'theirs', '2026-11-21 09:00:00')")
        other.execute("COMMIT")
        other.close()

    assert await read(on_file) == ["mine", "theirs"]


def write_beside(path: str, name: str) -> None:
    """Write as a tool beside the bot does, again and again, each time with a new connection."""
    for number in range(20):
        with closing(sqlite3.connect(path, timeout=20)) as tool, tool:
            tool.execute("PRAGMA synchronous=NORMAL")
            row = ("p", f"{name} {number:02}", "2026-11-21 09:00:00")
            tool.execute("INSERT INTO seen_events VALUES (?, ?, ?)", row)


async def test_a_bot_and_three_tools_write_one_file_at_once_and_nothing_is_lost(
    on_file: Database, sqlite_url: str
) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        tools = [
            group.create_task(asyncio.to_thread(write_beside, path, name))
            for name in ("x", "y", "z")
        ]
        for number in range(20):
            async with on_file.transaction() as tx:
                await add(tx, f"bot {number:02}")
            await read(on_file)
            await asyncio.wait(tools, timeout=0.005)

    expected = [f"{name} {number:02}" for name in ("bot", "x", "y", "z") for number in range(20)]
    assert await read(on_file) == expected


async def test_a_file_that_stays_locked_is_given_up_and_works_again_later(
    on_file: Database, sqlite_url: str
) -> None:
    async def write(seconds: float) -> None:
        async with asyncio.timeout(seconds), on_file.transaction() as tx:
            await add(tx, "mine")

    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TimeoutError):
        await write(0.1)
    other.close()

    await write(10)

    assert await read(on_file) == ["mine"]


async def test_one_bot_holds_a_file_and_a_second_is_told_which_process_does(
    sqlite_url: str,
) -> None:
    settings = DatabaseSettings(url=sqlite_url)

    async def open_second() -> None:
        async with Database.open(settings, exclusive=True):
            pytest.fail("Two bots hold one file.")

    async with Database.open(settings, exclusive=True):
        with pytest.raises(DatabaseBusyError, match=rf"process {os.getpid()}\b.*PostgreSQL"):
            await open_second()
        async with Database.open(settings) as beside:
            assert await read(beside) == []

    async with Database.open(settings, exclusive=True) as next_one:
        assert await read(next_one) == []


async def test_a_file_is_made_with_its_folder_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data" / "retinue.db"

    async with Database.open(DatabaseSettings(url=f"sqlite:///{path}"), exclusive=True) as database:
        async with database.transaction() as tx:
            await tx.execute(text("CREATE TABLE t (x)"))
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}

    assert set(modes) >= {"retinue.db", "retinue.db-wal", "retinue.db.lock"}
    assert set(modes.values()) == {0o600}


async def test_a_checkpoint_brings_the_log_back_into_the_file(
    on_file: Database, sqlite_url: str
) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    async with on_file.transaction() as tx:
        await add(tx, "kept")
    before = await asyncio.to_thread(path.read_bytes)

    await on_file.checkpoint()

    assert await asyncio.to_thread(path.read_bytes) != before
    assert await read(on_file) == ["kept"]


# -- trouble ---------------------------------------------------------------------------------------


@pytest.mark.processes
async def test_a_connection_that_is_cut_is_trouble_and_the_next_transaction_gets_another(
    postgres_url: str,
) -> None:
    async def be_cut(database: Database) -> None:
        async with database.transaction() as tx:
            await add(tx, "lost")
            pid = await tx.scalar(text("SELECT pg_backend_pid()"))
            async with database.snapshot() as other:
                await other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            await add(tx, "never")

    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        with pytest.raises(DatabaseUnreachableError) as caught:
            await be_cut(database)
        async with database.transaction() as tx:
            await add(tx, "kept")

        assert is_connection_trouble(caught.value)
        assert await read(database) == ["kept"]
        assert database.connections_in_use() == 0


async def test_what_a_frozen_process_holds_is_free_again_after_a_while(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, taken = DatabaseSettings(url=postgres_url), asyncio.Event()

    async def freeze(frozen: Database, others: Database) -> None:
        async with frozen.admission(), others.admission():
            taken.set()

    async with Database.open(settings) as others:
        monkeypatch.setattr(postgresql, "IDLE_SECONDS", 1)
        async with Database.open(settings) as frozen:
            with pytest.raises(DatabaseUnreachableError):
                await freeze(frozen, others)

    assert taken.is_set()


async def test_a_server_that_is_not_there_is_said_in_words_without_its_address() -> None:
    nowhere = DatabaseSettings(url="postgresql://me:hidden@127.0.0.1:1/data")

    with pytest.raises(DatabaseUnreachableError) as caught:
        async with Database.open(nowhere) as database, database.transaction():
            pytest.fail("There is no server.")

    assert is_connection_trouble(caught.value)
    assert "127.0.0.1" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def failed(words: str, *, statement: str = "SELECT 1", parameter: str = "") -> DBAPIError:
    return OperationalError(statement, {"text": parameter}, Exception(words))


def test_trouble_is_told_from_errors_by_what_the_driver_says_and_not_by_what_was_asked() -> None:
    for words in ("connection was closed", "database is locked", "deadlock detected"):
        assert is_connection_trouble(failed(words))
    asked = failed("value too long", statement="UPDATE connections", parameter="how to connect?")
    assert not is_connection_trouble(asked)
    assert not is_connection_trouble(LookupError("connect"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (failed("database or disk is full"), trouble.DISK_FULL),
        (failed("could not extend file: No space left on device"), trouble.DISK_FULL),
        (OSError(errno.ENOSPC, "No space left on device"), trouble.DISK_FULL),
        (sqlite3.OperationalError("database is locked"), trouble.BUSY),
        (failed("canceling statement due to lock timeout"), trouble.BUSY),
        (sqlite3.OperationalError("disk I/O error"), trouble.DISK_ERROR),
        (failed("the database system is starting up"), trouble.NO_CONNECTION),
        (ConnectionRefusedError(), trouble.NO_CONNECTION),
    ],
)
def test_users_read_what_the_trouble_is(error: Exception, told: str) -> None:
    assert trouble.reason_of(error) == told


async def test_work_is_done_again_while_the_database_is_out_of_reach(
    database_settings: DatabaseSettings, alice: Identity
) -> None:
    async with WatchedDatabase.open(database_settings) as database:
        stored = Stored(database, FakeClock())
        database.fail_next(failed("the connection is closed"))

        key = await patiently(lambda: stored.person(alice))

        assert key == alice.key
        assert await stored.count(users) == 1


async def test_an_error_that_waiting_does_not_cure_is_raised_at_once() -> None:
    tries = 0

    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise failed("value too long")

    with pytest.raises(OperationalError):
        await patiently(fail)

    assert tries == 1
