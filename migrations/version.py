"""The versions of the schema; imports nothing slow, since `check` reads them."""

import sqlite3
from contextlib import closing
from pathlib import Path

from db.settings import DatabaseSettings

#: The newest migration.
SCHEMA_VERSION = "2026112901"
#: The first migration, which creates the schema of `OLDEST_RELEASE`.
OLDEST_VERSION, OLDEST_RELEASE = "2026112201", "0.1.0"


def version_problem(version: str | None) -> str | None:
    """Return the reason that prevents the use of a database of this version; `None` if usable."""
    if version is not None and version > SCHEMA_VERSION:
        return (
            f"The database is of version {version}, which is newer than this bot: it knows "
            f"{SCHEMA_VERSION}. Install a newer bot, or name another database in `database.url`."
        )
    if version is not None and version < OLDEST_VERSION:
        return (
            f"The database is of version {version}, too old for this bot to upgrade: run "
            f"`python -m bot migrate` with Retinue {OLDEST_RELEASE} first."
        )
    return None


def version_of_file(settings: DatabaseSettings) -> str | None:
    """Return the version of a SQLite file; `None` if it has none or cannot be read."""
    uri = Path(settings.url.partition(":///")[2].partition("?")[0]).absolute().as_uri()
    try:
        with closing(sqlite3.connect(f"{uri}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error:
        return None
    return None if row is None else str(row[0])
