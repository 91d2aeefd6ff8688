"""Keeps the write-ahead log of a SQLite file short."""

import asyncio
import logging
import sqlite3
from pathlib import Path

from bot.tasks import Tasks
from db.sqlite import LOG_BYTES, MOST_LOG_BYTES, checkpoint, empty_log, log_bytes

log = logging.getLogger(__name__)

#: A reader that keeps the log is waited for without another attempt for this long.
RETRY_SECONDS = 1.0
#: The longest that one writer waits while the log is emptied.
WAIT_SECONDS = 1.0


class WriteAheadLog:
    """Copies the log back into the file, and empties it when it is long.

    SQLite begins the log anew only when nobody reads and everything is copied; while many read and
    write, that never happens by itself. Emptying takes the one writer for a moment, and most of
    the log is copied before.

    Args:
        path: The file.
        one_writer: Held by whoever writes.
    """

    def __init__(self, path: Path, *, one_writer: asyncio.Lock) -> None:
        self._path = path
        self._one_writer = one_writer
        self._tasks = Tasks()
        self._emptying: asyncio.Task[None] | None = None
        self._bytes = 0
        self._try_at = 0.0

    def written(self) -> None:
        """Look at the length of the log after a commit."""
        self._bytes = log_bytes(self._path)
        due = asyncio.get_running_loop().time() >= self._try_at
        if self._bytes > LOG_BYTES and due and self._emptying is None:
            self._emptying = self._tasks.start(self._empty(), name="empty the log")

    async def allow_write(self) -> None:
        """Wait while a log that is too long is being emptied."""
        if self._bytes > MOST_LOG_BYTES and self._emptying is not None:
            await asyncio.wait([self._emptying], timeout=WAIT_SECONDS)

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
        """End what is under way."""
        await self._tasks.close()
