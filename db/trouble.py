"""Distinguishes outages of the database from errors in statements; classifies and logs outages."""

import errno
import logging
import sqlite3
import time
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bot.errors import DatabaseUnreachableError

log = logging.getLogger(__name__)

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

#: An outage is over after a successful write if no failure came for this long: on a full disk short
#: transactions may succeed while longer ones fail, and those are retried every 5 s.
QUIET_SECONDS = 10.0

_STATES = {
    BUSY: "is busy",
    DISK_FULL: "has no room on its disk: make some",
    DISK_ERROR: "cannot be read or written: its disk may be full, or may not be written",
}


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


def is_read_only(error: BaseException | None) -> bool:
    """Return True if a driver refused a write where only reads are allowed."""
    return any(each in str(error) for each in ("readonly", "read-only transaction"))


def is_connection_trouble(error: BaseException) -> bool:
    """Return True if the database was unreachable or busy, so that a retry may help."""
    return reason_of(error) is not None


class OutageLog:
    """Logs the start and the end of an outage once, however many transactions fail.

    Args:
        name: The database, without its password.
        monotonic: The clock.
    """

    def __init__(self, name: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._monotonic = monotonic
        self._began = self._failed_at = 0.0
        #: The reasons logged since the outage began; empty without an outage.
        self._said: set[str] = set()

    def failed(self, error: BaseException, reason: str = "") -> None:
        """Record a failure.

        Args:
            error: The error; for a `DatabaseUnreachableError`, its cause is logged.
            reason: The text for users; derived from the error if empty.
        """
        reason = reason or reason_of(error) or ""
        if isinstance(error, DatabaseUnreachableError) and error.__cause__ is not None:
            error = error.__cause__
        now = self._failed_at = self._monotonic()
        if not self._said:
            self._began = now
        if reason not in self._said:
            self._said.add(reason)
            state = _STATES.get(reason, "is out of reach")
            cause = str(getattr(error, "orig", error)) or type(error).__name__
            log.warning(
                "The database %s %s; it is tried again until it is back (%s)",
                self._name,
                state,
                cause.partition("\n")[0],
            )

    def stored(self) -> None:
        """Record a successful write."""
        if self._said and self._monotonic() - self._failed_at >= QUIET_SECONDS:
            self._said.clear()
            seconds = self._failed_at - self._began
            log.warning("The database %s is back after %.0f s", self._name, seconds)
