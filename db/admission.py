"""Queries that admit runs: count, decide and insert within one `Database.admission`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Row,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    literal_column,
    select,
    true,
    update,
)

from bot.values import (
    HOLDING_A_SLOT,
    OPEN_TURN,
    UNFINISHED,
    WAITING,
    Json,
    Place,
    RunStatus,
    RunUsage,
    SlotCaps,
)
from db import pauses as pause_rules
from db.database import Transaction
from db.pauses import Pause
from db.rows import PLACE, change, count_rows, one_of
from db.runs import COLUMNS, NEW_RUNS, RUNS, NewRun, Run
from db.tables import pauses, run_messages, run_questions, turns, users
from db.tables import subagent_runs as runs

#: Key of a run's metadata: the most runs of its owner at once, if the owner's rights lower that.
MOST_RUNNING = "most_running"

# Statements of the hot path are built once: building one costs more than running it.
_MINE = runs.c.user_id == bindparam("b_user")
_HOLDS = one_of(runs.c.status, HOLDING_A_SLOT)
_WAITS = runs.c.status == "queued"
_GOING_ON = (
    select(
        func.count(case((and_(_MINE, _HOLDS), 1))).label("running"),
        func.count(case((and_(_MINE, _WAITS), 1))).label("queued"),
        func.count(case((_HOLDS, 1))).label("running_global"),
    )
    .where(one_of(runs.c.status, UNFINISHED))
    .subquery()
)
_IN_WINDOW = (
    select(func.count().label("started"), func.min(runs.c.created_at).label("oldest"))
    .where(_MINE, runs.c.created_at > bindparam("b_since"), runs.c.mode == bindparam("b_mode"))
    .subquery()
)
_COUNTS = select(_GOING_ON, _IN_WINDOW).select_from(_GOING_ON.join(_IN_WINDOW, true()))
_SAME = (
    "user_id", "batch_id", "mode", "agent", "task", "context", "label", "instructions", "provider",
    "model",
)  # fmt: skip
#: An unfinished run that the same turn requested with the same task. Two delegated tasks are
#: executed by two callers: they are never one run.
_IDENTICAL = select(runs.c.id).where(
    one_of(runs.c.status, UNFINISHED),
    # Written out, so that the partial index is used.
    runs.c.batch_id != literal_column("''"),
    runs.c.mode == literal_column("'async'"),
    *(runs.c[name] == bindparam(f"b_{name}", type_=runs.c[name].type) for name in _SAME),
)
_RUN = bindparam("b_id", type_=runs.c.id.type)
_KNOWN = select(runs.c.id).where(runs.c.id == _RUN)
_BEFORE = _COUNTS.add_columns(
    func.coalesce(
        _KNOWN.scalar_subquery(), _IDENTICAL.limit(1).scalar_subquery(), type_=runs.c.id.type
    ).label("known"),
    exists(select(pauses.c.id)).label("any_pause"),
)
_NEXT_NUMBER = (
    update(users)
    .where(users.c.id == bindparam("b_user"))
    .values(run_counter=users.c.run_counter + 1)
    .returning(users.c.run_counter)
)
_NEXT_NUMBER_ADMITTED = _NEXT_NUMBER.values(last_admitted_at=bindparam("b_now"))
_INSERT = insert(runs).returning(*COLUMNS)
#: Runs that wait only for a slot: their user has answered.
_READY = one_of(runs.c.status, WAITING) & runs.c.ready_at.is_not(None)
_CANDIDATES = (
    select(
        runs.c.id,
        runs.c.user_id,
        runs.c.status,
        runs.c.number,
        runs.c.created_at,
        runs.c.ready_at,
        runs.c.metadata.label("metadata"),
        users.c.last_admitted_at,
        *(runs.c[name] for name in PLACE),
    )
    .join(users, users.c.id == runs.c.user_id)
    .where(_WAITS | _READY)
)
_HELD = select(runs.c.user_id, func.count()).where(_HOLDS).group_by(runs.c.user_id)


_AFTER = select(
    select(func.count())
    .where(run_messages.c.run_id == _RUN, run_messages.c.read_at_step.is_(None))
    .scalar_subquery()
    .label("unread"),
    exists().where(run_questions.c.run_id == _RUN, run_questions.c.status == "open").label("asks"),
    exists(select(runs.c.id).where(_WAITS | _READY)).label("others_wait"),
)


@dataclass(frozen=True, slots=True)
class Before:
    """The state before a new run, read in the transaction that decides about the run.

    Attributes:
        known: The id of the same run, or of an identical one that the same turn requested.
        any_pause: A pause is in force, here or elsewhere.
    """

    usage: RunUsage
    known: str | None
    any_pause: bool


@dataclass(frozen=True, slots=True)
class After:
    """The state after the end of a run, read in the transaction that ends the run.

    Attributes:
        unread: The number of messages that the run has not read.
        asks: A question of the run is open.
        others_wait: Runs wait for a slot.
    """

    unread: int
    asks: bool
    others_wait: bool


async def counts(
    tx: Transaction, user_id: str, window_start: datetime, *, mode: str = "async"
) -> RunUsage:
    """Count the runs that the limits refer to, inside `Database.admission`.

    Args:
        tx: The transaction that decides.
        user_id: The owner of the runs.
        window_start: The beginning of the rate window.
        mode: The runs that the rate limit counts: `async`, or `sync` for delegated tasks.
    """
    values = {"b_user": user_id, "b_since": window_start, "b_mode": mode}
    return _usage((await tx.execute(_COUNTS, values)).one())


async def before(tx: Transaction, run: NewRun, window_start: datetime) -> Before:
    """Return the state before a new run, inside `Database.admission`, with its `counts`."""
    values = {f"b_{name}": getattr(run, name) for name in _SAME}
    values |= {"b_user": run.user_id, "b_since": window_start, "b_id": run.id}
    row = (await tx.execute(_BEFORE, values)).one()
    return Before(usage=_usage(row), known=row.known, any_pause=row.any_pause)


async def after(tx: Transaction, run_id: str) -> After:
    """Return the state after the end of a run, inside `Database.admission`."""
    row = (await tx.execute(_AFTER, {"b_id": run_id})).one()
    return After(unread=row.unread, asks=row.asks, others_wait=row.others_wait)


def _usage(row: Row[Any]) -> RunUsage:
    return RunUsage(
        started_in_window=row.started,
        oldest_in_window=row.oldest,
        running=row.running,
        queued=row.queued,
        running_global=row.running_global,
    )


async def insert_run(tx: Transaction, run: NewRun, status: RunStatus, now: datetime) -> Run:
    """Insert a run under the next number of its owner."""
    numbered: Json = {"b_user": run.user_id}
    statement = _NEXT_NUMBER
    if status != RunStatus.QUEUED:
        statement, numbered = _NEXT_NUMBER_ADMITTED, numbered | {"b_now": now}
    number = await tx.scalar(statement, numbered)
    further = {"status": str(status), "number": number, "created_at": now, "updated_at": now}
    return RUNS.of((await tx.execute(_INSERT, NEW_RUNS.values(run) | further)).one())


async def promote(tx: Transaction, caps: SlotCaps, now: datetime) -> list[Run]:
    """Assign free slots, and return the runs that got one.

    Runs that waited for their user and are ready come first, and become `running`. Queued runs
    follow, unless they are paused: for one user the oldest first; between users, the one admitted
    longest ago first.
    """
    promoted: list[Run] = []
    waiting: list[Row[Any]] = list(await tx.execute(_CANDIDATES))
    if not waiting:
        return promoted
    paused = await pause_rules.listed(tx)
    # A run that has begun continues after the answer of its user.
    places = {row.id: Place(*(getattr(row, name) for name in PLACE)) for row in waiting}
    waiting = [
        row
        for row in waiting
        if row.status != RunStatus.QUEUED
        or pause_rules.covering(paused, row.user_id, places[row.id]) is None
    ]
    held: Counter[str] = Counter(dict((await tx.execute(_HELD)).all()))
    admitted_at = {row.user_id: row.last_admitted_at for row in waiting}

    def order(row: Row[Any]) -> tuple[Any, ...]:
        if row.status != RunStatus.QUEUED:
            return 0, row.ready_at, row.id
        last = admitted_at[row.user_id]
        return 1, last is not None, last or now, row.created_at, row.number

    def admits(row: Row[Any]) -> bool:
        # A role may lower the cap of its members: see `bot.rights`.
        most = row.metadata.get(MOST_RUNNING, caps.per_user)
        mine = replace(caps, per_user=min(caps.per_user, most))
        return mine.admit(held[row.user_id], held.total())

    while free := [row for row in waiting if admits(row)]:
        row = min(free, key=order)
        waiting.remove(row)
        held[row.user_id] += 1
        status = RunStatus.RUNNING
        if row.status == RunStatus.QUEUED:
            status = RunStatus.ACCEPTED
            # Each a little later than the one before: runs admitted together would otherwise tie.
            last = admitted_at[row.user_id] = now + timedelta(microseconds=len(promoted))
            await change(tx, users, users.c.id == row.user_id, last_admitted_at=last)
        admitted = update(runs).where(runs.c.id == row.id).returning(*COLUMNS)
        admitted = admitted.values(status=str(status), ready_at=None, updated_at=now)
        promoted.append(RUNS.of((await tx.execute(admitted)).one()))
    return promoted


async def unpaused(tx: Transaction, user_id: str, paused: Sequence[Pause]) -> int:
    """Return the number of a user's queued runs that no pause holds."""
    waiting = await RUNS.find_all(tx, _WAITS, runs.c.user_id == user_id, order=[runs.c.number])
    return sum(pause_rules.covering(paused, user_id, run.place) is None for run in waiting)


async def queue_position(tx: Transaction, run: Run) -> int:
    """Return the position of a run among the queued runs of its user, from 1."""
    before = (runs.c.user_id == run.user_id, runs.c.number < run.number)
    return await count_rows(tx, runs, runs.c.status == "queued", *before) + 1


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
    return await RUNS.find_all(tx, *admitted, order=[runs.c.created_at], limit=100)


async def without_caller(tx: Transaction, run_ids: Sequence[str]) -> set[str]:
    """Return those of these delegated tasks whose turn, or the run that started them, is over."""
    if not run_ids:
        return set()
    parents = runs.alias()
    turn = exists().where(turns.c.id == runs.c.batch_id, turns.c.status.in_(OPEN_TURN))
    parent = exists().where(
        parents.c.id == runs.c.parent_run_id, one_of(parents.c.status, UNFINISHED)
    )
    alone = case((runs.c.parent_run_id.is_(None), ~turn), else_=~parent)
    return set(await tx.scalars(select(runs.c.id).where(runs.c.id.in_(run_ids), alone)))
