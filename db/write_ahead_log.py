"""Limits the size of the write-ahead log of a SQLite file."""

import asyncio
import logging
import sqlite3
from pathlib import Path

from bot.tasks import Tasks
from db.sqlite import LOG_BYTES, MOST_LOG_BYTES, checkpoint, empty_log, log_bytes

log = logging.getLogger(__name__)

#: Pause before another attempt to empty a log that a reader needs.
RETRY_SECONDS = 1.0
#: Longest wait of a writer while the log is emptied.
WAIT_SECONDS = 1.0


class WriteAheadLog:
    """Copies the log back into the file, and empties it when it is long.

    SQLite restarts the log only when there are no readers and everything is copied; under constant
    load that never happens by itself. Emptying blocks the one writer for a moment, and most of the
    log is copied before.

    Args:
        path: The file.
        one_writer: The lock of the writer.
    """

    def __init__(self, path: Path, *, one_writer: asyncio.Lock) -> None:
        self._path = path
        self._one_writer = one_writer
        self._tasks = Tasks()
        self._emptying: asyncio.Task[None] | None = None
        self._bytes = 0
        self._try_at = 0.0

    def written(self) -> None:
        """Check the length of the log after a commit, and start emptying it if it is long."""
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
        """Cancel emptying."""
        await self._tasks.close()
