"""Notes that users asked the bot to store. `db.search` finds them by their words."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, insert, select

from db.database import Transaction
from db.rows import RowMapper
from db.tables import notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note of one user.

    Attributes:
        number: The number by which the user refers to it.
    """

    id: str
    number: int
    title: str
    text: str
    created_at: datetime


NOTES = RowMapper(Note, notes)


async def add(
    tx: Transaction,
    user: str,
    *,
    note_id: str,
    title: str,
    text: str,
    now: datetime,
    number: int | None = None,
) -> Note:
    """Store a note; the caller has locked the user's row.

    Args:
        tx: The transaction.
        user: The key of the user.
        note_id: A new id.
        title: A few words.
        text: The note.
        now: The time of writing.
        number: Used if it is free; otherwise the user's next number is used.
    """
    if number is None or await get(tx, user, number) is not None:
        newest = select(func.max(notes.c.number)).where(notes.c.user_id == user)
        number = (await tx.scalar(newest) or 0) + 1
    note = Note(id=note_id, number=number, title=title, text=text, created_at=now)
    await tx.execute(insert(notes), {"user_id": user, **NOTES.values(note)})
    return note


async def find(tx: Transaction, user: str, note_id: str) -> Note | None:
    """Return a user's note by its id."""
    return await _one(tx, user, notes.c.id == note_id)


async def get(tx: Transaction, user: str, number: int) -> Note | None:
    """Return a user's note by its number."""
    return await _one(tx, user, notes.c.number == number)


async def count(tx: Transaction, user: str) -> int:
    """Return the number of a user's notes."""
    query = select(func.count()).select_from(notes).where(notes.c.user_id == user)
    return await tx.scalar(query) or 0


async def page(tx: Transaction, user: str, *, limit: int, offset: int = 0) -> list[Note]:
    """Return a page of a user's notes, newest first."""
    query = select(notes).where(notes.c.user_id == user).order_by(notes.c.number.desc())
    return await NOTES.all(tx, query.limit(limit).offset(offset))


async def remove(tx: Transaction, user: str, number: int) -> bool:
    """Delete a user's note; return False if it did not exist."""
    query = delete(notes).where(notes.c.user_id == user, notes.c.number == number)
    return (await tx.execute(query)).rowcount > 0


async def _one(tx: Transaction, user: str, condition: ColumnElement[bool]) -> Note | None:
    return await NOTES.first(tx, select(notes).where(notes.c.user_id == user, condition))
