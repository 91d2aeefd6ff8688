"""Queries on batches: the background runs that one turn started, and when their results are due."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, literal_column, select

from bot.values import UNFINISHED
from db.database import Transaction
from db.rows import change, count_rows, one_of
from db.runs import RUNS, Run
from db.tables import outbox, turns
from db.tables import subagent_runs as runs

#: Written out: with a parameter the partial indexes would not be used.
_NONE: ColumnElement[str] = literal_column("''")
_PLANNED = (outbox.c.key, outbox.c.status, outbox.c.attempts, outbox.c.created_at, outbox.c.due_at)

#: The longest time that a result waits for the others of its batch.
TOGETHER = timedelta(seconds=120)
#: The longest time that a result waits for the end of the turn that started its run.
SPOKEN = timedelta(seconds=60)


async def plan(tx: Transaction, batch_id: str, now: datetime, *, together: bool) -> list[str]:
    """Set the times at which the waiting results of a batch are due; return the keys due now.

    A result waits for the turn that started its run, and for the other runs of the turn; what comes
    after the first message of a batch waits for no others.

    Args:
        tx: The transaction.
        batch_id: The turn.
        now: The time.
        together: Whether the results of a turn are announced in one message: then one of its keys
            is returned.
    """
    if not batch_id:
        return []
    # The row of the turn is locked, so that its end plans after this transaction.
    this = select(turns.c.status).where(turns.c.id == batch_id).with_for_update(read=True)
    speaks = await tx.scalar(this) in {"queued", "running"}
    of_batch = (outbox.c.batch_id == batch_id, outbox.c.batch_id != _NONE)
    rows = (await tx.execute(select(*_PLANNED).where(*of_batch))).all()
    waiting = [row for row in rows if row.status == "pending" and not row.attempts]
    if not waiting:
        return []
    open_runs = select(runs.c.id).where(
        runs.c.batch_id == batch_id,
        runs.c.batch_id != _NONE,
        runs.c.mode == "async",
        runs.c.announce == "result",
        one_of(runs.c.status, UNFINISHED),
    )
    first_message = len(waiting) == len(rows)
    waits = together and first_message and await tx.scalar(open_runs.limit(1)) is not None
    until = min(row.created_at for row in waiting) + TOGETHER
    due: list[str] = []
    for row in waiting:
        spoken = row.created_at + SPOKEN if speaks else now
        at = max(now, spoken, until if waits else now)
        if at == now:
            due.append(row.key)
        if at != row.due_at:
            await change(tx, outbox, outbox.c.key == row.key, due_at=at)
    return due[:1] if together else due


async def in_batch(tx: Transaction, run: Run) -> list[Run]:
    """Return the background runs that the turn of a run started for its user, oldest first."""
    if not run.batch_id:
        return [run]
    batch = (runs.c.batch_id == run.batch_id, runs.c.batch_id != _NONE, runs.c.mode == "async")
    mine = runs.c.user_id == run.user_id
    return await RUNS.find_all(tx, *batch, mine, order=(runs.c.number,))


async def unfinished(tx: Transaction, run: Run) -> int:
    """Return the number of unfinished runs in a run's batch that are announced together."""
    batch = (runs.c.batch_id == run.batch_id, runs.c.announce == "summary", runs.c.mode == "async")
    unfinished = one_of(runs.c.status, UNFINISHED)
    return await count_rows(tx, runs, *batch, unfinished) if run.batch_id else 0
