"""Texts that users have stored, numbered for each user: notes and memories, and their search."""

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    Select,
    String,
    and_,
    column,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    table,
)

from db.database import Transaction
from db.rows import RowMapper, count_rows
from db.tables import conversations, memories, messages, notes

#: A frozen dataclass with `id`, `number`, `text` and `created_at`.
Text = TypeVar("Text", bound=Any)


@dataclass(frozen=True)
class UserTexts(RowMapper[Text], Generic[Text]):
    """The texts in one table. Its methods reach those of one user only."""

    async def add(self, tx: Transaction, user: str, text: Text) -> Text:
        """Store a text; the caller has locked the user's row.

        It keeps its number if that is free; otherwise, and for 0, it is given the user's next one.
        """
        if not text.number or await self.get(tx, user, text.number) is not None:
            newest = select(func.max(self.table.c.number)).where(self.table.c.user_id == user)
            text = replace(text, number=(await tx.scalar(newest) or 0) + 1)
        await tx.execute(insert(self.table), {"user_id": user, **self.values(text)})
        return text

    async def find(
        self, tx: Transaction, user: str, text_id: str, text: str | None = None
    ) -> Text | None:
        """Return a user's text that has this id or exactly these words."""
        same = self.table.c.id == text_id
        return await self._one(
            tx, user, same if text is None else same | (self.table.c.text == text)
        )

    async def get(self, tx: Transaction, user: str, number: int) -> Text | None:
        """Return a user's text by its number."""
        return await self._one(tx, user, self.table.c.number == number)

    async def count(self, tx: Transaction, user: str) -> int:
        """Return the number of a user's texts."""
        return await count_rows(tx, self.table, self.table.c.user_id == user)

    async def newest(
        self, tx: Transaction, user: str, *, limit: int | None = None, offset: int = 0
    ) -> list[Text]:
        """Return a user's texts, or a page of them, newest first."""
        query = select(*self.columns).where(self.table.c.user_id == user)
        newest = query.order_by(self.table.c.number.desc())
        return await self.all(tx, newest.limit(limit).offset(offset))

    async def remove(self, tx: Transaction, user: str, number: int) -> bool:
        """Delete a user's text; return False if it did not exist."""
        mine = self.table.c.user_id == user, self.table.c.number == number
        return (await tx.execute(delete(self.table).where(*mine))).rowcount > 0

    async def _one(self, tx: Transaction, user: str, condition: ColumnElement[bool]) -> Text | None:
        query = select(*self.columns).where(self.table.c.user_id == user, condition)
        return await self.first(tx, query.order_by(self.table.c.number.desc()).limit(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note of one user.

    Attributes:
        number: The number by which the user refers to it; 0 until it is stored.
    """

    id: str
    number: int = 0
    title: str
    text: str
    created_at: datetime

    @property
    def name(self) -> str:
        """The text by which a user recognises it."""
        return self.title or self.text


NOTES = UserTexts(Note, notes)


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


_MOST_WORDS = 20
# PostgreSQL refuses search words of more than 2 KB; a letter takes up to four bytes.
_LONGEST_WORD = 100
_SPACES = str.maketrans(string.punctuation, " " * len(string.punctuation))


async def search_notes(tx: Transaction, user: str, query: str, *, limit: int) -> list[Note]:
    """Return the notes of a user that match best; every text is a valid query.

    Notes with all words are returned alone. Without any, notes with at least one word are returned;
    without those, notes with all words as parts of words, as needed for languages without spaces
    between words.
    """
    words = words_of(query)
    for question in _questions(tx, words) if words else ():
        mine = question.where(notes.c.user_id == user).limit(limit)
        found = await NOTES.all(tx, mine)
        if found:
            return found
    return []


def words_of(query: str) -> list[str]:
    """Return the words to search for, as prefixes and without punctuation."""
    words = query.replace("\0", " ").translate(_SPACES).split()
    spoken = [word[:_LONGEST_WORD] for word in words if any(letter.isalnum() for letter in word)]
    return list(dict.fromkeys(spoken))[:_MOST_WORDS]


def _questions(tx: Transaction, words: Sequence[str]) -> Iterator[Select[Any]]:
    indexed = _sqlite if tx.dialect.name == "sqlite" else _postgresql
    yield indexed(words, every=True)
    if len(words) > 1:
        yield indexed(words, every=False)
    parts = (notes.c.title, notes.c.text)
    there = [or_(*(part.icontains(word, autoescape=True) for part in parts)) for word in words]
    yield NOTES.query.where(and_(*there)).order_by(notes.c.number.desc())


def _sqlite(words: Sequence[str], *, every: bool) -> Select[Any]:
    index = table("notes_fts", column("notes_fts"), column("note_id"), column("rank"))
    quoted = (" AND " if every else " OR ").join(f'"{word}"*' for word in words)
    return (
        NOTES.query.join(index, index.c.note_id == notes.c.id)
        .where(index.c.notes_fts.match(f"{{title text}} : ({quoted})"))
        .order_by(index.c.rank, notes.c.number.desc())
    )


def _postgresql(words: Sequence[str], *, every: bool) -> Select[Any]:
    simple = _literal("simple")
    # As in the index over it: see the first version in `migrations`.
    marks, spaces = _literal(string.punctuation), _literal(" " * len(string.punctuation))
    whole = notes.c.title + _literal(" ") + notes.c.text
    document = func.to_tsvector(simple, func.translate(whole, marks, spaces))
    quoted = (" & " if every else " | ").join(f"'{word}':*" for word in words)
    asked = func.to_tsquery(simple, quoted)
    return NOTES.query.where(document.op("@@")(asked)).order_by(
        func.ts_rank(document, asked).desc(), notes.c.number.desc()
    )


def _literal(value: str) -> ColumnElement[str]:
    """Return a text as a literal in the statement, as in the expression of an index."""
    quoted = value.replace("'", "''")
    return literal_column(f"'{quoted}'", String)
