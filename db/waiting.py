"""Queries on runs that wait for their person."""

from datetime import datetime

from sqlalchemy import func, update

from bot.values import WAITING, RunStatus
from db.database import Transaction
from db.runs import BEGUN
from db.tables import subagent_runs as runs


async def wait(
    tx: Transaction, run_id: str, attempt: int, status: RunStatus, now: datetime
) -> bool:
    """Let a run wait for its person, without a slot; `False` when this attempt has lost it."""
    done = await tx.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.attempt == attempt, runs.c.status.in_(BEGUN))
        # No call is under way that could have to be paid for.
        .values(status=str(status), ready_at=None, reserved_tokens=0, updated_at=now)
    )
    return done.rowcount > 0


async def touch(tx: Transaction, run_id: str, attempt: int, now: datetime) -> bool:
    """Leave a sign of life of a run that waits; `False` when this attempt has lost it."""
    done = await tx.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.attempt == attempt, runs.c.status.in_(BEGUN))
        .values(updated_at=now)
    )
    return done.rowcount > 0


async def be_ready(tx: Transaction, run_id: str, attempt: int, now: datetime) -> bool:
    """Let a run that waited ask for a slot; `False` when this attempt has lost it."""
    waiting = runs.c.status.in_([str(status) for status in WAITING])
    done = await tx.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.attempt == attempt, waiting)
        .values(ready_at=func.coalesce(runs.c.ready_at, now), updated_at=now)
    )
    return done.rowcount > 0
