"""Queries on the processes that do the work, and the audit trail."""

from datetime import datetime

from sqlalchemy import delete, insert, select, text, update

from bot.values import new_sortable_id
from db.database import Transaction
from db.tables import audit, workers

TAKE_OVER_LOCK = 0x5EC1_0E03


async def start(tx: Transaction, worker_id: str, platforms: list[str], now: datetime) -> None:
    """Enter a process that has just started."""
    await tx.execute(
        insert(workers).values(id=worker_id, platforms=platforms, started_at=now, beat_at=now)
    )


async def beat(tx: Transaction, worker_id: str, now: datetime) -> bool:
    """Say that a process is alive; `False` when it was forgotten and must enter again."""
    this = workers.c.id == worker_id
    return (await tx.execute(update(workers).where(this).values(beat_at=now))).rowcount > 0


async def stop(tx: Transaction, worker_id: str, now: datetime) -> None:
    """Enter that a process ended in good order."""
    await tx.execute(
        update(workers).where(workers.c.id == worker_id).values(stopped_at=now, beat_at=now)
    )


async def try_take_over_lock(tx: Transaction) -> bool:
    """Be the only process that takes over dead ones' work, until the transaction ends."""
    if tx.dialect.name != "postgresql":
        return True
    return bool(
        await tx.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": TAKE_OVER_LOCK})
    )


async def alive(tx: Transaction, since: datetime) -> list[str]:
    """Return the processes that have been heard of since, and have not stopped."""
    found = await tx.scalars(
        select(workers.c.id).where(workers.c.beat_at >= since, workers.c.stopped_at.is_(None))
    )
    return list(found)


async def last_seen(tx: Transaction) -> dict[str, datetime]:
    """Return when each known process was heard of last."""
    rows = await tx.execute(select(workers.c.id, workers.c.beat_at))
    return {row.id: row.beat_at for row in rows}


async def forget_before(tx: Transaction, moment: datetime) -> None:
    """Delete processes that have been gone since."""
    await tx.execute(delete(workers).where(workers.c.beat_at < moment))


async def note(
    tx: Transaction, *, user_id: str, action: str, subject: str, detail: str, now: datetime
) -> None:
    """Enter what an admin did to another person's run."""
    await tx.execute(
        insert(audit).values(
            id=new_sortable_id(),
            user_id=user_id,
            action=action,
            subject=subject,
            detail=detail,
            created_at=now,
        )
    )
