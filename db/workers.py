"""Queries on worker processes, and on the audit log."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, text, update

from bot.values import new_sortable_id
from db.database import Transaction
from db.tables import audit, workers
from db.types import UtcDateTime
from db.upsert import insert_into

TAKE_OVER_LOCK = 0x5EC1_0E03


def time_of(tx: Transaction, *, ago: timedelta = timedelta(0)) -> ColumnElement[Any]:
    """Return the time by the database's clock, which is the same for all processes."""
    seconds = ago.total_seconds()
    if tx.dialect.name == "postgresql":
        now = func.clock_timestamp(type_=UtcDateTime())
        return now - func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    # In the stored form of times, so that they compare as texts.
    form, past = "%Y-%m-%d %H:%M:%f000", f"-{seconds:.3f} seconds"
    return func.strftime(form, "now", past, type_=UtcDateTime())


async def start(tx: Transaction, worker_id: str, platforms: list[str]) -> None:
    """Store a process that has just started."""
    now = time_of(tx)
    row = insert(workers).values(id=worker_id, platforms=platforms, started_at=now, beat_at=now)
    await tx.execute(row)


async def beat(tx: Transaction, worker_id: str) -> bool:
    """Store a heartbeat; `False` if the process was deleted and must be stored again."""
    this = workers.c.id == worker_id
    return (await tx.execute(update(workers).where(this).values(beat_at=time_of(tx)))).rowcount > 0


async def leave(tx: Transaction, worker_id: str) -> None:
    """Record that a process was asked to end: its end is no crash."""
    this = workers.c.id == worker_id
    await tx.execute(update(workers).where(this).values(leaving_at=time_of(tx)))


async def stop(tx: Transaction, worker_id: str) -> None:
    """Record that a process ended in good order."""
    now = time_of(tx)
    this = workers.c.id == worker_id
    await tx.execute(update(workers).where(this).values(stopped_at=now, beat_at=now))


async def end_platform(tx: Transaction, worker_id: str, platform: str, reason: str) -> None:
    """Record that a process does not serve a platform any more, with the reason."""
    this = workers.c.id == worker_id
    ended = await tx.scalar(select(workers.c.ended_platforms).where(this).with_for_update())
    changed = {**(ended or {}), platform: reason}
    await tx.execute(update(workers).where(this).values(ended_platforms=changed))


async def ended_platforms(tx: Transaction, within: timedelta) -> dict[str, str]:
    """Return the reasons why platforms have ended, by platform.

    Args:
        tx: The transaction.
        within: Processes with a heartbeat within this time count, and for each platform the one
            that started last.
    """
    here = set(await alive(tx, within))
    newest: dict[str, str] = {}
    living: dict[str, str] = {}
    for row in await tx.execute(select(workers).order_by(workers.c.started_at)):
        ended: dict[str, str] = row.ended_platforms or {}
        newest |= dict.fromkeys(row.platforms, "") | ended
        living |= ended if row.id in here else {}
    return {name: reason for name, reason in (newest | living).items() if reason}


async def try_take_over_lock(tx: Transaction) -> bool:
    """Return True for only one process at a time: the lock for takeovers, held until the commit."""
    if tx.dialect.name != "postgresql":
        return True
    return bool(
        await tx.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": TAKE_OVER_LOCK})
    )


async def alive(tx: Transaction, within: timedelta) -> list[str]:
    """Return the processes with a heartbeat within this time that have not stopped."""
    heard = workers.c.beat_at >= time_of(tx, ago=within)
    return list(await tx.scalars(select(workers.c.id).where(heard, workers.c.stopped_at.is_(None))))


async def last_seen(tx: Transaction) -> dict[str, datetime]:
    """Return the time of the last heartbeat of each known process."""
    rows = await tx.execute(select(workers.c.id, workers.c.beat_at))
    return {row.id: row.beat_at for row in rows}


async def forget(tx: Transaction, silent_for: timedelta) -> None:
    """Delete processes without a heartbeat for this long."""
    await tx.execute(delete(workers).where(workers.c.beat_at < time_of(tx, ago=silent_for)))


async def note(
    tx: Transaction,
    *,
    user_id: str,
    action: str,
    subject: str,
    detail: str,
    now: datetime,
    note_id: str = "",
) -> None:
    """Record an admin's action on another user's run in the audit log, once per given `note_id`."""
    row = {
        "id": note_id or new_sortable_id(),
        "user_id": user_id,
        "action": action,
        "subject": subject,
        "detail": detail,
        "created_at": now,
    }
    await tx.execute(insert_into(tx, audit).on_conflict_do_nothing(), row)
