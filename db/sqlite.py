"""SQLite without a thread per connection, and with a log that stays short.

A statement on a file in WAL mode takes some ten microseconds; passing it to a thread and waiting
for the result costs many times that (measured in `docs/decisions/0003`). Two operations could block
the loop for longer, and are avoided: waiting for another process's lock (`begin` does not wait, and
`db.database` retries later), and copying the log back into the file, with its `fsync`
(`checkpoint`, in a thread, from time to time).
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bot.tasks import Tasks
from db.types import to_json

log = logging.getLogger(__name__)

PREPARE = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA busy_timeout=0",
    "PRAGMA wal_autocheckpoint=0",
)
#: A write in a snapshot would be lost: its connections refuse writes.
READ_ONLY = "PRAGMA query_only=ON"
#: Methods of the standard driver that the dialect awaits.
AWAITED = frozenset(
    {
        *("close", "commit", "create_function", "execute", "executemany"),
        *("fetchall", "fetchmany", "rollback"),
    }
)
#: A log longer than `LOG_BYTES` is emptied; writers wait for that when it exceeds `MOST_LOG_BYTES`.
LOG_BYTES, MOST_LOG_BYTES = 4_000_000, 10_000_000
#: Longest wait for readers while the log is emptied, during which writers wait too.
READERS_MS = 50
#: Pause before another attempt to empty a log that a reader needs.
RETRY_SECONDS = 1.0
#: Longest wait of a writer while the log is emptied.
WAIT_SECONDS = 1.0


class Inline:
    """A connection or a cursor for SQLAlchemy's `aiosqlite` dialect, without the thread."""

    def __init__(self, connection: sqlite3.Connection | sqlite3.Cursor) -> None:
        self._connection: Any = connection

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        return partial(_run, found) if name in AWAITED else found

    async def __aenter__(self) -> "Inline":
        return self

    def cursor(self) -> "Inline":
        """Return a new cursor of a connection."""
        return Inline(self._connection.cursor())

    def begin(self, statement: str) -> None:
        """Begin a transaction: without a cursor of SQLAlchemy, which costs ten times as much.

        Raises:
            OperationalError: The file is locked or cannot be read.
        """
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            raise OperationalError(statement, None, error) from error

    def stop(self) -> None:
        """Close the connection, also outside of a coroutine."""
        self._connection.close()


async def _run(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return method(*arguments, **named)


def open_engine(path: Path, *, writes: bool) -> AsyncEngine:
    """Return a pool on a SQLite file: one connection that writes, or a few that read."""

    async def connect(*_: Any, **__: Any) -> Inline:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            for statement in PREPARE if writes else (*PREPARE, READ_ONLY):
                connection.execute(statement)
        except sqlite3.Error:
            connection.close()
            raise
        return Inline(connection)

    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}",
        pool_size=1 if writes else 4,
        max_overflow=0,
        pool_timeout=30,
        async_creator=connect,
        hide_parameters=True,
        json_serializer=to_json,
    )

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Any) -> None:
        connection.connection.driver_connection.begin("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def checkpoint(path: Path) -> None:
    """Copy the log back into the file, without waiting for others. Call it in a thread."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def empty_log(path: Path) -> bool:
    """Copy the rest of the log back and truncate it. Call it in a thread, as the only writer.

    Returns:
        True if the log is empty; False if a reader needed it for longer than `READERS_MS`.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA busy_timeout={READERS_MS}")
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def log_bytes(path: Path) -> int:
    """Return the size of a file's log."""
    try:
        return os.stat(f"{path}-wal").st_size  # noqa: PTH116 - at every commit
    except FileNotFoundError:
        return 0


class WriteAheadLog:
    """Copies the log back into the file, and empties it when it is long.

    SQLite restarts the log only when there are no readers and everything is copied; under constant
    load that never happens by itself. Emptying blocks the one writer for a moment, and most of the
    log is copied before.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one_writer = asyncio.Lock()
        self._tasks = Tasks()
        self._emptying: asyncio.Task[None] | None = None
        self._bytes = 0
        self._try_at = 0.0

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Admit one writer at a time, and none while a log that is too long is being emptied.

        A log that is long after the block is emptied from then on, unless the block raised.
        """
        if self._bytes > MOST_LOG_BYTES and self._emptying is not None:
            await asyncio.wait([self._emptying], timeout=WAIT_SECONDS)
        async with self._one_writer:
            yield
        self._bytes = log_bytes(self._path)
        due = asyncio.get_running_loop().time() >= self._try_at
        if self._bytes > LOG_BYTES and due and self._emptying is None:
            self._emptying = self._tasks.start(self._empty(), name="empty the log")

    async def checkpoint(self) -> None:
        """Copy the log back into the file, and empty it if it is long."""
        await asyncio.to_thread(checkpoint, self._path)
        if log_bytes(self._path) > LOG_BYTES:
            async with self._one_writer:
                await asyncio.to_thread(empty_log, self._path)
        self._bytes = log_bytes(self._path)

    async def _empty(self) -> None:
        try:
            await self.checkpoint()
        except sqlite3.OperationalError as error:
            log.debug("The log could not be emptied: %s", error)
        finally:
            self._emptying = None
        if self._bytes > LOG_BYTES:
            self._try_at = asyncio.get_running_loop().time() + RETRY_SECONDS

    async def close(self) -> None:
        """Cancel emptying."""
        await self._tasks.close()
