"""Queries on runs that wait for their user."""

from datetime import datetime

from sqlalchemy import func, update

from bot.values import WAITING, RunStatus
from db.database import Transaction
from db.runs import BEGUN
from db.tables import subagent_runs as runs


async def wait(
    tx: Transaction, run_id: str, attempt: int, status: RunStatus, now: datetime
) -> bool:
    """Put a run into a waiting status, without a slot; `False` if this attempt has lost the run."""
    done = await tx.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.attempt == attempt, runs.c.status.in_(BEGUN))
        # No call is in progress that may have to be charged.
        .values(status=str(status), ready_at=None, reserved_tokens=0, updated_at=now)
    )
    return done.rowcount > 0


async def touch(tx: Transaction, run_id: str, attempt: int, now: datetime) -> bool:
    """Store a heartbeat of a waiting run; `False` if this attempt has lost the run."""
    done = await tx.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.attempt == attempt, runs.c.status.in_(BEGUN))
        .values(updated_at=now)
    )
    return done.rowcount > 0


async def be_ready(tx: Transaction, run_id: str, attempt: int, now: datetime) -> bool:
    """Mark a waiting run as ready for a slot; `False` if this attempt has lost the run."""
    waiting = runs.c.status.in_([str(status) for status in WAITING])
    done = await tx.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.attempt == attempt, waiting)
        .values(ready_at=func.coalesce(runs.c.ready_at, now), updated_at=now)
    )
    return done.rowcount > 0
