"""Queries on legal holds: what is stored about a user under one is not erased."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, Table, false, func, or_, select, text

from bot.values import new_sortable_id
from db.database import Transaction
from db.rows import RowMapper, insert_new, remove
from db.tables import files, held_copies, holds, messages
from db.user_data import HOLDINGS, owner_of

#: Shared by transactions that erase, exclusive for those that place a hold: a hold is committed
#: after all erasures that did not see it.
HOLD_LOCK = 0x5EC1_0E05
_SHARED = text("SELECT pg_advisory_xact_lock_shared(:key)")
_EXCLUSIVE = text("SELECT pg_advisory_xact_lock(:key)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A legal hold on what is stored about a user.

    Attributes:
        user_id: The key of the user's account.
        shown: The account as it is written in the configuration.
        name: The name of the case.
        held_by: The key of the operator.
    """

    user_id: str
    shown: str
    name: str
    held_by: str
    created_at: datetime


_HOLDS = RowMapper(Hold, holds)


async def listed(tx: Transaction, user_id: str = "") -> list[Hold]:
    """Return the holds on a user, or all for an empty key, oldest first."""
    theirs = [holds.c.user_id == user_id] if user_id else []
    return await _HOLDS.find_all(tx, *theirs, order=[holds.c.created_at, holds.c.id])


async def of(tx: Transaction, user_id: str) -> list[Hold]:
    """Return the holds on a user to a transaction that erases: none is placed before its end."""
    await _share(tx)
    return await listed(tx, user_id)


async def _share(tx: Transaction) -> None:
    if tx.dialect.name == "postgresql":
        # A statement of its own: the next one sees what was committed while this one waited.
        await tx.execute(_SHARED, {"key": HOLD_LOCK})


async def place(tx: Transaction, hold: Hold) -> bool:
    """Place a hold, first in its transaction; `False` if the user has one of this name."""
    if tx.dialect.name == "postgresql":
        await tx.execute(_EXCLUSIVE, {"key": HOLD_LOCK})
    row = {"id": new_sortable_id(hold.created_at), **_HOLDS.values(hold)}
    return await insert_new(tx, holds, row)


async def release(tx: Transaction, user_id: str, name: str) -> bool:
    """Release a hold; `False` if there is none of this name.

    With the last hold on a user go the copies of what was erased meanwhile.
    """
    if not await remove(tx, holds, holds.c.user_id == user_id, holds.c.name == name):
        return False
    if not await listed(tx, user_id):
        await remove(tx, held_copies, held_copies.c.user_id == user_id)
    return True


async def keep(tx: Transaction, user_id: str, message_id: str, now: datetime) -> None:
    """Keep a copy of a message, with its files, that is about to lose its content.

    Without a hold on its author nothing is kept.
    """
    if not await of(tx, user_id):
        return
    columns = ("conversation_id", "reference", "text", "quoted", "created_at")
    found = select(*(messages.c[name] for name in columns)).where(messages.c.id == message_id)
    common = {"user_id": user_id, "message_id": message_id, "erased_at": now}
    rows = [dict(row) for row in (await tx.execute(found)).mappings()]
    sent = select(files.c.name, files.c.data).where(files.c.message_id == message_id)
    content = [dict(row) for row in (await tx.execute(sent)).mappings()]
    for row in rows:
        await insert_new(tx, held_copies, {"id": new_sortable_id(), **common, **row})
        kept = {key: row[key] for key in ("conversation_id", "reference", "created_at")}
        for each in content:
            await insert_new(tx, held_copies, {"id": new_sortable_id(), **common, **kept, **each})


def contents(user_id: str) -> Select[str, str]:
    """Return a select of the ids and names of the files among the kept copies of a user."""
    mine = (held_copies.c.user_id == user_id, held_copies.c.data.is_not(None))
    return select(held_copies.c.id, held_copies.c.name).where(*mine).order_by(held_copies.c.id)


async def content(tx: Transaction, copy_id: str) -> bytes | None:
    """Return the content of a file among the kept copies."""
    found: bytes | None = await tx.scalar(
        select(held_copies.c.data).where(held_copies.c.id == copy_id)
    )
    return found


async def free(tx: Transaction, table: Table) -> Sequence[ColumnElement[bool]]:
    """Return the conditions for rows of a table that are about nobody under a hold.

    For a transaction that erases: no hold is placed before its end.
    """
    await _share(tx)
    held = {each.user_id for each in await listed(tx)}
    if not held or table.name not in HOLDINGS:
        return []
    owners = [await owner_of(tx, key) for key in sorted(held)]
    theirs = [condition for owner in owners for condition in HOLDINGS[table.name](owner)]
    # Of a row without a value for a column, a condition is neither true nor false.
    return [~func.coalesce(or_(*theirs), false())] if theirs else []
