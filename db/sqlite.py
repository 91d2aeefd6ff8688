"""SQLite without a thread per connection: each statement runs where it is awaited.

A statement on a file in WAL mode takes some ten microseconds; passing it to a thread and waiting
for the result costs many times that (measured in `docs/decisions/0003`). Two operations could block
the loop for longer, and are avoided: waiting for another process's lock (`begin` does not wait, and
`db.database` retries later), and copying the log back into the file, with its `fsync`
(`checkpoint`, in a thread, from time to time).
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from db.types import to_json

PREPARE = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA busy_timeout=0",
    "PRAGMA wal_autocheckpoint=0",
)
#: A log longer than `LOG_BYTES` is emptied; writers wait for that when it exceeds `MOST_LOG_BYTES`.
LOG_BYTES, MOST_LOG_BYTES = 4_000_000, 10_000_000
#: Longest wait for readers while the log is emptied, during which writers wait too.
READERS_MS = 50
#: A write in a snapshot would be lost: its connections refuse writes.
READ_ONLY = "PRAGMA query_only=ON"


class InlineCursor:
    """A cursor for SQLAlchemy's `aiosqlite` dialect, without the thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._cursor = connection.cursor()
        self.arraysize = 1

    async def __aenter__(self) -> "InlineCursor":
        return self

    @property
    def description(self) -> Any:
        """The names of the result's columns."""
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        """The number of rows changed."""
        return self._cursor.rowcount

    @property
    def lastrowid(self) -> int | None:
        """The id of the row inserted last."""
        return self._cursor.lastrowid

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> "InlineCursor":
        """Run a statement."""
        self._cursor.execute(statement, parameters)
        return self

    async def executemany(
        self, statement: str, parameters: Sequence[Sequence[Any]]
    ) -> "InlineCursor":
        """Run a statement once for each set of parameters."""
        self._cursor.executemany(statement, parameters)
        return self

    async def fetchall(self) -> list[Any]:
        """Return all rows."""
        return self._cursor.fetchall()

    async def close(self) -> None:
        """Close the cursor."""
        self._cursor.close()


class InlineConnection:
    """A connection for SQLAlchemy's `aiosqlite` dialect, without the thread."""

    def __init__(self, path: Path, *, writes: bool) -> None:
        self._connection: sqlite3.Connection | None = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False
        )
        try:
            for statement in PREPARE if writes else (*PREPARE, READ_ONLY):
                self._open.execute(statement)
        except sqlite3.Error:
            self.stop()
            raise

    @property
    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.OperationalError("the connection is closed")
        return self._connection

    def cursor(self) -> InlineCursor:
        """Return a new cursor."""
        return InlineCursor(self._open)

    async def create_function(
        self,
        name: str,
        arguments: int,
        function: Callable[..., Any],
        *,
        deterministic: bool = False,
    ) -> None:
        """Register a function for use in statements."""
        self._open.create_function(name, arguments, function, deterministic=deterministic)

    async def commit(self) -> None:
        """Commit the transaction."""
        self._open.commit()

    async def rollback(self) -> None:
        """Roll the transaction back."""
        self._open.rollback()

    async def close(self) -> None:
        """Close the connection."""
        self.stop()

    def stop(self) -> None:
        """Close the connection, also outside of a coroutine."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def open_engine(path: Path, *, writes: bool) -> AsyncEngine:
    """Return a pool on a SQLite file: one connection that writes, or a few that read."""

    async def connect(*_: Any, **__: Any) -> InlineConnection:
        return InlineConnection(path, writes=writes)

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
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

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


def shorten_log(path: Path) -> None:
    """Copy the log back into a file that other processes write, and empty the log if it is long."""
    checkpoint(path)
    if log_bytes(path) > LOG_BYTES:
        empty_log(path)


def log_bytes(path: Path) -> int:
    """Return the size of a file's log."""
    try:
        return os.stat(f"{path}-wal").st_size  # noqa: PTH116 - at every commit
    except FileNotFoundError:
        return 0
