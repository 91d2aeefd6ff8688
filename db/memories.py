"""Memories: short facts about a user, each with its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import or_, select

from db.database import Transaction
from db.search import words_of
from db.tables import conversations, memories, messages
from db.user_texts import UserTexts

#: Shorter words occur in every text, except in scripts where a letter can be a word.
_LEAST_LETTERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A fact that a user wants remembered.

    Attributes:
        number: The number by which the user refers to it; 0 until it is stored.
        origin: `said`: the user's own words; `confirmed`: found elsewhere and approved by the user.
        source: The place where it was found; empty for the user's own words.
        conversation_id: The conversation of the source.
        message_id: The message that has the words; empty for facts found elsewhere.
    """

    id: str
    number: int = 0
    text: str
    origin: str
    source: str = ""
    conversation_id: str = ""
    message_id: str = ""
    created_at: datetime

    @property
    def name(self) -> str:
        """The text by which a user recognises it."""
        return self.text


MEMORIES = UserTexts(Memory, memories)


async def said_by(
    tx: Transaction, user: str, conversation_id: str, *, limit: int
) -> list[tuple[str, str]]:
    """Return id and text of a user's last messages in a conversation, newest first."""
    rows = await tx.execute(
        select(messages.c.id, messages.c.text)
        .join(conversations, conversations.c.id == messages.c.conversation_id)
        .where(
            messages.c.conversation_id == conversation_id,
            messages.c.role == "user",
            # Before version 0.2, messages had no author and conversations one user.
            or_(
                messages.c.author == user,
                (messages.c.author == "") & (conversations.c.user_id == user),
            ),
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
