"""Queries on pools of tokens and money, and on the reservations of model calls.

Pools are locked in the order of their keys, so that no two transactions wait for each other.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import and_, bindparam, case, delete, or_, select, update

from bot.spending.amounts import PoolState
from db.database import Transaction
from db.rows import RowMapper, change, insert_into
from db.tables import pools, reservations
from db.types import UtcDateTime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPool:
    """A pool at the begin of its period.

    Attributes:
        used_tokens: What was used in the period before the pool existed.
        ends_at: When the pool may be deleted.
    """

    id: str
    used_tokens: int
    used_cost: int
    ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The most that a model call in progress can cost.

    Attributes:
        pools: The keys of the pools from which it is reserved.
        cost: Micro-dollars.
        worker_id: The process that makes the call.
        work_id: The turn or run that pays.
    """

    id: str
    pools: Sequence[str]
    tokens: int
    cost: int
    worker_id: str
    work_id: str
    created_at: datetime


_RESERVATIONS = RowMapper(Reservation, reservations)

# Statements of the hot path are built once: building one costs more than running it.
_NOW = bindparam("b_now", type_=UtcDateTime())
_RAISED = pools.c.extra_until > _NOW
_COLUMNS = (
    *(pools.c[name] for name in ("id", "used_tokens", "used_cost")),
    *(pools.c[name] for name in ("reserved_tokens", "reserved_cost")),
    case((_RAISED, pools.c.extra_tokens), else_=0).label("extra_tokens"),
    case((_RAISED, pools.c.extra_cost), else_=0).label("extra_cost"),
    pools.c.warned_at.is_not(None).label("warned"),
    pools.c.exhausted_at.is_not(None).label("exhausted"),
)
_THESE = pools.c.id.in_(bindparam("b_ids", expanding=True))
_READ = select(*_COLUMNS).where(_THESE).order_by(pools.c.id)
_LOCK = _READ.with_for_update()
_MOVE = (
    update(pools)
    .where(_THESE)
    .values(
        used_tokens=pools.c.used_tokens + bindparam("b_used_tokens"),
        used_cost=pools.c.used_cost + bindparam("b_used_cost"),
        reserved_tokens=pools.c.reserved_tokens + bindparam("b_reserved_tokens"),
        reserved_cost=pools.c.reserved_cost + bindparam("b_reserved_cost"),
    )
)
_RESERVED = (reservations.c.pools, reservations.c.tokens, reservations.c.cost)
_CLOSE = delete(reservations).where(reservations.c.id == bindparam("b_id")).returning(*_RESERVED)


async def read(tx: Transaction, ids: Sequence[str], now: datetime) -> dict[str, PoolState]:
    """Return the pools that exist, by their keys."""
    return _by_id(await tx.execute(_READ, {"b_ids": list(ids), "b_now": now}))


async def lock(tx: Transaction, ids: Sequence[str], now: datetime) -> dict[str, PoolState]:
    """Return the pools that exist, by their keys; no other transaction changes them now."""
    return _by_id(await tx.execute(_LOCK, {"b_ids": list(ids), "b_now": now}))


async def create(tx: Transaction, new: Sequence[NewPool]) -> None:
    """Store pools; those that exist already stay as they are."""
    rows = [
        {
            "id": each.id,
            "used_tokens": each.used_tokens,
            "used_cost": each.used_cost,
            "ends_at": each.ends_at,
        }
        for each in sorted(new, key=lambda each: each.id)
    ]
    await tx.execute(insert_into(tx, pools).on_conflict_do_nothing(), rows)


async def of_now(tx: Transaction, now: datetime) -> list[str]:
    """Return the keys of the pools whose periods have not ended."""
    return list(await tx.scalars(select(pools.c.id).where(pools.c.ends_at > now)))


async def forget(tx: Transaction, ids: Sequence[str]) -> int:
    """Delete pools from which no call in progress draws; return their number."""
    idle = (pools.c.reserved_tokens == 0, pools.c.reserved_cost == 0)
    found = select(pools.c.id).where(_THESE, *idle).order_by(pools.c.id).with_for_update()
    locked = list(await tx.scalars(found, {"b_ids": list(ids)}))
    await tx.execute(delete(pools).where(_THESE), {"b_ids": locked})
    return len(locked)


async def reserve(tx: Transaction, reservation: Reservation) -> None:
    """Store a reservation in its pools, which are locked."""
    amounts = {"reserved_tokens": reservation.tokens, "reserved_cost": reservation.cost}
    await _move(tx, reservation.pools, **amounts)
    await tx.execute(reservations.insert(), _RESERVATIONS.values(reservation))


async def settle(
    tx: Transaction, reservation_id: str, *, tokens: int, cost: int, now: datetime
) -> Mapping[str, PoolState]:
    """Replace a reservation by what was billed; return its pools as they are then.

    A reservation that was settled before changes nothing, and no pool is returned.
    """
    row = (await tx.execute(_CLOSE, {"b_id": reservation_id})).first()
    if row is None:
        return {}
    ids = sorted(row.pools)
    await lock(tx, ids, now)
    reserved = {"reserved_tokens": -row.tokens, "reserved_cost": -row.cost}
    await _move(tx, ids, used_tokens=tokens, used_cost=cost, **reserved)
    return await read(tx, ids, now)


async def settle_lost(tx: Transaction, alive: Collection[str], now: datetime) -> int:
    """Charge the reservations of processes that have died in full; return their number.

    The provider may have billed all of it.
    """
    lost = reservations.c.worker_id.not_in(list(alive))
    rows = (await tx.execute(delete(reservations).where(lost).returning(*_RESERVED))).all()
    if not rows:
        return 0
    await lock(tx, sorted({each for row in rows for each in row.pools}), now)
    for row in rows:
        reserved = {"reserved_tokens": -row.tokens, "reserved_cost": -row.cost}
        await _move(tx, row.pools, used_tokens=row.tokens, used_cost=row.cost, **reserved)
    return len(rows)


async def raise_limits(
    tx: Transaction, ids: Sequence[str], *, tokens: int, cost: int, until: datetime, now: datetime
) -> list[PoolState]:
    """Raise the limits of pools until a time, on top of earlier raises; return those raised.

    A pool whose period has ended is not raised. A limit that was raised can be reached, and
    reported, again.
    """
    before, raised = await lock(tx, ids, now), list[str]()
    for pool in before.values():
        if await change(
            tx,
            pools,
            pools.c.id == pool.id,
            pools.c.ends_at > now,
            extra_tokens=pool.extra_tokens + tokens,
            extra_cost=pool.extra_cost + cost,
            extra_until=until,
            warned_at=None,
            exhausted_at=None,
        ):
            raised.append(pool.id)
    return list((await read(tx, raised, now)).values())


async def mark(
    tx: Transaction, pool_id: str, what: Literal["warned_at", "exhausted_at"], now: datetime
) -> bool:
    """Record that a state of a pool was reported; `False` if it was recorded before.

    What was reported while an admin had raised the limit does not count after the raise.
    """
    column, until = pools.c[what], pools.c.extra_until
    is_new = or_(column.is_(None), and_(until <= now, column < until))
    return await change(tx, pools, pools.c.id == pool_id, is_new, **{what: now})


async def unmark(tx: Transaction, now: datetime) -> None:
    """Forget what was reported of the pools whose periods have not ended: limits have changed."""
    reported = or_(pools.c.warned_at.is_not(None), pools.c.exhausted_at.is_not(None))
    marked = select(pools.c.id).where(pools.c.ends_at > now, reported).order_by(pools.c.id)
    ids = list(await tx.scalars(marked.with_for_update()))
    unmarked = update(pools).where(_THESE).values(warned_at=None, exhausted_at=None)
    await tx.execute(unmarked, {"b_ids": ids})


async def _move(tx: Transaction, ids: Sequence[str], **amounts: int) -> None:
    names = ("used_tokens", "used_cost", "reserved_tokens", "reserved_cost")
    values = {f"b_{name}": amounts.get(name, 0) for name in names}
    await tx.execute(_MOVE, {"b_ids": list(ids), **values})


def _by_id(rows: Any) -> dict[str, PoolState]:
    return {row.id: PoolState(**{name: row[index] for index, name in _INDEXED}) for row in rows}


_INDEXED = tuple(enumerate(PoolState.__dataclass_fields__))
