"""Queries on pairings: accounts that an admin has admitted to direct messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert

from bot.values import Identity
from db.database import Transaction
from db.rows import RowMapper, change, remove
from db.tables import pairings


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """A code of a user, and its confirmation.

    Attributes:
        confirmed_at: `None` while no admin has confirmed the code.
        confirmed_by: The key of the admin; empty for none.
    """

    user: Identity
    code: str
    created_at: datetime
    confirmed_at: datetime | None
    confirmed_by: str


_PAIRINGS = RowMapper(Pairing, pairings)


async def of_user(tx: Transaction, user: Identity) -> Pairing | None:
    """Return the pairing of a user."""
    return await _PAIRINGS.find_one(tx, pairings.c.user_id == user.key)


async def of_code(tx: Transaction, code: str) -> Pairing | None:
    """Return the pairing with a code."""
    return await _PAIRINGS.find_one(tx, pairings.c.code == code)


async def confirmed(tx: Transaction, *, limit: int) -> Sequence[Pairing]:
    """Return the confirmed pairings, newest first."""
    done = pairings.c.confirmed_at
    return await _PAIRINGS.find_all(tx, done.is_not(None), order=[done.desc()], limit=limit)


async def put(tx: Transaction, user: Identity, code: str, now: datetime) -> None:
    """Store a new code of a user in place of an older one; the user is stored already."""
    await tx.execute(delete(pairings).where(pairings.c.user_id == user.key))
    row = {"user_id": user.key, "code": code, "created_at": now}
    await tx.execute(insert(pairings), row)


async def confirm(tx: Transaction, code: str, *, by: str, now: datetime) -> bool:
    """Confirm a code; `False` if it is confirmed already or unknown."""
    this = (pairings.c.code == code, pairings.c.confirmed_at.is_(None))
    return await change(tx, pairings, *this, confirmed_at=now, confirmed_by=by)


async def end(tx: Transaction, user: Identity) -> bool:
    """Delete the pairing of a user; `False` if there is none."""
    return await remove(tx, pairings, pairings.c.user_id == user.key)
