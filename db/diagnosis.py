"""Explains to admins in one line why a database is unusable, and the remedy."""

import errno
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bot.errors import BotError, DatabaseUnreachableError
from bot.masking import without_secrets
from db.database import Transaction
from db.settings import DatabaseSettings
from db.tables import metadata

_SERVER = "Check host and port in `database.url`, and that the server runs."
_ACCOUNT = "Check user and password in `database.url`."
_RIGHT = "Grant the account in `database.url` that right, or let it own the database."
_DISK = "Make room on its disk."

_MAY_MAKE = text("SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)")
_TABLES = text(
    "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY(:names)"
)
_NOT_WRITABLE = text(
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
    " AND relname = ANY(:names) AND NOT (has_table_privilege(oid, 'SELECT')"
    " AND has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'UPDATE')"
    " AND has_table_privilege(oid, 'DELETE')) LIMIT 1"
)

#: Remedies, by words in the drivers' errors: the first match counts.
_ADVICE = (
    ("password", _ACCOUNT),
    ("role ", _ACCOUNT),
    ("pg_hba.conf", "Let this account in from this machine in pg_hba.conf on the server."),
    ("does not exist", "Create it on the server, or name another in `database.url`."),
    ("permission denied", _RIGHT),
    ("must be owner", _RIGHT),
    ("clients", "Raise max_connections on the server, or lower `database.pool_size`."),
    ("connection slots", "Raise max_connections on the server, or lower `database.pool_size`."),
    ("is locked", "Another program holds it: wait for that, or end it."),
    ("readonly", "Let this account write the file and its folder."),
    ("is full", _DISK),
    ("no space", _DISK),
    ("disk i/o", _DISK),
)


def diagnosis(error: BaseException, settings: DatabaseSettings) -> str | None:
    """Return the reason why the database is unusable, and the remedy; `None` for other errors.

    The text is one line without the URL and without secrets.
    """
    error = _cause(error)
    if isinstance(error, BotError):
        return str(error) if isinstance(error, DatabaseUnreachableError) else None
    known = isinstance(error, DBAPIError | PoolTimeout | TimeoutError | sqlite3.Error)
    if settings.is_sqlite:
        if not known and not (isinstance(error, OSError) and _is_beside(settings, error)):
            return None
        if trouble := file_trouble(settings):
            return trouble
    elif isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return None if error.filename else f"{_words(error)}. {_SERVER}"
    if isinstance(error, PoolTimeout | TimeoutError):
        return f"no answer. {_SERVER}"
    if not known and not isinstance(error, OSError):
        return None
    words = _words(error)
    advice = (text for sign, text in _ADVICE if sign in words.lower())
    return f"{words}. {next(advice, 'Check `database.url`.')}"


async def missing_right(tx: Transaction) -> str | None:
    """Return a text about the right that the PostgreSQL account lacks; `None` if it lacks none."""
    if tx.dialect.name == "sqlite":
        return None
    names = list(metadata.tables)
    if lacking := await tx.scalar(_NOT_WRITABLE, {"names": names}):
        return f"the account may not write the table {lacking}. {_RIGHT}"
    there = await tx.scalar(_TABLES, {"names": names}) or 0
    if there < len(names) and not await tx.scalar(_MAY_MAKE):
        return f"the account may not make tables there. {_RIGHT}"
    return None


def file_trouble(settings: DatabaseSettings) -> str | None:
    """Return the problem of the SQLite file; `None` if it is fine or does not exist."""
    if not settings.is_sqlite:
        return None
    path = Path(make_url(settings.url).database or "")
    if trouble := folder_trouble(path.absolute().parent):
        return trouble
    if path.is_dir():
        return f"{path} is a folder, not a file. Name a file in `database.url`."
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        return f"{path} cannot be read and written. Give this account the right to."
    try:
        if path.exists():
            uri = f"{path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True)) as opened:
                opened.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error) or "malformed" in str(error):
            cure = "Put a backup in its place, or move it away to begin with an empty one."
            return f"{path}: {error}. {cure}"
    return None


def folder_trouble(folder: Path) -> str | None:
    """Return the reason why a folder cannot be written or made; `None` if it can."""
    # Unlike `exists`, `access` does not raise for a path in an inaccessible folder.
    nearest = next(each for each in (folder, *folder.parents) if os.access(each, os.F_OK))
    if not nearest.is_dir():
        return f"{nearest} is a file, not a folder. Name another place."
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"the folder {nearest} cannot be written. Give this account the right to."
    return None


def _cause(error: BaseException) -> BaseException:
    """Return the root error of a chain: that of the driver or of the system."""
    while True:
        if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        elif isinstance(error, DatabaseUnreachableError) and error.__cause__ is not None:
            error = error.__cause__
        else:
            return error


def _is_beside(settings: DatabaseSettings, error: OSError) -> bool:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return True
    if not error.filename:
        return False
    folder, path = settings.folders[0].absolute(), Path(os.fsdecode(error.filename)).absolute()
    return path in folder.parents or folder in (path, *path.parents)


def _words(error: BaseException) -> str:
    """Return the first line of an error's text, without the additions of the libraries."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return f"no host has this name ({error.strerror})"
    said = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(said, OSError) and said.strerror:
        return without_secrets(said.strerror)
    first = str(said).partition("\n")[0].rpartition("'>: ")[2].strip().rstrip(".")
    return without_secrets(first or type(said).__name__)
