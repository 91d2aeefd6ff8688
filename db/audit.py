"""The audit log: entries that are written with their actions, and are only ever added.

The text of an entry can be erased (retention, a deleted user): number, time, action, pseudonyms and
hashes stay, and the chain of `db.audit_chain` still verifies.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, func, or_, select

from bot.values import Place, new_sortable_id
from db import holds
from db.database import Transaction
from db.rows import PLACE, begun_in, change, insert_new, place_columns
from db.tables import audit

#: Entries that one transaction seals or erases, or that one statement reads.
BATCH = 100
#: The platform of what is done on the command line.
CONSOLE = Place("console")
#: The actor of what the bot does by itself.
SYSTEM = "retinue"
NOWHERE = Place("")
#: The columns of an erased text, with what they hold afterwards.
ERASED = {
    "user_id": "",
    "owner_id": "",
    "subject": "",
    "effect": "",
    **place_columns(NOWHERE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One action.

    Attributes:
        actor: The key of the account that acted.
        action: What was done, in a word or two.
        owner: The key of the user whose work or data it is about; empty for none.
        place: The place from which it was done.
        subject: What it was done to: the id of a run, the name of a limit.
        effect: What came of it.
        id: A repeated record with the same id is not stored again; empty for a new one.
    """

    actor: str
    action: str
    created_at: datetime
    owner: str = ""
    place: Place = NOWHERE
    subject: str = ""
    effect: str = ""
    id: str = ""


def entry_id(*parts: str) -> str:
    """Return the id of an entry that is recorded once for these parts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """An entry as it is stored.

    Attributes:
        number: The number in the chain; `None` for an entry that is not sealed yet.
        pseudonym: The pseudonym of the actor; empty before it is sealed.
        owner_pseudonym: The pseudonym of the owner; empty before it is sealed, or for no owner.
        erased: Whether the text was erased: only action, time and pseudonyms are left.
    """

    number: int | None
    entry: AuditEntry
    pseudonym: str
    owner_pseudonym: str
    erased: bool


async def record(tx: Transaction, entry: AuditEntry) -> None:
    """Add an entry in the transaction of its action, once per given id."""
    row = {
        "id": entry.id or new_sortable_id(),
        "user_id": entry.actor,
        "owner_id": entry.owner,
        "action": entry.action,
        "subject": entry.subject[:255],
        "effect": entry.effect,
        "created_at": entry.created_at,
        **place_columns(entry.place),
    }
    await insert_new(tx, audit, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The entries that are wanted; an empty value is no condition.

    Attributes:
        user: The key of an account that acted or was acted upon.
        pseudonyms: The pseudonyms of that account, for entries without their text.
        action: The action.
        since: The time of the oldest.
        place: A place, whose server or workspace is meant.
    """

    user: str = ""
    pseudonyms: tuple[str, ...] = ()
    action: str = ""
    since: datetime | None = None
    place: Place | None = None

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The conditions for rows."""
        found = begun_in(audit.c, self.place)
        if self.user:
            columns = audit.c.user_id, audit.c.owner_id
            aliases = audit.c.pseudonym, audit.c.owner_pseudonym
            named = [column == self.user for column in columns]
            found.append(or_(*named, *(each.in_(self.pseudonyms) for each in aliases)))
        if self.action:
            found.append(audit.c.action == self.action)
        if self.since is not None:
            found.append(audit.c.created_at >= self.since)
        return found


async def newest(tx: Transaction, wanted: Filter, *, limit: int) -> list[StoredEntry]:
    """Return the newest entries that are wanted, newest first."""
    order = (audit.c.created_at.desc(), audit.c.id.desc())
    query = select(audit).where(*wanted.conditions).order_by(*order).limit(limit)
    return [_stored(row) for row in await tx.execute(query)]


async def count(tx: Transaction, wanted: Filter) -> int:
    """Return the number of entries that are wanted."""
    query = select(func.count()).select_from(audit).where(*wanted.conditions)
    return await tx.scalar(query) or 0


def _stored(row: Row[Any]) -> StoredEntry:
    entry = AuditEntry(
        id=row.id,
        actor=row.user_id,
        owner=row.owner_id,
        action=row.action,
        subject=row.subject,
        effect=row.effect,
        created_at=row.created_at,
        place=Place(*(getattr(row, name) for name in PLACE)),
    )
    return StoredEntry(
        number=row.number,
        entry=entry,
        pseudonym=row.pseudonym,
        owner_pseudonym=row.owner_pseudonym,
        erased=row.erased_at is not None,
    )


# -- erasing -------------------------------------------------------------------------------------


async def erase_of(tx: Transaction, owner: str, now: datetime) -> bool:
    """Erase the texts of entries about a user, up to `BATCH`; True if there may be more.

    Waits for the sealer: a deletion that skips an entry never comes back to it.
    """
    return await _erase(tx, [audit.c.owner_id == owner], now, skip_locked=False)


async def erase_before(tx: Transaction, moment: datetime, now: datetime) -> bool:
    """Erase the texts of entries older than `moment`, up to `BATCH`; True if there may be more."""
    old = [audit.c.created_at < moment, *await holds.free(tx, audit)]
    return await _erase(tx, old, now, skip_locked=True)


async def _erase(
    tx: Transaction, conditions: Sequence[ColumnElement[bool]], now: datetime, *, skip_locked: bool
) -> bool:
    batch = select(audit.c.id, audit.c.number).where(audit.c.erased_at.is_(None), *conditions)
    # Rows are locked in the order of the sealer, so that neither waits for the other in a circle.
    batch = batch.order_by(audit.c.created_at, audit.c.id).limit(BATCH)
    rows = (await tx.execute(batch.with_for_update(skip_locked=skip_locked))).all()
    # The sealer hashes the text of an entry before it erases it.
    for sealed in (True, False):
        ids = [row.id for row in rows if (row.number is not None) is sealed]
        if ids:
            values = ERASED if sealed else {}
            await change(tx, audit, audit.c.id.in_(ids), erased_at=now, **values)
    return len(rows) == BATCH
