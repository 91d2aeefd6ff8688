"""Opens the database; all transactions begin and commit here."""

import asyncio
import fcntl
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.errors import DatabaseBusyError, DatabaseUnreachableError
from db import postgresql, sqlite
from db.settings import DatabaseSettings
from db.trouble import (
    BUSY,
    NO_CONNECTION,
    OutageLog,
    is_connection_trouble,
    is_read_only,
    reason_of,
)

__all__ = [
    "ADMISSION_LOCK",
    "BUSY_TIMEOUT_SECONDS",
    "PAUSE_LOCK",
    "Database",
    "DatabaseSettings",
    "Transaction",
    "hold",
    "is_connection_trouble",
    "patiently",
]

log = logging.getLogger(__name__)

#: Passed to query modules: a connection inside a transaction, which they must not end.
Transaction = AsyncConnection

P = ParamSpec("P")
Result = TypeVar("Result")

#: Receives `read` or `write`, the seconds with the wait for a connection, and True for an error.
Observed = Callable[[str, float, bool], None]

BUSY_TIMEOUT_SECONDS = 5
ASK_AGAIN_SECONDS = 0.01
ADMISSION_LOCK = 0x5EC1_0E01
#: Shared by transactions that begin work, exclusive for those that pause: a pause is committed
#: after all work that did not see it has begun.
PAUSE_LOCK = 0x5EC1_0E06
#: Longest wait for the lock under which runs are admitted.
ADMISSION_WAIT_SECONDS = 3.0
#: Longest wait for a connection to PostgreSQL, in which none became free.
FREE_CONNECTION_SECONDS = 5.0
#: Timeout of a heartbeat.
HEARTBEAT_SECONDS = 5


class Database:
    """A connection pool, with transactions as context managers.

    On SQLite one connection writes and a few read: a writer never waits for readers, and writers
    wait for one another in order instead of failing with `database is locked`.

    Attributes:
        is_sqlite: Whether it is a SQLite file, which has its own ways of locking and searching.
        observed: Called at the end of each transaction and snapshot.
        listener: Connects for notifications; `None` on SQLite, which has none.
    """

    def __init__(
        self,
        writer: AsyncEngine,
        reader: AsyncEngine,
        reserved: AsyncEngine | None = None,
        listener: AsyncEngine | None = None,
    ) -> None:
        self.is_sqlite = writer.dialect.name == "sqlite"
        self._writer = writer
        self._reader = reader
        self._reserved = reserved
        self.listener = listener
        self._log = (
            sqlite.WriteAheadLog(Path(writer.url.database or "")) if self.is_sqlite else None
        )
        #: When a connection to PostgreSQL became free last.
        self._freed_at = -inf
        self._one_admission = asyncio.Lock()
        self._waiting: set[asyncio.Timeout] = set()
        self.observed: Observed = lambda *_: None
        self.outages = OutageLog(str(writer.url))

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: DatabaseSettings, *, exclusive: bool = False
    ) -> AsyncIterator[Self]:
        """Connect, and disconnect when the block ends.

        Args:
            settings: Selects the database.
            exclusive: On SQLite, lock the file for this process: only one bot may use it.

        Raises:
            DatabaseBusyError: Another bot has locked the file; the text names its process.
        """
        url = make_url(settings.url)
        async with AsyncExitStack() as stack:
            if url.get_backend_name() == "sqlite":
                path = Path(url.database or "")
                create_file(path)
                if exclusive:
                    stack.callback(os.close, hold(path))
                engines = [sqlite.open_engine(path, writes=writes) for writes in (True, False)]
                opened = cls(*engines)
            else:
                connect = partial(postgresql.open_engine, url, wait_seconds=FREE_CONNECTION_SECONDS)
                pool = connect(connections=settings.pool_size)
                reserved = connect(connections=1, seconds=HEARTBEAT_SECONDS)
                listener = connect(connections=1)
                engines = [pool, reserved, listener]
                opened = cls(pool, pool, reserved, listener)
            for engine in engines:
                stack.push_async_callback(engine.dispose)
            if opened._log is not None:
                stack.push_async_callback(opened._log.close)
            yield opened

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Write: commit when the block ends well, roll back when it raises.

        Raises:
            DatabaseUnreachableError: The database was unreachable or busy, at any point, perhaps
                only after the commit.
        """
        if self._log is None:
            return self._connected(self._queued(self._writer.begin))
        return self._connected(self._begin_on_file(self._log))

    def heartbeat(self) -> AbstractAsyncContextManager[Transaction]:
        """Write on a connection reserved for heartbeats, which never waits for the others.

        Raises:
            DatabaseUnreachableError: The database was unreachable.
        """
        if self._reserved is None:
            return self.transaction()
        return self._connected(self._reserved.begin())

    @asynccontextmanager
    async def admission(self) -> AsyncIterator[Transaction]:
        """Write as the only transaction that admits runs, across all processes.

        No pause is committed before its end.

        One lock for all, since the global cap covers all users; SQLite has one writer anyway.
        Transactions of this process queue without a connection, so that a lock held by another
        process does not exhaust the pool.

        Raises:
            DatabaseUnreachableError: The lock was held for `ADMISSION_WAIT_SECONDS`, in which no
                transaction of this process got it, or the database was unreachable.
        """
        if self.is_sqlite:
            async with self.transaction() as tx:
                yield tx
            return
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(ADMISSION_WAIT_SECONDS) as wait:
                    self._waiting.add(wait)
                    await stack.enter_async_context(self._one_admission)
            except TimeoutError as error:
                self.outages.failed(error, BUSY)
                raise DatabaseUnreachableError(BUSY) from error
            finally:
                self._waiting.discard(wait)
            tx = await stack.enter_async_context(self.transaction())
            left = round(ADMISSION_WAIT_SECONDS * 1000)
            keys = {"admission": ADMISSION_LOCK, "pause": PAUSE_LOCK}
            # A statement of its own: the next one sees what was committed while this one waited.
            await tx.execute(_LOCK_ADMISSION, {"left": str(left), **keys})
            # A long queue that moves is no reason to refuse those at its end.
            until = asyncio.get_running_loop().time() + ADMISSION_WAIT_SECONDS
            for each in self._waiting:
                if not each.expired():
                    each.reschedule(until)
            yield tx

    @asynccontextmanager
    async def _connected(
        self, opening: AbstractAsyncContextManager[Transaction], *, reads: bool = False
    ) -> AsyncIterator[Transaction]:
        """Open a connection, and convert outage errors to one error with a text for users."""
        opened = failed = False
        began = time.monotonic()
        try:
            async with opening as connection:
                opened = True
                yield connection
        except DBAPIError as error:
            reason, failed = reason_of(error), True
            # A write in a snapshot is a bug, not an outage.
            if reason is None or (reads and is_read_only(error.orig)):
                raise
            self.outages.failed(error, reason)
            raise DatabaseUnreachableError(reason) from error
        except (OSError, PoolTimeout) as error:
            # In the block only `TimeoutError` is the driver's: a statement without an answer.
            if opened and not isinstance(error, TimeoutError):
                raise
            failed = True
            # The address is for the log only, since every user may read this text.
            self.outages.failed(error, NO_CONNECTION)
            raise DatabaseUnreachableError(NO_CONNECTION) from error
        finally:
            self.observed("read" if reads else "write", time.monotonic() - began, failed)
        if not reads:
            self.outages.stored()

    @asynccontextmanager
    async def _queued(
        self, opening: Callable[[], AbstractAsyncContextManager[Transaction]]
    ) -> AsyncIterator[Transaction]:
        """Open a connection to PostgreSQL; wait while others become free: the queue moves."""
        async with AsyncExitStack() as stack:
            while True:
                try:
                    connection = await stack.enter_async_context(opening())
                    break
                except PoolTimeout:
                    if time.monotonic() - self._freed_at > FREE_CONNECTION_SECONDS:
                        raise
            yield connection
        self._freed_at = time.monotonic()

    @asynccontextmanager
    async def _begin_on_file(self, log: sqlite.WriteAheadLog) -> AsyncIterator[Transaction]:
        """Begin on SQLite; while another process writes, poll without blocking the event loop."""
        loop = asyncio.get_running_loop()
        async with log.writing(), AsyncExitStack() as stack:
            deadline = loop.time() + BUSY_TIMEOUT_SECONDS
            while True:
                try:
                    tx = await stack.enter_async_context(self._writer.begin())
                    break
                except OperationalError as error:
                    if "locked" not in str(error) or loop.time() >= deadline:
                        raise
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            yield tx

    async def checkpoint(self) -> None:
        """Copy SQLite's write-ahead log back into the file; PostgreSQL does so by itself."""
        if self._log is not None:
            await self._log.checkpoint()

    def snapshot(self) -> AbstractAsyncContextManager[Transaction]:
        """Read one consistent state, without ever blocking a writer.

        Raises:
            DatabaseUnreachableError: The database is unreachable.
        """
        return self._reading("REPEATABLE READ")

    @asynccontextmanager
    async def _reading(self, isolation_level: str) -> AsyncIterator[Transaction]:
        """Open a connection for reading; on PostgreSQL with this isolation level."""
        reader = self._reader.connect() if self.is_sqlite else self._queued(self._reader.connect)
        async with self._connected(reader, reads=True) as connection:
            if not self.is_sqlite:
                await connection.execution_options(
                    isolation_level=isolation_level, postgresql_readonly=True
                )
            yield connection

    async def read(
        self,
        query: Callable[Concatenate[Transaction, P], Awaitable[Result]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Result:
        """Return the result of a query that is alone in its `snapshot`."""
        async with self.snapshot() as tx:
            return await query(tx, *args, **named)

    async def read_statement(
        self,
        query: Callable[Concatenate[Transaction, P], Awaitable[Result]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Result:
        """Return the result of a query that is one statement.

        It needs no transaction, whose begin and end are two round trips to PostgreSQL.
        """
        async with self._reading("AUTOCOMMIT") as tx:
            return await query(tx, *args, **named)

    async def write(
        self,
        query: Callable[Concatenate[Transaction, P], Awaitable[Result]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Result:
        """Return the result of a query that is alone in its `transaction`."""
        async with self.transaction() as tx:
            return await query(tx, *args, **named)

    def connections_in_use(self) -> int:
        """Return the number of connections that are checked out."""
        engines = {each for each in (self._writer, self._reader, self._reserved) if each}
        return sum(getattr(engine.pool, "checkedout", lambda: 0)() for engine in engines)


PATIENCE_SECONDS = 60.0
#: Longest backoff.
LONGEST_PAUSE_SECONDS = 5.0


async def patiently(
    work: Callable[[], Awaitable[Result]], *, seconds: float | None = None
) -> Result:
    """Do a unit of work, with retries for `seconds` while the database is unreachable.

    Args:
        work: The unit of work.
        seconds: By default `PATIENCE_SECONDS`; infinite for work that nothing would repeat.

    The connection may break after the commit, so the work must detect that it was done: fenced
    and keyed writes do.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (PATIENCE_SECONDS if seconds is None else seconds)
    wait = 0.2
    while True:
        try:
            return await work()
        except Exception as error:
            if not is_connection_trouble(error) or loop.time() + wait > deadline:
                raise
            log.debug("The database is out of reach; trying again: %s", type(error).__name__)
        await asyncio.sleep(wait)
        wait = min(LONGEST_PAUSE_SECONDS, wait * 2)


def hold(path: Path) -> int:
    """Lock a SQLite file for this process and return the lock's descriptor.

    Raises:
        DatabaseBusyError: Another process holds the lock.
    """
    lock_path = path.with_name(path.name + ".lock")
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise DatabaseBusyError(
            f"Another bot (process {holder}) is using {path}. Stop it first, or set `database.url`"
            " to a PostgreSQL server, which several processes can share."
        ) from None
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except OSError:
        # The caller retries on a full disk: a lock left open would look like another bot's.
        os.close(descriptor)
        raise
    return descriptor


_LOCK_ADMISSION = text(
    "SELECT set_config('lock_timeout', :left, true), pg_advisory_xact_lock(:admission), "
    "pg_advisory_xact_lock_shared(:pause)"
)


def create_file(path: Path) -> None:
    """Create a file and its folder unless they exist; only its owner can read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)
