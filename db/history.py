"""Queries on the history of a conversation: what a turn reads of it, in order."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import false, func, select

from db.conversations import MESSAGES, StoredMessage
from db.database import Transaction
from db.rows import change, insert_new
from db.tables import messages, turns


async def personal(
    tx: Transaction, conversation_id: str, *, before: str, limit: int = 200
) -> list[StoredMessage]:
    """Return the messages that the turn of a message may see, oldest first, since the last reset.

    A reply is placed after the message that it answers, even if others came in between. Later
    messages of users are left out, but results are included.
    """
    rows = await tx.execute(
        select(
            *MESSAGES.columns, func.coalesce(turns.c.message_id, messages.c.id).label("place_id")
        )
        .outerjoin(turns, turns.c.id == messages.c.turn_id)
        .where(
            messages.c.conversation_id == conversation_id,
            (messages.c.id < before) | (messages.c.role != "user"),
        )
        .order_by(messages.c.id.desc())
        .limit(limit)
    )
    known = [row for row in rows if row.place_id < before or row.role == "result"]
    known.sort(key=lambda row: (row.place_id, row.id), reverse=True)
    return _since(known)


async def shared(
    tx: Transaction, conversation_id: str, *, until: str, turn_id: str = "", limit: int = 200
) -> list[StoredMessage]:
    """Return the messages of a shared conversation up to one of them, in order, since the reset.

    An answer is placed behind the messages that its turn had read, before those that came
    meanwhile: so what is sent to a model grows at its end only.

    Args:
        tx: The transaction.
        conversation_id: The conversation.
        until: The newest message; an answer whose turn had read no more is included.
        turn_id: The turn that reads; what its own steps have read is left out.
        limit: The most messages.
    """
    place_id = func.coalesce(func.nullif(turns.c.seen_id, ""), messages.c.id)
    own = func.coalesce(messages.c.turn_id, "") == turn_id if turn_id else false()
    rows = await tx.execute(
        select(*MESSAGES.columns, place_id.label("place_id"))
        .outerjoin(turns, turns.c.id == messages.c.turn_id)
        .where(messages.c.conversation_id == conversation_id, place_id <= until, ~own)
        .order_by(messages.c.id.desc())
        .limit(limit)
    )
    found = sorted(rows, key=lambda row: (row.place_id, row.id), reverse=True)
    return _since(found)


def _since(rows: Sequence[Any]) -> list[StoredMessage]:
    """Return the messages in rows, newest first, since the last reset or summary; oldest first."""
    kept: list[StoredMessage] = []
    for row in rows:
        if row.role == "reset":
            break
        kept.append(replace(MESSAGES.of(row), sort_id=row.place_id))
        if row.role == "summary":
            break
    return kept[::-1]


async def put_summary(
    tx: Transaction,
    conversation_id: str,
    text: str,
    *,
    behind: StoredMessage,
    foreign: bool,
    now: datetime,
) -> str:
    """Store a summary of the messages up to one of them, behind which it stands."""
    summary_id = f"{int(behind.sort_id, 16) + 1:032x}"
    row = {
        "id": summary_id,
        "conversation_id": conversation_id,
        "role": "summary",
        "text": text,
        "foreign_content": foreign,
        "created_at": now,
    }
    await insert_new(tx, messages, row)
    return summary_id


async def forget_summary(tx: Transaction, conversation_id: str) -> bool:
    """Delete the text of all summaries of a conversation; `False` if there is none."""
    summaries = (messages.c.conversation_id == conversation_id, messages.c.role == "summary")
    return await change(tx, messages, *summaries, text="", role="reset")


async def first_to_answer(tx: Transaction, conversation_id: str, turn_id: str) -> str:
    """Return the id of the first message that a turn, or one that waits, has to answer."""
    # A turn is stored right behind its first message; further messages may have joined it.
    first = select(func.max(messages.c.id)).where(
        messages.c.conversation_id == conversation_id,
        messages.c.author == turns.c.user_id,
        messages.c.role == "user",
        messages.c.id < turns.c.id,
    )
    found = await tx.scalar(
        select(func.min(func.coalesce(first.scalar_subquery(), turns.c.message_id))).where(
            turns.c.conversation_id == conversation_id,
            (turns.c.id == turn_id) | (turns.c.status == "queued"),
        )
    )
    return found or ""


async def newest_to_read(tx: Transaction, conversation_id: str, message_id: str) -> str:
    """Return the id of the newest message that the turn of a message may read.

    What earlier turns have read is read too, and what follows, up to the first message that waits
    for a turn of its own.
    """
    here = turns.c.conversation_id == conversation_id
    # Turns begin in another order than their messages came in, since users take turns.
    read_before = await tx.scalar(select(func.max(turns.c.seen_id)).where(here))
    known = max(message_id, read_before or "")
    waiting = select(func.min(turns.c.message_id)).where(
        here, turns.c.status == "queued", turns.c.message_id > known
    )
    newest = select(func.max(messages.c.id)).where(messages.c.conversation_id == conversation_id)
    if (first := await tx.scalar(waiting)) is not None:
        newest = newest.where(messages.c.id < first)
    return max(known, await tx.scalar(newest) or "")
