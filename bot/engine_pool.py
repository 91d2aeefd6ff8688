"""The connection pool of the engine's library, whose drivers are synchronous."""

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url

#: Number of the library's threads, and of its connections to a server.
THREADS = 8


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
            connection.create_function("unixepoch", 1, _unix_seconds)

    return engine


def _unix_seconds(modifier: object) -> float | None:
    """Return the time in the form of SQLite 3.42, to the millisecond."""
    return round(time.time(), 3) if modifier == "subsec" else None
