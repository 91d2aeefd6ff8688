"""Queries on crashed processes: counts each crash against the work that it interrupted."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Table, func, or_, select, update

from db.database import Transaction
from db.tables import subagent_runs, turns, workers
from db.workers import time_of


async def count(tx: Transaction, alive: Sequence[str]) -> int:
    """Count each new crash against the work that its process started last; return their number.

    A process that ended in good order, or was asked to end, has not crashed, even if it left work.
    """
    dead = list(
        await tx.scalars(
            select(workers.c.id).where(
                workers.c.id.not_in(alive),
                workers.c.stopped_at.is_(None),
                workers.c.leaving_at.is_(None),
                or_(workers.c.crashed_at.is_(None), workers.c.crashed_at < workers.c.beat_at),
            )
        )
    )
    for worker_id in dead:
        newest = [await _started_last(tx, table, worker_id) for table in (subagent_runs, turns)]
        known = [each for each in newest if each is not None]
        if known:
            table, work_id, _ = max(known, key=lambda each: each[2])
            blamed = update(table).where(table.c.id == work_id)
            await tx.execute(blamed.values(crashes=table.c.crashes + 1))
    if dead:
        crashed = update(workers).where(workers.c.id.in_(dead))
        await tx.execute(crashed.values(crashed_at=time_of(tx)))
    return len(dead)


async def _started_last(tx: Transaction, table: Table, worker_id: str) -> Any:
    """Return (table, id, time) of the work that a process began last and did not end."""
    row = (
        await tx.execute(
            select(table.c.id, table.c.begun_at)
            .where(
                table.c.status == "running",
                table.c.worker_id == worker_id,
                table.c.begun_at.is_not(None),
            )
            .order_by(table.c.begun_at.desc())
            .limit(1)
        )
    ).first()
    return None if row is None else (table, row.id, row.begun_at)


async def recent(tx: Transaction, within: timedelta) -> int:
    """Return the number of processes that crashed within this time."""
    crashed = workers.c.crashed_at >= time_of(tx, ago=within)
    return await tx.scalar(select(func.count()).select_from(workers).where(crashed)) or 0
