"""The log of a SQLite file stays short, however much is written and read."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import insert, text

from bot.values import new_run_id
from db import sqlite
from db.database import Database, DatabaseSettings
from db.tables import steps
from tests.fakes.clock import FakeClock

#: The limits here are a quarter of those of a bot.
LOG_BYTES, MOST_LOG_BYTES = 1_000_000, 2_500_000
MOST_BYTES = 4_000_000
#: In the log this becomes more than twice as much.
WRITTEN_BYTES = 4_000_000
BODY_BYTES = 12_500


@pytest.fixture
async def on_file(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    monkeypatch.setattr(sqlite, "LOG_BYTES", LOG_BYTES)
    monkeypatch.setattr(sqlite, "MOST_LOG_BYTES", MOST_LOG_BYTES)
    async with Database.open(DatabaseSettings(url=sqlite_url)) as database:
        yield database


def log_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///") + "-wal")


async def write(database: Database, log: Path, *, bytes_written: int) -> int:
    """Write so much in short transactions, and return the size of the log at its longest."""
    body, now, longest = {"text": "x" * BODY_BYTES}, FakeClock()(), 0
    for _ in range(bytes_written // BODY_BYTES):
        async with database.transaction() as tx:
            row = {"work_id": new_run_id(), "seq": 0, "kind": "answer", "body": body}
            await tx.execute(insert(steps), row | {"created_at": now})
        longest = max(longest, os.stat(log).st_size)  # noqa: PTH116 - quick
        await asyncio.sleep(0)
    return longest


async def read_without_a_gap(database: Database) -> None:
    """Read in transactions of which each begins before the one before it ends."""

    async def read(began: asyncio.Event) -> None:
        async with database.snapshot() as tx:
            await tx.scalar(text("SELECT count(*) FROM users"))
            began.set()
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        while True:
            began = asyncio.Event()
            group.create_task(read(began))
            await began.wait()
            await asyncio.sleep(0.005)


async def test_the_log_stays_short_while_much_is_written(
    on_file: Database, sqlite_url: str
) -> None:
    longest = await write(on_file, log_of(sqlite_url), bytes_written=WRITTEN_BYTES)

    assert longest < MOST_BYTES


async def test_the_log_stays_short_while_others_read_without_a_gap(
    on_file: Database, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a reader takes far longer than its 10 ms.
    monkeypatch.setattr(sqlite, "READERS_MS", 10_000)
    monkeypatch.setattr(sqlite, "WAIT_SECONDS", 60)
    reading = asyncio.ensure_future(read_without_a_gap(on_file))
    longest = await write(on_file, log_of(sqlite_url), bytes_written=WRITTEN_BYTES)
    reading.cancel()
    await asyncio.wait([reading])

    assert longest < MOST_BYTES


async def test_writers_wait_while_a_log_that_is_too_long_is_emptied(
    on_file: Database, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptying, go_on = threading.Event(), threading.Event()
    checkpoint = sqlite.checkpoint

    def slow_checkpoint(path: Path) -> None:
        emptying.set()
        go_on.wait()
        checkpoint(path)

    monkeypatch.setattr(sqlite, "checkpoint", slow_checkpoint)
    monkeypatch.setattr(sqlite, "WAIT_SECONDS", 60)
    log = log_of(sqlite_url)
    writing = asyncio.ensure_future(write(on_file, log, bytes_written=WRITTEN_BYTES))
    await asyncio.to_thread(emptying.wait)
    for _ in range(100 * WRITTEN_BYTES // BODY_BYTES):
        await asyncio.sleep(0)
    kept = log.stat().st_size
    waits = not writing.done()
    go_on.set()

    assert waits
    assert kept < MOST_BYTES
    assert await writing < MOST_BYTES


async def test_writers_go_on_while_one_reader_keeps_the_log_and_it_is_short_afterwards(
    on_file: Database, sqlite_url: str
) -> None:
    log = log_of(sqlite_url)
    async with asyncio.timeout(30), on_file.snapshot() as tx:
        await tx.scalar(text("SELECT count(*) FROM users"))
        kept = await write(on_file, log, bytes_written=WRITTEN_BYTES)
    await on_file.checkpoint()

    assert kept >= MOST_BYTES
    assert log.stat().st_size <= LOG_BYTES


async def test_a_checkpoint_empties_a_long_log(on_file: Database, sqlite_url: str) -> None:
    log = log_of(sqlite_url)
    await write(on_file, log, bytes_written=LOG_BYTES // 4)
    short = log.stat().st_size
    await on_file.checkpoint()
    kept = log.stat().st_size
    async with on_file.snapshot() as tx:
        await tx.scalar(text("SELECT count(*) FROM users"))
        await write(on_file, log, bytes_written=2 * LOG_BYTES)
    await on_file.checkpoint()

    assert kept == short
    assert log.stat().st_size == 0
