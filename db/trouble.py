"""Distinguishes outages of the database from errors in statements, and classifies outages."""

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bot.errors import DatabaseUnreachableError

GOES_ON = "What is under way continues by itself afterwards; admins find the details in the log."

DISK_FULL = f"The disk that holds my data is full, so I cannot store anything right now. {GOES_ON}"
BUSY = f"The database is busy: somebody else holds its lock. Please try again shortly. {GOES_ON}"
DISK_ERROR = f"The database file cannot be read or written right now. {GOES_ON}"
NO_CONNECTION = f"The database cannot be reached right now. {GOES_ON}"

#: Words in drivers' errors about the connection, the server or the disk (not the statement), each
#: with the text for users: the first match counts.
_REASONS = (
    ("database or disk is full", DISK_FULL),
    ("no space left", DISK_FULL),
    ("could not extend file", DISK_FULL),
    ("is locked", BUSY),
    ("lock timeout", BUSY),
    ("deadlock", BUSY),
    ("could not serialize", BUSY),
    ("disk i/o", DISK_ERROR),
    ("unable to open database", DISK_ERROR),
    ("readonly database", DISK_ERROR),
    ("connect", NO_CONNECTION),
    ("shutting down", NO_CONNECTION),
    ("starting up", NO_CONNECTION),
    ("recovery mode", NO_CONNECTION),
    ("too many clients", NO_CONNECTION),
)


#: System errors when a file cannot grow: a full disk, a quota, or a limit on file size.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def reason_of(error: BaseException) -> str | None:
    """Return the text for users about an outage; `None` if the error is no outage."""
    if isinstance(error, DatabaseUnreachableError):
        return str(error)
    if isinstance(error, PoolTimeout | ConnectionError):
        return NO_CONNECTION
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return DISK_FULL
    if isinstance(error, sqlite3.Error):
        return reason_in(str(error))
    if not isinstance(error, DBAPIError):
        return None
    return reason_in(str(error.orig)) or (NO_CONNECTION if error.connection_invalidated else None)


def reason_in(text: str) -> str | None:
    """Return the text for users about an outage that a driver names; `None` for other texts."""
    words = text.lower()
    return next((reason for sign, reason in _REASONS if sign in words), None)


def is_connection_trouble(error: BaseException) -> bool:
    """Return True if the database was unreachable or busy, so that a retry may help."""
    return reason_of(error) is not None
