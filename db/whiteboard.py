"""Whiteboards: data that a run and its parent share, one board per run."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, select

from bot.errors import BadRequestError
from db.database import Transaction
from db.tables import whiteboard
from db.upsert import insert_into

MOST_KEYS = 100
MOST_KEY_CHARACTERS = 200
MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a board and the beginning of its value.

    Attributes:
        length: Characters of the whole value.
    """

    key: str
    preview: str
    length: int


async def write(tx: Transaction, board: str, key: str, value: str, now: datetime) -> None:
    """Put a value under a key, in place of what was there.

    Raises:
        BadRequestError: Key or value are too long, or the board is full.
    """
    key = _key(key)
    if len(value) > MOST_CHARACTERS:
        raise BadRequestError(
            f"The value of {key[:50]!r} has {len(value):,} characters, and {MOST_CHARACTERS:,} is "
            "the most: put it under several keys."
        )
    if await _count_others(tx, board, key) >= MOST_KEYS:
        raise BadRequestError(
            f"The whiteboard is full: it has {MOST_KEYS} keys. Delete some, or put several values "
            "under one key."
        )
    insert = insert_into(tx, whiteboard).values(
        board_id=board, key=key, value=value, updated_at=now
    )
    new = {"value": insert.excluded.value, "updated_at": insert.excluded.updated_at}
    await tx.execute(insert.on_conflict_do_update(index_elements=["board_id", "key"], set_=new))


async def read(tx: Transaction, board: str, key: str) -> str | None:
    """Return the value under a key."""
    query = select(whiteboard.c.value).where(_at(board, key))
    value: str | None = await tx.scalar(query)
    return value


async def entries(tx: Transaction, board: str, *, preview: int = 100) -> list[Entry]:
    """Return the keys of a board in order, each with the first characters of its value."""
    query = select(
        whiteboard.c.key,
        func.substr(whiteboard.c.value, 1, preview).label("preview"),
        func.length(whiteboard.c.value).label("length"),
    ).where(whiteboard.c.board_id == board)
    rows = await tx.execute(query)
    return sorted((Entry(row.key, row.preview, row.length) for row in rows), key=lambda e: e.key)


async def remove(tx: Transaction, board: str, key: str) -> bool:
    """Delete a key and return whether it was there."""
    return (await tx.execute(delete(whiteboard).where(_at(board, key)))).rowcount > 0


async def _count_others(tx: Transaction, board: str, key: str) -> int:
    query = select(func.count()).where(whiteboard.c.board_id == board, whiteboard.c.key != key)
    return await tx.scalar(query) or 0


def _at(board: str, key: str) -> ColumnElement[bool]:
    return (whiteboard.c.board_id == board) & (whiteboard.c.key == _key(key))


def _key(key: str) -> str:
    """Return a key as it is stored: on one line, and not distinguished by spaces nobody sees."""
    key = " ".join(key.split())
    if not key:
        raise BadRequestError("The key is empty: give the value a name.")
    if len(key) > MOST_KEY_CHARACTERS:
        raise BadRequestError(
            f"A key has {len(key):,} characters, and {MOST_KEY_CHARACTERS} is the most: give the "
            "value a shorter name."
        )
    return key
