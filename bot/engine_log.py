"""Filters needless messages of the engine's library out of our log."""

import logging

from bot.errors import LeftError
from db.trouble import reason_in, reason_of

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
    if not any(isinstance(kept, _NoTracebacks) for kept in library.filters):
        library.addFilter(_NoTracebacks())
    if not library.handlers:
        library.addHandler(logging.NullHandler())
    library.propagate = True
