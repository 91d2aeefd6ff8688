"""The chain of hashes that seals the audit log.

A sealer numbers the entries soon after they are written and chains them: each has a keyed hash of
its text, and a keyed hash of its number, time, action, pseudonyms, hash of the text, and the chain
so far. The key is outside the database, so whoever can only write to the database cannot forge the
chain.
"""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, func, select, text, update

from bot.values import Json
from db.audit import BATCH, ERASED
from db.database import Transaction
from db.rows import PLACE, change
from db.tables import audit

#: Held by the one process that seals.
SEAL_LOCK = 0x5EC1_0E07
#: Most time between an entry and an older one that is sealed after it: long transactions and the
#: clocks of several machines account for less.
LATEST = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class AuditKey:
    """A secret key that seals entries, and names accounts by pseudonyms."""

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """A public name of the key."""
        return self._mac("key", "")[:16]

    def pseudonym(self, account: str) -> str:
        """Return the pseudonym of an account; empty for an empty key of an account."""
        return self._mac("account", account)[:24] if account else ""

    def text_hash(self, row: Row[Any]) -> str:
        """Return the hash of the text of an entry, which nobody can guess without the key."""
        text_ = [row.id, row.user_id, row.owner_id, row.subject, row.effect]
        return self._mac("text", [*text_, *(getattr(row, name) for name in PLACE)])

    def chain_hash(self, before: str, link: Sequence[object]) -> str:
        """Return the hash of a link of the chain."""
        return self._mac("chain", [before, *link])

    def _mac(self, purpose: str, content: object) -> str:
        document = json.dumps([purpose, content], ensure_ascii=False, separators=(",", ":"))
        return hmac.new(self.secret, document.encode(), hashlib.sha256).hexdigest()


#: The columns that the sealer sets and that are part of a link.
_SEALED = ("number", "pseudonym", "owner_pseudonym", "key_id", "text_hash")


def _link(row: Row[Any], sealed: Json) -> list[object]:
    """Return the parts of a link of the chain, apart from the chain so far."""
    return [row.created_at.isoformat(), row.action, *(sealed[name] for name in _SEALED)]


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain: its newest number and hash, and the id of the key; 0 and empty if none.

    Whoever has noted it can prove later that the chain up to there was not replaced.
    """

    number: int = 0
    chain_hash: str = ""
    key_id: str = ""

    def __str__(self) -> str:
        """Return the number and the hash."""
        return f"{self.number}:{self.chain_hash}"


async def head(tx: Transaction) -> Head:
    """Return the end of the chain."""
    columns = (audit.c.number, audit.c.chain_hash, audit.c.key_id)
    query = select(*columns).where(audit.c.number.is_not(None)).order_by(audit.c.number.desc())
    row = (await tx.execute(query.limit(1))).first()
    return Head(*row) if row else Head()


@dataclass(frozen=True, slots=True)
class Sealed:
    """The entries that were sealed.

    Attributes:
        count: Their number.
        other_key: The id of the other key with which the entry before them was sealed; empty if
            the key is the same.
        more: Whether there may be more to seal.
    """

    count: int = 0
    other_key: str = ""
    more: bool = False


async def has_unsealed(tx: Transaction) -> bool:
    """Return True if an entry is not sealed yet."""
    return await tx.scalar(select(audit.c.id).where(audit.c.number.is_(None)).limit(1)) is not None


async def seal(tx: Transaction, key: AuditKey) -> Sealed:
    """Number and chain the entries that are not sealed yet, oldest first, up to `BATCH`.

    Nothing is sealed while another process does so.
    """
    if tx.dialect.name == "postgresql":
        query = text("SELECT pg_try_advisory_xact_lock(:key)")
        if not await tx.scalar(query, {"key": SEAL_LOCK}):
            return Sealed()
    order = (audit.c.created_at, audit.c.id)
    unsealed = select(audit).where(audit.c.number.is_(None)).order_by(*order).limit(BATCH)
    rows = (await tx.execute(unsealed.with_for_update())).all()
    if not rows:
        return Sealed()
    end, key_id = await head(tx), key.id
    other = end.key_id if end.key_id not in {"", key_id} else ""
    number, before, sealed, erased = end.number, end.chain_hash, list[Json](), list[str]()
    for row in rows:
        number += 1
        values: Json = {
            "number": number,
            "pseudonym": key.pseudonym(row.user_id),
            "owner_pseudonym": key.pseudonym(row.owner_id),
            "key_id": key_id,
            "text_hash": key.text_hash(row),
        }
        before = key.chain_hash(before, _link(row, values))
        sealed.append({"b_id": row.id, **values, "chain_hash": before})
        if row.erased_at is not None:
            erased.append(row.id)
    await tx.execute(_SEAL, sealed)
    if erased:
        await change(tx, audit, audit.c.id.in_(erased), **ERASED)
    return Sealed(len(rows), other, len(rows) == BATCH)


# Executed with the columns to set, beside the id.
_SEAL = update(audit).where(audit.c.id == bindparam("b_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of a verification.

    Attributes:
        entries: The number of sealed entries that were checked.
        erased: Those of them whose text was erased.
        unknown: Those of them whose key is not known, so that only their numbers were checked.
        late: Those of them that give an earlier time than an entry before them, by more than
            `LATEST`: they were added later than they say.
        unsealed: The number of entries that are not sealed yet.
        first_bad: The number of the first entry that is wrong; `None` if none is.
        problem: The reason why it is wrong; empty if none is.
        end: The end of the chain.
        noted: Whether the head that was noted is in the chain; `None` without one.
    """

    entries: int
    erased: int
    unknown: int
    late: int
    unsealed: int
    first_bad: int | None
    problem: str
    end: Head
    noted: bool | None


CHANGED = "its text was changed"
BROKEN = "it does not follow from the entries before it: it, or one before it, was changed"
MISSING = "an entry is missing before it"
FORGED = "the numbers of sealed entries begin with 1"


async def verify(
    tx: Transaction, keys: Iterable[AuditKey], *, noted: tuple[int, str] | None = None
) -> Verification:
    """Check the whole chain, in one ordered scan.

    Args:
        tx: The transaction: a snapshot.
        keys: The known keys.
        noted: The number and hash of a head that was noted before.
    """
    known = {key.id: key for key in keys}
    entries = erased = unknown = late = 0
    end, found = Head(), None if noted is None else False
    newest: datetime | None = None
    first_bad, problem = None, ""
    async for row in _in_order(tx):
        key = known.get(row.key_id)
        entries, erased = entries + 1, erased + (row.erased_at is not None)
        if key is None:
            unknown += 1
        newest = max(newest or row.created_at, row.created_at)
        late += newest - row.created_at > LATEST
        problem = _problem(row, end, key)
        if problem:
            first_bad = row.number
            break
        end = Head(row.number, row.chain_hash, row.key_id)
        if noted == (end.number, end.chain_hash):
            found = True
    query = select(func.count()).where(audit.c.number.is_(None))
    return Verification(
        entries=entries,
        erased=erased,
        unknown=unknown,
        late=late,
        unsealed=await tx.scalar(query) or 0,
        first_bad=first_bad,
        problem=problem,
        end=end,
        noted=found,
    )


def _problem(row: Row[Any], end: Head, key: AuditKey | None) -> str:
    """Return the reason why a row does not follow the chain so far; empty if it does."""
    if row.number != end.number + 1:
        return FORGED if row.number < 1 else MISSING
    if key is None:
        return ""
    sealed = {name: getattr(row, name) for name in _SEALED}
    chained = key.chain_hash(end.chain_hash, _link(row, sealed))
    if not hmac.compare_digest(chained, row.chain_hash):
        return BROKEN
    if row.erased_at is not None:
        return "" if all(getattr(row, name) == left for name, left in ERASED.items()) else CHANGED
    return "" if hmac.compare_digest(key.text_hash(row), row.text_hash) else CHANGED


async def _in_order(tx: Transaction) -> AsyncIterator[Row[Any]]:
    """Yield the sealed rows by their numbers, some at a time."""
    query = select(audit).order_by(audit.c.number).limit(BATCH)
    # A number below the first is an entry that the sealer has not numbered.
    rest = audit.c.number.is_not(None)
    while True:
        rows = (await tx.execute(query.where(rest))).all()
        for row in rows:
            yield row
        if len(rows) < BATCH:
            return
        # On SQLite nothing above yields to other tasks.
        await asyncio.sleep(0)
        rest = audit.c.number > rows[-1].number
