"""Queries on worker processes, their crashes and connections."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Table, func, insert, or_, select, text

from db.database import Transaction
from db.rows import change, count_rows, has_row, put_row, remove
from db.tables import listeners, subagent_runs, turns, workers
from db.types import UtcDateTime

TAKE_OVER_LOCK, CONFIGURATION_LOCK = 0x5EC1_0E03, 0x5EC1_0E04


def time_of(tx: Transaction, *, ago: timedelta = timedelta(0)) -> ColumnElement[Any]:
    """Return the time by the database's clock, which is the same for all processes."""
    seconds = ago.total_seconds()
    if tx.dialect.name == "postgresql":
        now = func.clock_timestamp(type_=UtcDateTime())
        return now - func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    # In the stored form of times, so that they compare as texts.
    form, past = "%Y-%m-%d %H:%M:%f000", f"-{seconds:.3f} seconds"
    return func.strftime(form, "now", past, type_=UtcDateTime())


async def start(
    tx: Transaction,
    worker_id: str,
    platforms: list[str],
    configuration: str = "",
    *,
    version: str = "",
) -> None:
    """Store a process that has just started, with its configuration's fingerprint and version.

    It waits for a takeover in progress, whose list of live processes would not name it.
    """
    if tx.dialect.name == "postgresql":
        lock = text("SELECT pg_advisory_xact_lock_shared(:key)")
        await tx.execute(lock, {"key": TAKE_OVER_LOCK})
    now = time_of(tx)
    row = {"id": worker_id, "platforms": platforms}
    row |= {"configuration": configuration, "version": version}
    await tx.execute(insert(workers).values(row | {"started_at": now, "heartbeat_at": now}))


async def newest_configuration(tx: Transaction) -> str:
    """Return the fingerprint of the configuration in the process that started last; or nothing."""
    query = select(workers.c.configuration).order_by(workers.c.started_at.desc()).limit(1)
    return await tx.scalar(query) or ""


async def heartbeat(tx: Transaction, worker_id: str) -> bool:
    """Store a heartbeat; `False` if the process was deleted and must be stored again."""
    return await change(tx, workers, workers.c.id == worker_id, heartbeat_at=time_of(tx))


async def leave(tx: Transaction, worker_id: str) -> None:
    """Record that a process was asked to end: its end is no crash."""
    await change(tx, workers, workers.c.id == worker_id, leaving_at=time_of(tx))


async def stop(tx: Transaction, worker_id: str) -> None:
    """Record that a process ended in good order."""
    now = time_of(tx)
    await change(tx, workers, workers.c.id == worker_id, stopped_at=now, heartbeat_at=now)


async def end_platform(tx: Transaction, worker_id: str, platform: str, reason: str) -> None:
    """Record that a process does not serve a platform any more, with the reason."""
    this = workers.c.id == worker_id
    ended = await tx.scalar(select(workers.c.ended_platforms).where(this).with_for_update())
    changed = {**(ended or {}), platform: reason}
    await change(tx, workers, this, ended_platforms=changed)


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


async def read_configuration(
    tx: Transaction, worker_id: str, *, configuration: str, file: str, within: timedelta
) -> bool:
    """Record that a process has read its configuration file again.

    Args:
        tx: The transaction.
        worker_id: The process.
        configuration: The fingerprint of the configuration in force there now.
        file: The hash of the file, which may be invalid.
        within: Other processes with a heartbeat within this time count.

    Returns:
        True if no other process has read this content before, so that this one reports it.
    """
    if tx.dialect.name == "postgresql":
        await tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": CONFIGURATION_LOCK})
    others = set(await alive(tx, within)) - {worker_id}
    query = select(workers.c.id).where(workers.c.configuration_file == file)
    read = others & set(await tx.scalars(query))
    mine = workers.c.id == worker_id
    await change(tx, workers, mine, configuration=configuration, configuration_file=file)
    return not read


async def try_take_over_lock(tx: Transaction) -> bool:
    """Return True for only one process at a time: the lock for takeovers, held until the commit."""
    if tx.dialect.name != "postgresql":
        return True
    return bool(
        await tx.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": TAKE_OVER_LOCK})
    )


async def alive(tx: Transaction, within: timedelta) -> list[str]:
    """Return the processes with a heartbeat within this time that have not stopped."""
    recent = workers.c.heartbeat_at >= time_of(tx, ago=within)
    query = select(workers.c.id).where(recent, workers.c.stopped_at.is_(None))
    return list(await tx.scalars(query))


async def died_lately(tx: Transaction, silent_for: timedelta, within: timedelta) -> bool:
    """Return True if a process has become silent for this long, within this time before now."""
    died = workers.c.heartbeat_at.between(
        time_of(tx, ago=silent_for + within), time_of(tx, ago=silent_for)
    )
    return await has_row(tx, workers, died, workers.c.stopped_at.is_(None))


async def last_seen(tx: Transaction) -> dict[str, datetime]:
    """Return the time of the last heartbeat of each known process."""
    rows = await tx.execute(select(workers.c.id, workers.c.heartbeat_at))
    return {row.id: row.heartbeat_at for row in rows}


async def forget(tx: Transaction, silent_for: timedelta) -> None:
    """Delete processes without a heartbeat for this long."""
    await remove(tx, workers, workers.c.heartbeat_at < time_of(tx, ago=silent_for))


async def count_crashes(tx: Transaction, alive: Sequence[str]) -> int:
    """Count each new crash against the work that its process started last; return their number.

    A process that ended in good order, or was asked to end, has not crashed, even if it left work.
    """
    dead = list(
        await tx.scalars(
            select(workers.c.id).where(
                workers.c.id.not_in(alive),
                workers.c.stopped_at.is_(None),
                workers.c.leaving_at.is_(None),
                or_(workers.c.crashed_at.is_(None), workers.c.crashed_at < workers.c.heartbeat_at),
            )
        )
    )
    for worker_id in dead:
        begun: list[tuple[datetime, str, Table]] = []
        for table in (subagent_runs, turns):
            mine = (table.c.status == "running", table.c.worker_id == worker_id)
            query = select(table.c.begun_at, table.c.id).where(*mine, table.c.begun_at.is_not(None))
            newest = await tx.execute(query.order_by(table.c.begun_at.desc()).limit(1))
            begun += [(row.begun_at, row.id, table) for row in newest]
        if begun:
            _, work_id, table = max(begun, key=lambda each: each[0])
            await change(tx, table, table.c.id == work_id, crashes=table.c.crashes + 1)
    if dead:
        await change(tx, workers, workers.c.id.in_(dead), crashed_at=time_of(tx))
    return len(dead)


async def recent_crashes(tx: Transaction, within: timedelta) -> int:
    """Return the number of processes that crashed within this time."""
    crashed = workers.c.crashed_at >= time_of(tx, ago=within)
    return await count_rows(tx, workers, crashed)


async def mark_listener(tx: Transaction, name: str, now: datetime) -> None:
    """Record that a platform connection is receiving events now."""
    await put_row(tx, listeners, {"name": name, "last_event_at": now})


async def last_event_at(tx: Transaction, name: str) -> datetime | None:
    """Return the last time a platform connection was receiving events; `None` if never."""
    query = select(listeners.c.last_event_at).where(listeners.c.name == name)
    found: datetime | None = await tx.scalar(query)
    return found
