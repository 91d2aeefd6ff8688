"""Queries that admit runs: count, decide and insert within one `Database.admission`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, case, func, insert, select, update

from bot.values import HOLDING_A_SLOT, UNFINISHED, WAITING, Json, RunStatus
from db.database import Transaction
from db.runs import COLUMNS, RUNS, Run
from db.tables import subagent_runs, users

_UNFINISHED = [str(status) for status in UNFINISHED]
_HOLDING = [str(status) for status in HOLDING_A_SLOT]

runs = subagent_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of runs, counted inside the transaction that decides on admission."""

    started_in_window: int
    oldest_in_window: datetime | None
    running: int
    queued: int
    running_global: int


# Statements of the hot path are built once: building one costs more than running it.
_MINE = runs.c.user_id == bindparam("b_user")
_HOLDS = runs.c.status.in_(_HOLDING)
_WAITS = runs.c.status == "queued"
_GOING_ON = select(
    func.count(case((and_(_MINE, _HOLDS), 1))),
    func.count(case((and_(_MINE, _WAITS), 1))),
    func.count(case((_HOLDS, 1))),
).where(runs.c.status.in_(_UNFINISHED))
_IN_WINDOW = select(func.count(), func.min(runs.c.created_at)).where(
    _MINE, runs.c.created_at > bindparam("b_since"), runs.c.mode == bindparam("b_mode")
)
_NEXT_NUMBER = (
    update(users)
    .where(users.c.id == bindparam("b_user"))
    .values(run_counter=users.c.run_counter + 1)
    .returning(users.c.run_counter)
)
_NEXT_NUMBER_ADMITTED = _NEXT_NUMBER.values(last_admitted_at=bindparam("b_now"))
_INSERT = insert(runs).returning(*COLUMNS)
_SAME = (
    "user_id", "batch_id", "mode", "agent", "task", "context", "label", "instructions", "provider",
    "model",
)  # fmt: skip
_IDENTICAL = select(*COLUMNS).where(
    runs.c.status.in_(_UNFINISHED), *(runs.c[name] == bindparam(f"b_{name}") for name in _SAME)
)
_ONE_WAITS = select(runs.c.id).where(_WAITS).limit(1)
_TURN = (
    users.c.last_admitted_at.is_not(None),
    users.c.last_admitted_at,
    runs.c.created_at,
    runs.c.number,
)
#: Runs that wait only for a slot: their user has answered.
_READY = runs.c.status.in_([str(status) for status in WAITING]) & runs.c.ready_at.is_not(None)
_ONE_IS_READY = select(runs.c.id).where(_READY).limit(1)


async def counts(
    tx: Transaction, user_id: str, window_start: datetime, *, mode: str = "async"
) -> Counts:
    """Count the runs that the limits refer to, inside `Database.admission`.

    Args:
        tx: The transaction that decides.
        user_id: The owner of the runs.
        window_start: The beginning of the rate window.
        mode: The runs that the rate limit counts: `async`, or `sync` for delegated tasks.
    """
    going = await tx.execute(_GOING_ON, {"b_user": user_id})
    running, queued, running_global = going.one()
    window = await tx.execute(
        _IN_WINDOW, {"b_user": user_id, "b_since": window_start, "b_mode": mode}
    )
    started, oldest = window.one()
    return Counts(
        started_in_window=started,
        oldest_in_window=oldest,
        running=running,
        queued=queued,
        running_global=running_global,
    )


async def insert_run(tx: Transaction, values: Json, now: datetime) -> Run:
    """Insert a run under the next number of its owner."""
    numbered: Json = {"b_user": values["user_id"]}
    statement = _NEXT_NUMBER
    if values["status"] != RunStatus.QUEUED:
        statement, numbered = _NEXT_NUMBER_ADMITTED, numbered | {"b_now": now}
    number = await tx.scalar(statement, numbered)
    row = values | {"number": number, "created_at": now, "updated_at": now}
    return RUNS.of((await tx.execute(_INSERT, row)).one())


async def _mark_admitted(tx: Transaction, user_id: str, now: datetime) -> None:
    await tx.execute(update(users).where(users.c.id == user_id).values(last_admitted_at=now))


async def promote(tx: Transaction, *, per_user: int, everyone: int, now: datetime) -> list[Run]:
    """Assign free slots, and return the runs that got one.

    Runs that waited for their user and are ready come first, and become `running`. Queued runs
    follow: for one user the oldest first; between users, the one admitted longest ago first.
    """
    promoted = await _bring_back(tx, per_user, everyone, now)
    if await tx.scalar(_ONE_WAITS) is None:
        return promoted
    while run_id := await _next(tx, _WAITS, _TURN, per_user, everyone):
        result = await tx.execute(
            update(runs)
            .where(runs.c.id == run_id)
            .values(status="accepted", updated_at=now)
            .returning(*COLUMNS)
        )
        run = RUNS.of(result.one())
        # Each a little later than the one before: runs admitted together would otherwise tie.
        await _mark_admitted(tx, run.user_id, now + timedelta(microseconds=len(promoted)))
        promoted.append(run)
    return promoted


async def _bring_back(tx: Transaction, per_user: int, everyone: int, now: datetime) -> list[Run]:
    """Resume runs that waited for their user, in the order of the answers."""
    back: list[Run] = []
    if await tx.scalar(_ONE_IS_READY) is None:
        return back
    while run_id := await _next(tx, _READY, (runs.c.ready_at, runs.c.id), per_user, everyone):
        result = await tx.execute(
            update(runs)
            .where(runs.c.id == run_id)
            .values(status="running", ready_at=None, updated_at=now)
            .returning(*COLUMNS)
        )
        back.append(RUNS.of(result.one()))
    return back


async def _next(
    tx: Transaction,
    who: ColumnElement[bool],
    order: Sequence[ColumnElement[Any]],
    per_user: int,
    everyone: int,
) -> str | None:
    """Return the first run that meets a condition and has a free slot."""
    holding = (
        select(runs.c.user_id, func.count().label("held"))
        .where(runs.c.status.in_(_HOLDING))
        .group_by(runs.c.user_id)
        .subquery()
    )
    total = await tx.scalar(select(func.count()).where(runs.c.status.in_(_HOLDING))) or 0
    if total >= everyone:
        return None
    found: str | None = await tx.scalar(
        select(runs.c.id)
        .join(users, users.c.id == runs.c.user_id)
        .outerjoin(holding, holding.c.user_id == runs.c.user_id)
        .where(who, func.coalesce(holding.c.held, 0) < per_user)
        .order_by(*order)
        .limit(1)
    )
    return found


async def identical_in_batch(tx: Transaction, values: Json) -> Run | None:
    """Return an unfinished run that the same turn requested with the same task."""
    if not values["batch_id"]:
        return None
    return await RUNS.first(tx, _IDENTICAL, {f"b_{name}": values[name] for name in _SAME})


async def queue_position(tx: Transaction, run: Run) -> int:
    """Return the position of a run among the queued runs of its user, from 1."""
    before = await tx.scalar(
        select(func.count()).where(
            runs.c.status == "queued", runs.c.user_id == run.user_id, runs.c.number < run.number
        )
    )
    return (before or 0) + 1


async def tokens_since(tx: Transaction, user_id: str, since: datetime) -> tuple[int, int, int]:
    """Return (tokens, weighted tokens, runs) of the runs that a user started since a time."""
    row = await tx.execute(
        select(
            func.coalesce(func.sum(runs.c.input_tokens + runs.c.output_tokens), 0),
            func.coalesce(func.sum(runs.c.discounted_tokens), 0),
            func.count(),
        ).where(runs.c.user_id == user_id, runs.c.created_at > since)
    )
    tokens, discounted, number = row.one()
    return int(tokens), int(tokens - discounted), int(number)


async def admitted_sync(tx: Transaction) -> list[Run]:
    """Return delegated tasks that are admitted and have not begun."""
    admitted = (runs.c.status == "accepted", runs.c.mode == "sync")
    return await RUNS.all(tx, select(*COLUMNS).where(*admitted).limit(100))
