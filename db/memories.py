"""Memories: short facts about a user, each with its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, insert, select

from db.database import Transaction
from db.rows import RowMapper
from db.search import words_of
from db.tables import conversations, memories, messages

#: Shorter words occur in every text, except in scripts where a letter can be a word.
_LEAST_LETTERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A fact that a user wants remembered.

    Attributes:
        number: The number by which the user refers to it.
        origin: `said`: the user's own words; `confirmed`: found elsewhere and approved by the user.
        source: The place where it was found; empty for the user's own words.
        conversation_id: The conversation of the source.
        message_id: The message that has the words; empty for facts found elsewhere.
    """

    id: str
    number: int
    text: str
    origin: str
    source: str = ""
    conversation_id: str = ""
    message_id: str = ""
    created_at: datetime


_MEMORIES = RowMapper(Memory, memories)
_NEWEST_FIRST = select(*_MEMORIES.columns).order_by(memories.c.number.desc())


async def add(tx: Transaction, user: str, memory: Memory) -> None:
    """Store a memory; the caller has locked the user's row and read the number."""
    await tx.execute(insert(memories), {"user_id": user, **_MEMORIES.values(memory)})


async def next_number(tx: Transaction, user: str) -> int:
    """Return the number of this user's next memory."""
    newest = select(func.max(memories.c.number)).where(memories.c.user_id == user)
    return (await tx.scalar(newest) or 0) + 1


async def find(
    tx: Transaction, user: str, memory_id: str, text: str | None = None
) -> Memory | None:
    """Return a user's memory that has this id or exactly this text."""
    same = memories.c.id == memory_id
    return await _one(tx, user, same if text is None else same | (memories.c.text == text))


async def get(tx: Transaction, user: str, number: int) -> Memory | None:
    """Return a user's memory by its number."""
    return await _one(tx, user, memories.c.number == number)


async def everything(tx: Transaction, user: str) -> list[Memory]:
    """Return all memories of a user, newest first: a user has few, and they are short."""
    return await _MEMORIES.all(tx, _NEWEST_FIRST.where(memories.c.user_id == user))


async def remove(tx: Transaction, user: str, number: int) -> bool:
    """Delete a user's memory; return False if it did not exist."""
    query = delete(memories).where(memories.c.user_id == user, memories.c.number == number)
    return (await tx.execute(query)).rowcount > 0


async def said_by(
    tx: Transaction, user: str, conversation_id: str, *, limit: int
) -> list[tuple[str, str]]:
    """Return id and text of a user's last messages in a conversation of theirs, newest first."""
    rows = await tx.execute(
        select(messages.c.id, messages.c.text)
        .join(conversations, conversations.c.id == messages.c.conversation_id)
        .where(
            messages.c.conversation_id == conversation_id,
            messages.c.role == "user",
            conversations.c.user_id == user,
        )
        .order_by(messages.c.id.desc())
        .limit(limit)
    )
    return [(row.id, row.text) for row in rows]


def fitting(found: Sequence[Memory], query: str) -> list[Memory]:
    """Return the memories that share a word with a text, those that share most first (pure)."""
    words = [
        word.casefold()
        for word in words_of(query)
        if len(word) >= _LEAST_LETTERS or not word.isascii()
    ]

    def shared(memory: Memory) -> int:
        text = memory.text.casefold()
        return sum(word in text for word in words)

    ranked = sorted(found, key=lambda memory: (-shared(memory), -memory.number))
    return [memory for memory in ranked if shared(memory)]


async def _one(tx: Transaction, user: str, condition: ColumnElement[bool]) -> Memory | None:
    query = _NEWEST_FIRST.where(memories.c.user_id == user, condition)
    return await _MEMORIES.first(tx, query.limit(1))
