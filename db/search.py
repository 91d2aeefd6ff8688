"""Searches notes: every text of a user is a valid query, never a syntax error."""

import string
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Select, String, and_, column, func, literal_column, or_, table
from sqlalchemy.sql.elements import ColumnElement

from db.database import Transaction
from db.notes import NOTES, Note
from db.tables import notes

_MOST_WORDS = 20
# PostgreSQL refuses search words of more than 2 KB; a letter takes up to four bytes.
_LONGEST_WORD = 100
_SPACES = str.maketrans(string.punctuation, " " * len(string.punctuation))


async def search_notes(tx: Transaction, user: str, query: str, *, limit: int) -> list[Note]:
    """Return the notes of a user that match best.

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
