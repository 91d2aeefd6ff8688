"""Queries on the messages that show the cards of runs."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import literal_column

from db.database import Transaction
from db.rows import change
from db.runs import RUNS, Run
from db.tables import subagent_runs as runs


async def set_message(tx: Transaction, run_id: str, message_id: str) -> None:
    """Store the platform's id of the message that shows a run's card."""
    await change(tx, runs, runs.c.id == run_id, card_message_id=message_id)


async def mark_drawn(tx: Transaction, run_id: str) -> None:
    """Store that a run's card shows the final state, or can never show it."""
    await change(tx, runs, runs.c.id == run_id, card_drawn=True)


async def not_drawn(
    tx: Transaction, platforms: Sequence[str], *, since: datetime, before: datetime
) -> list[Run]:
    """Return runs that ended in a period and whose message does not show it, oldest first."""
    # Written out, so that the partial index is used.
    not_drawn = (runs.c.card_message_id != literal_column("''"), ~runs.c.card_drawn)
    ended = (runs.c.completed_at > since, runs.c.completed_at < before)
    here = runs.c.channel.in_(platforms)
    return await RUNS.find_all(tx, *not_drawn, *ended, here, order=[runs.c.completed_at], limit=100)
