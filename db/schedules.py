"""Queries on schedules and their fires."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any

from sqlalchemy import Row, Select, func, insert, or_, select, update

from bot.values import UNFINISHED, Place, RunStatus
from db.database import Transaction
from db.pauses import Pause, covering
from db.rows import RowMapper, change, insert_new
from db.tables import outbox, schedule_fires, schedules, subagent_runs

ALIVE = ("active", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A task that a user wants done later.

    Attributes:
        number: The number by which the user refers to it.
        cron: Empty for a schedule that fires once.
        due_at: The next fire; `None` if it will not fire again.
        failures: Fires in a row whose runs did not complete.
    """

    id: str
    user_id: str
    place: Place
    number: int
    label: str
    task: str
    agent: str
    cron: str
    timezone: str
    status: str
    due_at: datetime | None
    failures: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """One firing of a schedule.

    Attributes:
        created_at: When it was claimed.
    """

    schedule: Schedule
    due_at: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedFire:
    """A fire whose run is over.

    Attributes:
        unheard: Whether the delivery of the run's result has failed.
    """

    fire: Fire
    status: RunStatus
    error: str
    unheard: bool


_SCHEDULES = RowMapper(Schedule, schedules)
_FIRE = [
    *_SCHEDULES.columns,
    schedule_fires.c.due_at.label("fire_due_at"),
    schedule_fires.c.created_at.label("fire_created_at"),
]


def _fire(row: Row[Any]) -> Fire:
    schedule = _SCHEDULES.of(row)
    return Fire(schedule=schedule, due_at=row.fire_due_at, created_at=row.fire_created_at)


# -- schedules of a user ---------------------------------------------------------------------------


async def add(tx: Transaction, schedule: Schedule) -> None:
    """Store a schedule; the caller has locked the user's row and read the number."""
    await tx.execute(insert(schedules), _SCHEDULES.values(schedule))


async def next_number(tx: Transaction, user: str) -> int:
    """Return the number of this user's next schedule."""
    newest = select(func.max(schedules.c.number)).where(schedules.c.user_id == user)
    return (await tx.scalar(newest) or 0) + 1


async def find(tx: Transaction, user: str, schedule_id: str) -> Schedule | None:
    """Return a user's schedule by its id."""
    return await _SCHEDULES.find_one(tx, schedules.c.user_id == user, schedules.c.id == schedule_id)


async def get(tx: Transaction, user: str, number: int) -> Schedule | None:
    """Return a user's schedule by its number."""
    return await _SCHEDULES.find_one(tx, schedules.c.user_id == user, schedules.c.number == number)


async def alive(tx: Transaction, user: str) -> list[Schedule]:
    """Return a user's schedules that are not over, oldest first."""
    mine = (schedules.c.user_id == user, schedules.c.status.in_(ALIVE))
    return await _SCHEDULES.find_all(tx, *mine, order=[schedules.c.number])


async def newest_zone(tx: Transaction, user: str) -> str:
    """Return the time zone of a user's newest schedule; empty without a schedule."""
    query = select(schedules.c.timezone).where(schedules.c.user_id == user)
    return await tx.scalar(query.order_by(schedules.c.number.desc()).limit(1)) or ""


async def cancel(tx: Transaction, schedule_id: str, now: datetime) -> bool:
    """Cancel a schedule; `False` if it is over."""
    return await _end(tx, schedule_id, "cancelled", now)


async def revive(tx: Transaction, schedule_id: str, status: str, due_at: datetime | None) -> bool:
    """Revive a cancelled schedule; `False` if it is not cancelled."""
    this = (schedules.c.id == schedule_id, schedules.c.status == "cancelled")
    return await change(tx, schedules, *this, status=status, due_at=due_at, ended_at=None)


async def pause(tx: Transaction, schedule_id: str) -> bool:
    """Pause a schedule; `False` if it is not active."""
    this = (schedules.c.id == schedule_id, schedules.c.status == "active")
    return await change(tx, schedules, *this, status="paused")


async def resume(tx: Transaction, schedule_id: str, due_at: datetime) -> bool:
    """Resume a paused schedule; `False` if it is not paused."""
    this = (schedules.c.id == schedule_id, schedules.c.status == "paused")
    return await change(tx, schedules, *this, status="active", due_at=due_at)


async def _end(tx: Transaction, schedule_id: str, status: str, now: datetime) -> bool:
    this = (schedules.c.id == schedule_id, schedules.c.status.in_(ALIVE))
    return await change(tx, schedules, *this, status=status, due_at=None, ended_at=now)


# -- due fires -------------------------------------------------------------------------------------


async def due(
    tx: Transaction,
    platforms: Sequence[str],
    now: datetime,
    *,
    limit: int = 100,
    paused: Sequence[Pause] = (),
) -> list[Schedule]:
    """Return the schedules on these platforms that are due, longest overdue first.

    Those in the scope of a pause are left out, so that they do not keep others from their turn.
    """
    active = (schedules.c.status == "active", schedules.c.channel.in_(platforms))
    due, found = schedules.c.due_at, list[Schedule]()
    query = _SCHEDULES.query.where(*active, due <= now).order_by(due, schedules.c.id).limit(limit)
    for page in count():
        read = await _SCHEDULES.all(tx, query.offset(page * limit))
        found += [each for each in read if not covering(paused, each.user_id, each.place)]
        if len(read) < limit or len(found) >= limit:
            break
    return found[:limit]


async def claim(
    tx: Transaction,
    schedule: Schedule,
    *,
    due_at: datetime,
    next_due: datetime | None,
    now: datetime,
) -> Fire | None:
    """Claim a fire, and advance the schedule; `None` if another process has claimed it.

    Args:
        tx: The transaction.
        schedule: As it was read.
        due_at: The time of the fire.
        next_due: The time of the next fire; `None` when the schedule is done.
        now: The time.
    """
    over = {"status": "done", "ended_at": now} if next_due is None else {}
    this = (
        schedules.c.id == schedule.id,
        schedules.c.status == "active",
        schedules.c.due_at == schedule.due_at,
    )
    if not await change(tx, schedules, *this, due_at=next_due, **over):
        return None
    fire = {"schedule_id": schedule.id, "due_at": due_at, "created_at": now}
    if not await insert_new(tx, schedule_fires, fire):
        return None
    return Fire(schedule=replace(schedule, due_at=next_due), due_at=due_at, created_at=now)


async def left_behind(
    tx: Transaction, platforms: Sequence[str], before: datetime, *, limit: int = 100
) -> list[Fire]:
    """Return fires that were claimed before a time and have no outcome, oldest first."""
    query = (
        select(*_FIRE)
        .join(schedules, schedules.c.id == schedule_fires.c.schedule_id)
        .where(
            schedule_fires.c.status == "claimed",
            schedule_fires.c.created_at < before,
            schedules.c.channel.in_(platforms),
        )
        .order_by(schedule_fires.c.created_at)
        .limit(limit)
    )
    return [_fire(row) for row in await tx.execute(query)]


async def close(tx: Transaction, fire: Fire, status: str, run_id: str | None = None) -> bool:
    """Store the outcome of a fire; `False` if another process has stored one."""
    return await _move(tx, fire, "claimed", status, run_id=run_id)


async def book(tx: Transaction, fire: Fire) -> bool:
    """Record that the outcome of a fire's run is counted; `False` if it was before."""
    return await _move(tx, fire, "started", "counted")


async def _move(tx: Transaction, fire: Fire, old: str, new: str, **values: Any) -> bool:
    this = (
        schedule_fires.c.schedule_id == fire.schedule.id,
        schedule_fires.c.due_at == fire.due_at,
        schedule_fires.c.status == old,
    )
    return await change(tx, schedule_fires, *this, status=new, **values)


# -- outcomes --------------------------------------------------------------------------------------


async def ended(tx: Transaction, *, limit: int = 100) -> list[EndedFire]:
    """Return uncounted fires whose runs are over and announced, oldest first."""
    runs = subagent_runs
    told = outbox.c.status.not_in(("held", "pending", "sending"))
    query: Select[Any] = (
        select(*_FIRE, runs.c.status.label("came_to"), runs.c.error, outbox.c.status.label("said"))
        .join(schedules, schedules.c.id == schedule_fires.c.schedule_id)
        .join(runs, runs.c.id == schedule_fires.c.run_id)
        .outerjoin(outbox, outbox.c.run_id == runs.c.id)
        .where(
            schedule_fires.c.status == "started",
            runs.c.status.not_in(UNFINISHED),
            or_(outbox.c.status.is_(None), told),
        )
        .order_by(schedule_fires.c.due_at)
        .limit(limit)
    )
    return [
        EndedFire(
            fire=_fire(row),
            status=RunStatus(row.came_to),
            error=row.error or "",
            unheard=row.said == "blocked",
        )
        for row in await tx.execute(query)
    ]


async def succeeded(tx: Transaction, schedule_id: str) -> None:
    """Reset the count of failures."""
    this = (schedules.c.id == schedule_id, schedules.c.failures > 0)
    await change(tx, schedules, *this, failures=0)


async def failed(tx: Transaction, schedule_id: str, *, most: int, now: datetime) -> bool:
    """Count a failure, and return True if the schedule ended because of it."""
    failures = await tx.scalar(
        update(schedules)
        .where(schedules.c.id == schedule_id)
        .values(failures=schedules.c.failures + 1)
        .returning(schedules.c.failures)
    )
    return (failures or 0) >= most and await _end(tx, schedule_id, "failed", now)
