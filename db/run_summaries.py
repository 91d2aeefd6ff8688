"""Stores the summaries of the results of runs."""

from datetime import datetime

from bot.values import Json
from db import runs
from db.database import Transaction
from db.rows import change
from db.tables import subagent_runs


async def store(
    tx: Transaction,
    run_id: str,
    attempt: int,
    summary: str,
    *,
    counts: Json,
    now: datetime,
) -> None:
    """Store the summary of a run's result, and the run's usage including that of the summary.

    Nothing is stored when another attempt has the run, or the run is over.
    """
    run = await runs.hold(tx, run_id)
    if run is None or run.attempt != attempt or run.status.final:
        return
    values = {"metadata": run.metadata | {runs.SUMMARY: summary}, "updated_at": now}
    await change(tx, subagent_runs, subagent_runs.c.id == run_id, **values, **counts)
