"""To-do lists: one per conversation, and one per run."""

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import select

from bot.values import Identity
from db.database import Transaction
from db.rows import insert_into, remove
from db.tables import todos


@dataclass(frozen=True, slots=True)
class Todo:
    """An item of a to-do list.

    Attributes:
        status: `pending`, `in_progress` or `done`.
    """

    text: str
    status: str


def progress(items: list[Todo]) -> str:
    """Return the progress of a list as text."""
    return f"{sum(item.status == 'done' for item in items)} of {len(items)} done"


def list_of(conversation_id: str, user: Identity, *, shared: bool) -> str:
    """Return the id of the list of a user in a conversation."""
    if not shared:
        return conversation_id
    return hashlib.blake2b(f"{conversation_id} {user.key}".encode(), digest_size=16).hexdigest()


async def write(tx: Transaction, list_id: str, user: str, items: list[Todo], now: datetime) -> None:
    """Replace a list; an empty one is deleted."""
    if not items:
        await remove(tx, todos, todos.c.id == list_id, todos.c.user_id == user)
        return
    rows = [asdict(item) for item in items]
    insert = insert_into(tx, todos).values(id=list_id, user_id=user, items=rows, updated_at=now)
    new = {"items": insert.excluded["items"], "updated_at": insert.excluded.updated_at}
    mine = todos.c.user_id == user
    await tx.execute(insert.on_conflict_do_update(index_elements=["id"], set_=new, where=mine))


async def read(tx: Transaction, list_id: str, user: str) -> list[Todo]:
    """Return a list of this user; empty if it does not exist."""
    query = select(todos.c["items"]).where(todos.c.id == list_id, todos.c.user_id == user)
    return [Todo(**row) for row in await tx.scalar(query) or ()]
