"""Notifications between the processes at one database, without any polling."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Self

from asyncpg import Connection
from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.tasks import Tasks
from db.database import Database

log = logging.getLogger(__name__)

CHANNEL = "retinue_work"
#: Pauses between attempts to connect again.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 30.0
#: Longest time in which the last notification is sent when the process ends.
LAST_SECONDS = 1.0
#: The driver takes the last words of a server for the answer to the next statement: an internal
#: error of it.
_LOST = (SQLAlchemyError, PostgresError, InterfaceError, InternalClientError, OSError)


class Notifications:
    """Notifies every process at the same database, this one included; many at once become one.

    On PostgreSQL by NOTIFY, on a connection of its own; a file of SQLite has one process. They may
    be lost with the connection, so what they say must be found by looking, too: once connected, the
    receiver is called in any case.
    """

    def __init__(self, listener: AsyncEngine | None, receive: Callable[[str], None]) -> None:
        self._listener = listener
        self._receive = receive
        self._due: set[str] = set()
        self._wake = asyncio.Event()
        #: Held by the one sender that a connection can have at a time.
        self._sending = asyncio.Lock()
        self._driver: Connection | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, database: Database, receive: Callable[[str], None]) -> AsyncIterator[Self]:
        """Listen until the block ends.

        Args:
            database: The database.
            receive: Called with the subject of each notification; with an empty one once connected.
        """
        opened = cls(database.listener, receive)
        if opened._listener is None:
            yield opened
            return
        async with Tasks() as tasks:
            tasks.start(opened._listen(opened._listener), name="listen to other processes")
            yield opened
            if opened._driver is not None:
                with suppress(TimeoutError, *_LOST):
                    async with asyncio.timeout(LAST_SECONDS):
                        await opened._send_due(opened._driver)

    def send(self, subject: str) -> None:
        """Notify all processes, as soon as the connection is there."""
        if self._listener is None:
            self._receive(subject)
            return
        self._due.add(subject)
        self._wake.set()

    async def _listen(self, listener: AsyncEngine) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                async with listener.connect() as connection:
                    driver = (await connection.get_raw_connection()).driver_connection
                    assert driver is not None
                    driver.add_termination_listener(lambda _: self._wake.set())
                    await driver.add_listener(CHANNEL, lambda *given: self._receive(given[-1]))
                    self._receive("")
                    pause, self._driver = FIRST_PAUSE_SECONDS, driver
                    while not driver.is_closed():
                        await self._send_due(driver)
                        await self._wake.wait()
                        self._wake.clear()
            except _LOST as error:
                log.debug("Notifications of other processes: %s", type(error).__name__)
                self._due.add("")
            finally:
                self._driver = None
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_SECONDS, pause * 2)

    async def _send_due(self, driver: Connection) -> None:
        async with self._sending:
            while self._due:
                await driver.execute("SELECT pg_notify($1, $2)", CHANNEL, self._due.pop())
