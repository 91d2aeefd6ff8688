"""An outage of the database that is real: a full disk on SQLite, a server that lets nobody in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import NullPool, Pool, event, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

#: Longer than a page of the file: to store it takes a page that a full disk does not have.
LONG = "more than a page " * 1000


class Outage:
    """An outage that a test begins and ends.

    On SQLite the connections get no further page (`SQLITE_FULL`). On PostgreSQL all connections are
    cut, and new ones are refused.
    """

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self.on = False

    async def begin(self) -> None:
        """Let it begin."""
        self.on = True
        await self._let_in(allowed=False)

    async def end(self) -> None:
        """Let it be over."""
        self.on = False
        await self._let_in(allowed=True)

    async def _let_in(self, *, allowed: bool) -> None:
        if self._url.get_backend_name() == "sqlite":
            return
        server = self._url.set(drivername="postgresql+asyncpg", database="postgres")
        engine = create_async_engine(server, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        async with engine.connect() as connection:
            name = self._url.database
            await connection.execute(
                text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {str(allowed).lower()}')
            )
            if not allowed:
                cut = text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
                )
                await connection.execute(cut, {"name": name})
        await engine.dispose()

    def checked_out(self, connection: Any, record: Any, _: object) -> None:
        """Give a connection to a SQLite file the disk that there is now."""
        if record.dbapi_connection is None or self._url.get_backend_name() != "sqlite":
            return
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA max_page_count={1 if self.on else 2**30}")
        cursor.close()


@asynccontextmanager
async def outage_of(url: str) -> AsyncIterator[Outage]:
    """Give an outage of this database, which is over when the block ends."""
    outage = Outage(url)
    event.listen(Pool, "checkout", outage.checked_out)
    try:
        yield outage
    finally:
        event.remove(Pool, "checkout", outage.checked_out)
        if outage.on:
            await outage.end()
