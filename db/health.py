"""Queries on the state of a bot: its queue, its processes and what went wrong lately."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Table, func, select, text

from bot.values import OPEN_TURN, RunStatus
from db import workers as worker_queries
from db.database import Transaction
from db.rows import RowMapper
from db.tables import outbox, subagent_runs, turns, workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process with a recent heartbeat.

    Attributes:
        configuration: The fingerprint of its configuration; empty if it is unknown.
        version: The version of the bot that it runs; empty if it is unknown.
        leaving: It was asked to end.
    """

    id: str
    platforms: tuple[str, ...]
    started_at: datetime
    configuration: str
    version: str
    leaving: bool


_WORKERS = RowMapper(
    Worker,
    workers,
    others={"leaving": workers.c.leaving_at.is_not(None)},
    convert={"platforms": tuple},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of turns, runs and deliveries.

    Attributes:
        runs: The number of runs by their status, of the unfinished and of those that ended lately.
        blocked: Deliveries that have failed for good.
        pending: Deliveries that are due or wait for their user.
    """

    queued_turns: int
    running_turns: int
    runs: dict[RunStatus, int]
    blocked: int
    pending: int


async def counts(tx: Transaction, since: datetime) -> Counts:
    """Return the numbers of now, and of runs that ended since a time."""
    answering = await _by_status(tx, turns, turns.c.status.in_(OPEN_TURN))
    recent = subagent_runs.c.completed_at.is_(None) | (subagent_runs.c.completed_at > since)
    by_status = await _by_status(tx, subagent_runs, recent)
    undelivered = outbox.c.status.in_(("blocked", "pending", "sending", "waiting"))
    deliveries = await _by_status(tx, outbox, undelivered)
    return Counts(
        queued_turns=answering.get("queued", 0),
        running_turns=answering.get("running", 0),
        runs={RunStatus(status): number for status, number in by_status.items()},
        blocked=deliveries.pop("blocked", 0),
        pending=sum(deliveries.values()),
    )


async def _by_status(
    tx: Transaction, table: Table, condition: ColumnElement[bool]
) -> dict[str, int]:
    query = select(table.c.status, func.count()).where(condition).group_by(table.c.status)
    return dict((await tx.execute(query)).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The work of the whole system that is not over.

    Attributes:
        turns: The number of turns by status.
        runs: The number of runs by status.
        outbox: The number of deliveries: `pending` (also those under way or waiting), `blocked`.
        ages: Seconds since the oldest `turn`, `run` or `delivery` could have begun; 0 for none.
    """

    turns: dict[str, int]
    runs: dict[RunStatus, int]
    outbox: dict[str, int]
    ages: dict[str, float]


async def backlog(tx: Transaction, now: datetime) -> Backlog:
    """Return the work that is not over now.

    A turn could begin if no other turn of its conversation runs; a delivery if it is due.
    """
    found = await counts(tx, now)
    busy = select(turns.c.conversation_id).where(turns.c.status == "running")
    oldest = {
        "turn": select(func.min(turns.c.created_at)).where(
            turns.c.status == "queued",
            turns.c.conversation_id.not_in(busy),
            turns.c.held_until.is_(None) | (turns.c.held_until <= now),
        ),
        "run": select(func.min(subagent_runs.c.created_at)).where(
            subagent_runs.c.status == RunStatus.QUEUED
        ),
        "delivery": select(func.min(outbox.c.due_at)).where(
            outbox.c.status == "pending", outbox.c.due_at <= now
        ),
    }
    ages = {}
    for kind, query in oldest.items():
        since = await tx.scalar(query)
        ages[kind] = max(0.0, (now - since).total_seconds()) if since else 0.0
    return Backlog(
        turns={"queued": found.queued_turns, "running": found.running_turns},
        runs=found.runs,
        outbox={"pending": found.pending, "blocked": found.blocked},
        ages=ages,
    )


async def processes(tx: Transaction, within: timedelta) -> list[Worker]:
    """Return the processes with a heartbeat within this time, the oldest first."""
    alive = await worker_queries.alive(tx, within)
    return await _WORKERS.find_all(tx, workers.c.id.in_(alive), order=[workers.c.started_at])


async def server_version(tx: Transaction) -> str:
    """Return the name and version of the database."""
    if tx.dialect.name == "sqlite":
        return f"SQLite {await tx.scalar(text('SELECT sqlite_version()'))}"
    return f"PostgreSQL {await tx.scalar(text('SHOW server_version'))}"
