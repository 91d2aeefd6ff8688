"""Queries on the progress of a run: its waits for its user, its card, and its summary."""

from datetime import datetime

from sqlalchemy import func

from bot.values import WAITING, RunStatus
from db.database import Transaction
from db.rows import change
from db.runs import SUMMARY, held_by, hold
from db.tables import subagent_runs as runs


async def wait(
    tx: Transaction, run_id: str, attempt: int, status: RunStatus, now: datetime
) -> bool:
    """Put a run into a waiting status, without a slot; `False` if this attempt has lost the run."""
    # No call is in progress that may have to be charged.
    values = {"status": str(status), "ready_at": None, "reserved_tokens": 0, "updated_at": now}
    return await change(tx, runs, *held_by(run_id, attempt), **values)


async def heartbeat(tx: Transaction, run_id: str, attempt: int, now: datetime) -> bool:
    """Store a heartbeat of a waiting run; `False` if this attempt has lost the run."""
    return await change(tx, runs, *held_by(run_id, attempt), updated_at=now)


async def be_ready(tx: Transaction, run_id: str, attempt: int, now: datetime) -> bool:
    """Mark a waiting run as ready for a slot; `False` if this attempt has lost the run."""
    waiting = runs.c.status.in_([str(status) for status in WAITING])
    values = {"ready_at": func.coalesce(runs.c.ready_at, now), "updated_at": now}
    return await change(tx, runs, *held_by(run_id, attempt), waiting, **values)


async def set_card(tx: Transaction, run_id: str, message_id: str) -> None:
    """Store the platform's id of the message that shows a run's card."""
    await change(tx, runs, runs.c.id == run_id, card_message_id=message_id)


async def store_summary(
    tx: Transaction,
    run_id: str,
    attempt: int,
    summary: str,
    *,
    input_tokens: int,
    output_tokens: int,
    now: datetime,
) -> None:
    """Store the summary of a run's result, and the run's tokens including those of the summary.

    Nothing is stored when another attempt has the run, or the run is over.
    """
    run = await hold(tx, run_id)
    if run is None or run.attempt != attempt or run.status.final:
        return
    values = {"metadata": run.metadata | {SUMMARY: summary}, "updated_at": now}
    tokens = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    await change(tx, runs, runs.c.id == run_id, **values, **tokens)
