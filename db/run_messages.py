"""Queries on messages that users send to a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, select

from db.database import Transaction
from db.rows import RowMapper, insert_new
from db.tables import run_messages as sent

_UNREAD = (
    select(sent.c.id, sent.c.text)
    .where(sent.c.run_id == bindparam("b_run"), sent.c.read_at_step.is_(None))
    .order_by(sent.c.created_at, sent.c.id)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMessage:
    """A message to a run; `read_at_step` is `None` until it is read."""

    id: str
    run_id: str
    text: str
    read_at_step: int | None


_MESSAGES = RowMapper(RunMessage, sent)


async def add(tx: Transaction, *, message_id: str, run_id: str, text: str, now: datetime) -> bool:
    """Store a message; `False` if its id is stored already."""
    row = {"id": message_id, "run_id": run_id, "text": text, "created_at": now}
    return await insert_new(tx, sent, row)


async def unread(tx: Transaction, run_id: str) -> list[tuple[str, str]]:
    """Return (id, text) of the messages that the run has not read, oldest first."""
    rows = await tx.execute(_UNREAD, {"b_run": run_id})
    return [(row.id, row.text) for row in rows]


async def having_unread(tx: Transaction, run_ids: Sequence[str]) -> set[str]:
    """Return those of these runs that have an unread message."""
    rows = await tx.scalars(
        select(sent.c.run_id).where(sent.c.run_id.in_(run_ids), sent.c.read_at_step.is_(None))
    )
    return set(rows)


async def of_run(tx: Transaction, run_id: str) -> list[RunMessage]:
    """Return every message to a run, oldest first."""
    oldest_first = (sent.c.created_at, sent.c.id)
    return await _MESSAGES.find_all(tx, sent.c.run_id == run_id, order=oldest_first)
