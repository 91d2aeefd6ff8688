"""Queries on the summaries of long results."""

from datetime import datetime

from sqlalchemy import update

from bot.values import Json
from db import runs
from db.database import Transaction
from db.tables import subagent_runs

_KEY = "summary"


def summary_in(metadata: Json) -> str:
    """Return the summary of a run's result; empty if it has none."""
    return str(metadata.get(_KEY, ""))


async def keep(
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
    run = await runs.hold(tx, run_id)
    if run is None or run.attempt != attempt or run.status.final:
        return
    await tx.execute(
        update(subagent_runs)
        .where(subagent_runs.c.id == run_id)
        .values(
            {
                subagent_runs.c["metadata"]: run.metadata | {_KEY: summary},
                subagent_runs.c.input_tokens: input_tokens,
                subagent_runs.c.output_tokens: output_tokens,
                subagent_runs.c.updated_at: now,
            }
        )
    )
