"""Queries on the messages that show run cards."""

from sqlalchemy import update

from db.database import Transaction
from db.tables import subagent_runs


async def keep(tx: Transaction, run_id: str, message_id: str) -> None:
    """Store the platform's id of the message that shows a run's card."""
    await tx.execute(
        update(subagent_runs).where(subagent_runs.c.id == run_id).values(card_message_id=message_id)
    )
