"""Queries on the participants of shared conversations: a number, a shown name and a model each."""

import unicodedata

from sqlalchemy import ColumnElement, func, select

from db.database import Transaction
from db.rows import insert_new
from db.tables import participants
from db.types import storable

NAME_LENGTH = 40


async def join(tx: Transaction, conversation_id: str, author: str, name: str) -> tuple[int, str]:
    """Return the number and the shown name of a participant; a new one is given both.

    The name stays as it was at first, so that earlier messages read the same. A name that another
    participant has, or one that looks the same, is followed by a number.
    """
    this = (participants.c.conversation_id == conversation_id,)
    known = await _get(tx, *this, participants.c.author == author)
    while known is None:
        names = {
            _folded(each) for each in await tx.scalars(select(participants.c.name).where(*this))
        }
        number = (await tx.scalar(select(func.max(participants.c.number)).where(*this)) or 0) + 1
        name = storable(name)[:NAME_LENGTH]
        found, count = name, 1
        while _folded(found) in names:
            count += 1
            found = f"{name} ({count})"
        row = {
            "conversation_id": conversation_id,
            "number": number,
            "author": author,
            "name": found,
        }
        # Another process may take the number at the same time.
        await insert_new(tx, participants, row)
        known = await _get(tx, *this, participants.c.author == author)
    return known


async def number_of(tx: Transaction, conversation_id: str, author: str) -> int:
    """Return the number of a participant; 0 for none."""
    this = (participants.c.conversation_id == conversation_id, participants.c.author == author)
    found = await _get(tx, *this)
    return found[0] if found else 0


async def _get(tx: Transaction, *which: ColumnElement[bool]) -> tuple[int, str] | None:
    query = select(participants.c.number, participants.c.name).where(*which)
    row = (await tx.execute(query)).first()
    return None if row is None else (row.number, row.name)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
