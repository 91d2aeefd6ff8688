"""Whiteboards: data shared by a run and its parent, one board per run."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, insert, literal, select

from bot.errors import BadRequestError
from db import rows
from db.database import Transaction
from db.rows import count_rows, has_row, put_row
from db.tables import subagent_runs, whiteboard

MOST_KEYS = 100
MOST_KEY_CHARACTERS = 200
MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class WhiteboardEntry:
    """A key of a board and the beginning of its value.

    Attributes:
        length: Characters of the whole value.
    """

    key: str
    preview: str
    length: int


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a board.

    Attributes:
        work_id: The turn or run that wrote it; empty if unknown.
    """

    text: str
    work_id: str


async def write(
    tx: Transaction, board: str, key: str, value: str, now: datetime, *, work_id: str = ""
) -> None:
    """Store a value under a key; it replaces an earlier one.

    Raises:
        BadRequestError: Key or value are too long, or the board is full.
    """
    key = key_of(key)
    if len(value) > MOST_CHARACTERS:
        raise BadRequestError(
            f"The value of {key[:50]!r} has {len(value):,} characters, and {MOST_CHARACTERS:,} is "
            "the most: put it under several keys."
        )
    others = (whiteboard.c.board_id == board, whiteboard.c.key != key)
    if await count_rows(tx, whiteboard, *others) >= MOST_KEYS:
        raise BadRequestError(
            f"The whiteboard is full: it has {MOST_KEYS} keys. Delete some, or put several values "
            "under one key."
        )
    row = {"board_id": board, "key": key, "value": value, "work_id": work_id, "updated_at": now}
    await put_row(tx, whiteboard, row)


async def read(tx: Transaction, board: str, key: str) -> str | None:
    """Return the value under a key."""
    query = select(whiteboard.c.value).where(_at(board, key))
    value: str | None = await tx.scalar(query)
    return value


async def value_of(tx: Transaction, board: str, key: str) -> Value | None:
    """Return the value under a key, with the work that wrote it."""
    query = select(whiteboard.c.value, whiteboard.c.work_id).where(_at(board, key))
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else Value(row.value, row.work_id or "")


async def is_board_of(tx: Transaction, board: str, user: str) -> bool:
    """Return True if a board exists and belongs to a run of this user."""
    mine = (subagent_runs.c.id == board, subagent_runs.c.user_id == user)
    return await has_row(tx, subagent_runs, *mine)


async def entries(tx: Transaction, board: str, *, preview: int = 100) -> list[WhiteboardEntry]:
    """Return the keys of a board in order, each with the first characters of its value."""
    query = select(
        whiteboard.c.key,
        func.substr(whiteboard.c.value, 1, preview).label("preview"),
        func.length(whiteboard.c.value).label("length"),
    ).where(whiteboard.c.board_id == board)
    found = [WhiteboardEntry(*row) for row in await tx.execute(query)]
    return sorted(found, key=lambda entry: entry.key)


async def remove(tx: Transaction, board: str, key: str) -> bool:
    """Delete a key; return False if it did not exist."""
    return await rows.remove(tx, whiteboard, _at(board, key))


async def copy(tx: Transaction, board: str, to: str) -> None:
    """Copy the content of a board to the board of another run."""
    names = ("key", "value", "work_id", "updated_at")
    of = literal(to, whiteboard.c.board_id.type)
    found = select(of, *(whiteboard.c[name] for name in names))
    found = found.where(whiteboard.c.board_id == board)
    await tx.execute(insert(whiteboard).from_select(["board_id", *names], found))


def _at(board: str, key: str) -> ColumnElement[bool]:
    return (whiteboard.c.board_id == board) & (whiteboard.c.key == key_of(key))


def key_of(key: str) -> str:
    """Return a key in its stored form: on one line, with whitespace collapsed.

    Raises:
        BadRequestError: The key is empty or too long.
    """
    key = " ".join(key.split())
    if not key:
        raise BadRequestError("The key is empty: give the value a name.")
    if len(key) > MOST_KEY_CHARACTERS:
        raise BadRequestError(
            f"A key has {len(key):,} characters, and {MOST_KEY_CHARACTERS} is the most: give the "
            "value a shorter name."
        )
    return key
