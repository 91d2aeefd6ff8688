"""Prepares the engine's library: the filter of its log and its connection pool."""

import logging
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url

from bot.errors import LeftError
from db.trouble import reason_in, reason_of

#: Number of the library's threads, and of its connections to a server.
THREADS = 8

_EXPECTED = (
    "DBOSWorkflowCancelledError",
    "CancelledError",
    "is cancelled. Aborting",
    "Asyncio task cancelled for workflow",
    # The end was stored late, after another attempt had taken the work over.
    "is no longer owned by this execution",
    "console.dbos.dev",
    "for development and testing",
    "postgres database to verify existence",
    # Ten times a second during a database outage, which our own log reports.
    "Exception reloading queue",
    "Exception finding work for queue",
    "Exception encountered in queue thread",
    "Exception listing queues",
    # Logged with a traceback; the error itself is raised.
    "DBOS failed to launch",
    "Exception polling schedules",
    "Exception taking the",
    "Exception in background job",
)
#: The error of work whose end could not be stored because the engine closes; it is resumed later.
_CLOSING = "System database accessed before DBOS was launched"


class _NoTracebacks(logging.Filter):
    """Drops the library's messages about cancellations, outages and itself: see `_EXPECTED`."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if reason_in(text) or isinstance(error, LeftError) or (error and reason_of(error)):
            return False
        return not any(known in text for known in _EXPECTED) and _CLOSING not in str(error)


def quieten() -> None:
    """Drop needless messages, and pass the others on to our own handlers."""
    library = logging.getLogger("dbos")
    if not any(isinstance(each, _NoTracebacks) for each in library.filters):
        library.addFilter(_NoTracebacks())
    if not library.handlers:
        library.addHandler(logging.NullHandler())
    library.propagate = True


def open_pool(url: str) -> Engine:
    """Return the engine's own connection pool; the library works with synchronous drivers."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_size=THREADS,
            max_overflow=0,
            pool_pre_ping=True,
        )
    path = Path(parsed.database or "").with_name("engine.db")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"check_same_thread": False, "timeout": 30}
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        if sqlite3.sqlite_version_info < (3, 42):
            # From Python 3.12 on the library takes its times from `unixepoch('subsec')`, which
            # older versions of SQLite lack; the defaults of the file's tables use it, too.
            connection.create_function(
                "unixepoch", 1, lambda what: round(time.time(), 3) if what == "subsec" else None
            )

    return engine
