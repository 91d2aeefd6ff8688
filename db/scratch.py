"""The working memory of a run: values under keys that no other work reads."""

from datetime import datetime

from sqlalchemy import insert, literal, select

from bot.errors import BadRequestError
from db.database import Transaction
from db.rows import count_rows, put_row
from db.tables import scratch
from db.whiteboard import MOST_CHARACTERS, MOST_KEYS, key_of


async def write(tx: Transaction, run_id: str, key: str, value: str, now: datetime) -> None:
    """Store a value under a key; it replaces an earlier one.

    Raises:
        BadRequestError: Key or value are too long, or the run has too many keys.
    """
    key = key_of(key)
    if len(value) > MOST_CHARACTERS:
        raise BadRequestError(
            f"The value has {len(value):,} characters, and {MOST_CHARACTERS:,} is the most: put it "
            "under several keys."
        )
    others = (scratch.c.run_id == run_id, scratch.c.key != key)
    if await count_rows(tx, scratch, *others) >= MOST_KEYS:
        raise BadRequestError(
            f"There are {MOST_KEYS} keys, which is the most: put several values under one key."
        )
    await put_row(tx, scratch, {"run_id": run_id, "key": key, "value": value, "updated_at": now})


async def read(tx: Transaction, run_id: str, key: str) -> str | None:
    """Return the value under a key."""
    value: str | None = await tx.scalar(
        select(scratch.c.value).where((scratch.c.run_id == run_id) & (scratch.c.key == key_of(key)))
    )
    return value


async def keys(tx: Transaction, run_id: str) -> list[str]:
    """Return the keys of a run, in order."""
    return sorted(await tx.scalars(select(scratch.c.key).where(scratch.c.run_id == run_id)))


async def copy(tx: Transaction, run_id: str, to: str) -> None:
    """Copy the working memory of a run to the run that continues it."""
    names = ("key", "value", "updated_at")
    found = select(literal(to, scratch.c.run_id.type), *(scratch.c[name] for name in names))
    found = found.where(scratch.c.run_id == run_id)
    await tx.execute(insert(scratch).from_select(["run_id", *names], found))
