"""Queries on the time at which each platform connection last received events."""

from datetime import datetime

from sqlalchemy import select

from db.database import Transaction
from db.rows import put_row
from db.tables import listeners


async def mark(tx: Transaction, name: str, now: datetime) -> None:
    """Record that a connection is receiving events now."""
    await put_row(tx, listeners, {"name": name, "last_event_at": now})


async def last_event_at(tx: Transaction, name: str) -> datetime | None:
    """Return the last time a connection was receiving events; `None` if never."""
    found: datetime | None = await tx.scalar(
        select(listeners.c.last_event_at).where(listeners.c.name == name)
    )
    return found
