"""Logs the start and the end of a database outage, once each."""

import logging
import time
from collections.abc import Callable

from bot.errors import DatabaseUnreachableError
from db.trouble import BUSY, DISK_ERROR, DISK_FULL, reason_of

log = logging.getLogger(__name__)

#: An outage is over after a successful write if no failure came for this long: on a full disk short
#: transactions may succeed while longer ones fail, and those are retried every 5 s.
QUIET_SECONDS = 10.0

_STATES = {
    BUSY: "is busy",
    DISK_FULL: "has no room on its disk: make some",
    DISK_ERROR: "cannot be read or written: its disk may be full, or may not be written",
}


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
