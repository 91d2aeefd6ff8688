"""Queries on the time at which each platform connection last received events."""

from datetime import datetime

from sqlalchemy import select

from db.database import Transaction
from db.rows import insert_into
from db.tables import listeners


async def mark(tx: Transaction, name: str, now: datetime) -> None:
    """Record that a connection is receiving events now."""
    row = insert_into(tx, listeners).values(name=name, heard_at=now)
    await tx.execute(row.on_conflict_do_update(index_elements=["name"], set_={"heard_at": now}))


async def heard_at(tx: Transaction, name: str) -> datetime | None:
    """Return the last time a connection was receiving events; `None` if never."""
    found: datetime | None = await tx.scalar(
        select(listeners.c.heard_at).where(listeners.c.name == name)
    )
    return found
