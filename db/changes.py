"""Stores the state before a tool deletes or replaces a thing in the database, so it can be undone.

A change is stored in the transaction that makes it. It identifies a thing by kind and key, and
stores its state before, as a document; the `Restorer` of the kind restores such a state.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Protocol

from sqlalchemy import insert, select

from bot.changes import STORE_IS_FULL, Cause, new_id
from bot.errors import ToolError
from bot.values import Json
from db.database import Transaction
from db.rows import change, count_rows, remove
from db.tables import changes
from db.types import to_json

#: Changes of one user and kind; the oldest are dropped first.
MOST_PER_KIND = 200
MOST_TITLE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChange:
    """A change to a thing in the database.

    Attributes:
        id: In the format of file changes: ids sort by time.
        kind: `note`, `memory`, …
        key: The thing's key, unique within its kind.
        title: The thing's name for users.
        before: The state before the change; `None` if the thing did not exist.
        after: The fingerprint of the state after it.
        undone: The change was undone already.
    """

    id: str
    kind: str
    key: str
    title: str
    cause: Cause
    before: Json | None
    after: str
    undone: bool = False


class Restorer(Protocol):
    """Reads and restores things of one kind; a user reaches only their own."""

    @property
    def kind(self) -> str:
        """The kind."""

    async def state(self, tx: Transaction, user: str, key: str) -> Json | None:
        """Return the state of a user's thing; `None` if it does not exist."""

    async def restore(
        self, tx: Transaction, user: str, key: str, before: Json | None, *, beside: bool
    ) -> tuple[str, str]:
        """Restore a user's thing to an earlier state; `None` deletes it.

        Args:
            tx: The transaction.
            user: The key of the user.
            key: The key of the thing.
            before: Its state as `state` returned it.
            beside: The thing has changed since: the former state must not replace the present one.

        Returns:
            The key of the restored thing, and a sentence about the result.

        Raises:
            BadRequestError: The state cannot be restored; the text has the reason.
        """


async def keep(  # noqa: PLR0913 - all that a change holds
    tx: Transaction,
    cause: Cause,
    *,
    kind: str,
    key: str,
    title: str,
    before: Json | None,
    after: Json | None,
    now: datetime,
    drops: bool = True,
) -> StoredChange:
    """Store a change, and drop the oldest beyond the limit; the caller makes it in the same `tx`.

    Raises:
        ToolError: The store is full, and `drops` is false.
    """
    mine = (changes.c.user_id == cause.user_id, changes.c.kind == kind)
    ids = select(changes.c.id).where(*mine).order_by(changes.c.id.desc())
    newest = await tx.scalar(ids.limit(1)) or ""
    row: Json = {
        "id": new_id(now, after=newest),
        "kind": kind,
        "key": key,
        "title": title[:MOST_TITLE],
        "before": before,
        "after": fingerprint(after),
    }
    await tx.execute(insert(changes), row | asdict(cause) | {"created_at": now})
    last = await tx.scalar(ids.offset(MOST_PER_KIND).limit(1))
    if last is not None:
        if not drops:
            raise ToolError(STORE_IS_FULL)
        await remove(tx, changes, *mine, changes.c.id <= last)
    return StoredChange(cause=cause, **row)


async def has_room(tx: Transaction, user: str, kind: str) -> bool:
    """Return True if another change fits without dropping the oldest of its kind."""
    mine = (changes.c.user_id == user, changes.c.kind == kind)
    return await count_rows(tx, changes, *mine) < MOST_PER_KIND


async def newest(tx: Transaction, user: str) -> Sequence[StoredChange]:
    """Return a user's changes, newest first."""
    query = select(changes).where(changes.c.user_id == user).order_by(changes.c.id.desc())
    return [
        StoredChange(
            id=row.id,
            kind=row.kind,
            key=row.key,
            title=row.title,
            cause=Cause(
                user_id=row.user_id, work_id=row.work_id, run_id=row.run_id, undoes=row.undoes
            ),
            before=row.before,
            after=row.after,
            undone=row.undone_at is not None,
        )
        for row in await tx.execute(query)
    ]


async def mark_undone(tx: Transaction, user: str, change_id: str, now: datetime) -> bool:
    """Mark a user's change as undone; `False` if it was marked before."""
    this = (changes.c.id == change_id, changes.c.user_id == user, changes.c.undone_at.is_(None))
    return await change(tx, changes, *this, undone_at=now)


def fingerprint(state: Json | None) -> str:
    """Return a fingerprint of a state; empty for nothing (pure)."""
    if state is None:
        return ""
    return hashlib.blake2b(
        to_json(dict(sorted(state.items()))).encode(), digest_size=16
    ).hexdigest()
