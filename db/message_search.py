"""Searches the messages of one conversation."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, or_, select

from db.conversations import MESSAGES, StoredMessage
from db.database import Transaction
from db.tables import conversations, messages

#: The newest messages that are searched.
SEARCHED = 5_000


async def search(
    tx: Transaction, conversation_id: str, words: Sequence[str], *, limit: int
) -> list[StoredMessage]:
    """Return the newest messages of a conversation with all words as parts, oldest first."""
    newest = (
        select(messages.c.id)
        .where(messages.c.conversation_id == conversation_id)
        .order_by(messages.c.id.desc())
        .limit(SEARCHED)
        .subquery()
    )
    text = func.lower(messages.c.text)
    name = func.lower(messages.c.author_name)
    # SQLite folds the letters of ASCII alone, and Python all.
    holds = [
        or_(
            text.contains(word.lower(), autoescape=True),
            messages.c.text.contains(word, autoescape=True),
            name.contains(word.lower(), autoescape=True),
        )
        for word in words
    ]
    query = MESSAGES.query.where(messages.c.id.in_(select(newest.c.id)), *holds)
    found = await MESSAGES.all(tx, query.order_by(messages.c.id.desc()).limit(limit))
    return found[::-1]


async def begun_anew(tx: Transaction, conversation_id: str) -> datetime | None:
    """Return the time of the `/new` with which a conversation began; `None` for the first."""
    this = (
        conversations.c.id == conversation_id,
        conversations.c.looked_at == conversations.c.created_at,
    )
    found: datetime | None = await tx.scalar(select(conversations.c.created_at).where(*this))
    return found
