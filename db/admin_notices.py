"""Queries on notices to admins: each is stored once, and one press of a button settles it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.values import Place
from db.database import Transaction
from db.rows import RowMapper, change, has_row, insert_new, place_columns
from db.tables import admin_notices


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNotice:
    """A notice to admins.

    Attributes:
        place: The place that it is about; without a platform for the whole bot.
        buttons: The label and the command line of each button.
        user_id: The key of the admin who pressed a button; empty before.
        chosen: The label of that button.
    """

    id: str
    key: str
    text: str
    place: Place
    buttons: Sequence[Sequence[str]] = ()
    user_id: str = ""
    chosen: str = ""


_NOTICES = RowMapper(StoredNotice, admin_notices)


async def put(tx: Transaction, notice: StoredNotice, now: datetime) -> bool:
    """Store a notice; `False` if it was stored before."""
    row = _NOTICES.values(notice) | place_columns(notice.place)
    row |= {"buttons": [list(each) for each in notice.buttons], "created_at": now}
    return await insert_new(tx, admin_notices, row)


async def get(tx: Transaction, notice_id: str) -> StoredNotice | None:
    """Return the notice with this id."""
    return await _NOTICES.find_one(tx, admin_notices.c.id == notice_id)


async def is_known(tx: Transaction, notice_id: str) -> bool:
    """Return True if a notice is stored."""
    return await has_row(tx, admin_notices, admin_notices.c.id == notice_id)


async def settle(tx: Transaction, notice_id: str, *, by: str, chosen: str) -> bool:
    """Store the button that an admin pressed; `False` if another press was first."""
    this = (admin_notices.c.id == notice_id, admin_notices.c.user_id == "")
    return await change(tx, admin_notices, *this, user_id=by, chosen=chosen)


async def reopen(tx: Transaction, notice_id: str, *, by: str) -> bool:
    """Let a button be pressed again, since the command of the one that was pressed failed."""
    this = (admin_notices.c.id == notice_id, admin_notices.c.user_id == by)
    return await change(tx, admin_notices, *this, user_id="", chosen="")
