"""Keeps out of our log what the engine's library logs without need."""

import logging

_EXPECTED = (
    "DBOSWorkflowCancelledError",
    "CancelledError",
    "is cancelled. Aborting",
    "Asyncio task cancelled for workflow",
    "console.dbos.dev",
    "for development and testing",
    "postgres database to verify existence",
    # While the database is away, ten times a second; what it is, is in our own log.
    "Exception reloading queue",
    "Exception finding work for queue",
    "Exception encountered in queue thread",
    "Exception listing queues",
    "Exception taking the",
    "Exception in background job",
)


class _NoTracebacks(logging.Filter):
    """Drops what the library logs of cancellations and of what it need not see, and its advert."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        return not any(known in text for known in _EXPECTED)


def quieten() -> None:
    """Drop what need not be read, and leave the rest to our own handlers."""
    library = logging.getLogger("dbos")
    if not any(isinstance(kept, _NoTracebacks) for kept in library.filters):
        library.addFilter(_NoTracebacks())
    if not library.handlers:
        library.addHandler(logging.NullHandler())
    library.propagate = True
