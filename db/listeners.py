"""Queries on until when each connection has heard its platform."""

from datetime import datetime

from sqlalchemy import select

from db.database import Transaction
from db.tables import listeners
from db.upsert import insert_into


async def mark(tx: Transaction, name: str, now: datetime) -> None:
    """Record that a connection hears its platform now."""
    row = insert_into(tx, listeners).values(name=name, heard_at=now)
    await tx.execute(row.on_conflict_do_update(index_elements=["name"], set_={"heard_at": now}))


async def heard_at(tx: Transaction, name: str) -> datetime | None:
    """Return when a connection heard its platform last; `None` if it never did."""
    found: datetime | None = await tx.scalar(
        select(listeners.c.heard_at).where(listeners.c.name == name)
    )
    return found
