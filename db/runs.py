"""Queries on runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Text,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
    update,
)

from bot.values import UNFINISHED, WAITING, Json, Place, RunStatus
from db.database import Transaction
from db.rows import RowMapper, change, owned_by, readable_in
from db.tables import subagent_runs
from db.types import UtcDateTime

_UNFINISHED = [str(status) for status in UNFINISHED]
#: The states of a run that has begun and is not over.
BEGUN = [str(RunStatus.RUNNING), *(str(status) for status in WAITING)]

runs = subagent_runs

#: No label or id is longer.
MAX_HANDLE = 100
#: Key of the summary of a run's result in its metadata.
SUMMARY = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as stored, without its transcript.

    Attributes:
        number: `#n`: a counter per user.
        depth: 1 for a run of the main agent.
        degraded: It completed, but every tool call that it made was refused or failed.
        seconds_used: Working time so far; waiting for a user is not counted.
    """

    id: str
    user_id: str
    place: Place
    conversation_id: str
    parent_message_id: str
    parent_run_id: str | None
    batch_id: str
    number: int
    label: str
    agent: str
    task: str
    context: str
    instructions: str
    status: RunStatus
    mode: str
    depth: int
    announce: str
    model: str | None
    provider: str | None
    result: str | None
    error: str | None
    degraded: bool
    input_tokens: int
    output_tokens: int
    discounted_tokens: int
    token_budget: int
    reserved_tokens: int
    tool_call_count: int
    max_steps: int
    timeout_ms: int
    seconds_used: float
    metadata: Json
    allowed_tools: tuple[str, ...] | None
    blocked_tools: tuple[str, ...]
    attempt: int
    crashes: int
    worker_id: str
    card_message_id: str
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    updated_at: datetime
    completed_at: datetime | None

    @property
    def tokens(self) -> int:
        """All tokens so far, input and output."""
        return self.input_tokens + self.output_tokens

    @property
    def weighted_tokens(self) -> int:
        """The tokens so far as they count towards the budget."""
        return self.tokens - self.discounted_tokens

    @property
    def summary(self) -> str:
        """The summary of the result; empty if there is none."""
        return str(self.metadata.get(SUMMARY, ""))


RUNS = RowMapper(
    Run,
    runs,
    convert={
        "status": RunStatus,
        "allowed_tools": lambda names: None if names is None else tuple(names),
        "blocked_tools": lambda names: tuple(names or ()),
    },
)
COLUMNS = RUNS.columns

# Statements of the hot path are built once: building one costs more than running it.
_THIS = runs.c.id == bindparam("b_id")
_GET = select(*COLUMNS).where(_THIS)
_HOLD = _GET.with_for_update(key_share=True)
_CLAIM = (
    update(runs)
    .where(_THIS, runs.c.status.in_([str(s) for s in UNFINISHED if s is not RunStatus.QUEUED]))
    .values(
        # A run that waited for its user had no slot, and gets none by a takeover.
        status=case((runs.c.status.in_([str(s) for s in WAITING]), runs.c.status), else_="running"),
        attempt=runs.c.attempt + 1,
        # Charged, since the interrupted call may have been billed.
        input_tokens=runs.c.input_tokens + runs.c.reserved_tokens,
        reserved_tokens=case(
            (runs.c.reserved_tokens > bindparam("b_reserve"), runs.c.reserved_tokens),
            else_=bindparam("b_reserve"),
        ),
        worker_id=bindparam("b_worker"),
        begun_at=bindparam("b_now", type_=UtcDateTime()),
        started_at=func.coalesce(runs.c.started_at, bindparam("b_now", type_=UtcDateTime())),
        updated_at=bindparam("b_now", type_=UtcDateTime()),
    )
    .returning(*COLUMNS)
)
_FINISH = update(runs).where(_THIS, runs.c.status.in_(_UNFINISHED)).returning(*COLUMNS)
_FINISH_ATTEMPT = _FINISH.where(runs.c.attempt == bindparam("b_attempt"))


# -- one run -------------------------------------------------------------------------------------


def held_by(run_id: str, attempt: int) -> tuple[ColumnElement[bool], ...]:
    """Return the condition for a run that this attempt has begun and not ended."""
    return runs.c.id == run_id, runs.c.attempt == attempt, runs.c.status.in_(BEGUN)


async def get(tx: Transaction, run_id: str) -> Run | None:
    """Return a run by its full id."""
    return await RUNS.first(tx, _GET, {"b_id": run_id})


async def hold(tx: Transaction, run_id: str) -> Run | None:
    """Return a run, locked against changes of its status until the transaction ends."""
    return await RUNS.first(tx, _HOLD, {"b_id": run_id})


async def add_metadata(tx: Transaction, run: Run, further: Json) -> None:
    """Add to the metadata of a run that `hold` has locked."""
    await change(tx, runs, runs.c.id == run.id, metadata=run.metadata | further)


async def transcript(tx: Transaction, run_id: str) -> list[Json]:
    """Return the transcript, which is stored once, at the end."""
    found: list[Json] | None = await tx.scalar(select(runs.c.transcript).where(runs.c.id == run_id))
    return found or []


async def claim(
    tx: Transaction, run_id: str, *, worker_id: str, reserve: int, now: datetime
) -> Run | None:
    """Begin an attempt and return the run; `None` if it is over or not admitted.

    The tokens that an interrupted attempt had reserved are charged: its call may have been billed.
    """
    values = {"b_id": run_id, "b_worker": worker_id, "b_reserve": reserve, "b_now": now}
    return await RUNS.first(tx, _CLAIM, values)


async def release(
    tx: Transaction,
    run_id: str,
    attempt: int,
    now: datetime,
    counts: Mapping[str, int] | None = None,
) -> None:
    """Release a run to another process: its reserved tokens are freed, its used tokens are charged.

    Without `counts` the tokens are those of its steps.
    """
    values = {"reserved_tokens": 0, "worker_id": "", "updated_at": now, **(counts or {})}
    await change(tx, runs, *held_by(run_id, attempt), **values)


async def finish(
    tx: Transaction, run_id: str, values: Json, *, attempt: int | None, now: datetime
) -> Run | None:
    """Write the final status, once, and return the run; `None` if the run has ended.

    Args:
        tx: The transaction.
        run_id: The run.
        values: `status`, `result`, `error`, counts …
        attempt: Only if this attempt still holds the run; `None` for any attempt.
        now: The time.
    """
    written = values | {"reserved_tokens": 0, "completed_at": now, "updated_at": now}
    written["b_id"] = run_id
    statement = _FINISH
    if attempt is not None:
        statement, written["b_attempt"] = _FINISH_ATTEMPT, attempt
    return await RUNS.first(tx, statement, written)


async def request_cancel(tx: Transaction, run_id: str, *, by: str, now: datetime) -> Run | None:
    """Request the cancellation of a run; return the run, or `None` when it is over."""
    requested = update(runs).where(runs.c.id == run_id, runs.c.status.in_(_UNFINISHED))
    requested = requested.values(cancel_requested_at=now, cancelled_by=by)
    return await RUNS.first(tx, requested.returning(*COLUMNS))


async def cancel_requested(tx: Transaction, run_ids: Sequence[str]) -> list[str]:
    """Return those of these runs whose cancellation is requested."""
    found = await tx.scalars(
        select(runs.c.id).where(
            runs.c.id.in_(run_ids),
            runs.c.cancel_requested_at.is_not(None),
            runs.c.status.in_(_UNFINISHED),
        )
    )
    return list(found)


async def unfinished_in_batch(tx: Transaction, run: Run) -> int:
    """Return the number of unfinished runs in a run's batch that are announced together."""
    others = await tx.scalar(
        select(func.count()).where(
            runs.c.batch_id == run.batch_id,
            runs.c.announce == "summary",
            runs.c.mode == "async",
            runs.c.status.in_(_UNFINISHED),
        )
    )
    return others or 0 if run.batch_id else 0


# -- many runs -----------------------------------------------------------------------------------


def _newest(*conditions: ColumnElement[bool], limit: int, going_first: bool = False) -> Any:
    newest_first = (runs.c.created_at.desc(), runs.c.number.desc())
    order = (runs.c.completed_at.is_not(None), *newest_first) if going_first else newest_first
    return select(*COLUMNS).where(*conditions).order_by(*order).limit(limit)


def _within(
    user_id: str | None, parent: str | None, read_in: Place | None
) -> list[ColumnElement[bool]]:
    nested = [] if parent is None else [runs.c.parent_run_id == parent]
    return [*owned_by(runs, user_id), *readable_in(runs, read_in), *nested]


async def active(
    tx: Transaction,
    user_id: str | None,
    *,
    parent: str | None = None,
    read_in: Place | None = None,
    limit: int = 100,
) -> list[Run]:
    """Return unfinished runs, newest first; those of all users for `None`."""
    within = _within(user_id, parent, read_in)
    return await RUNS.all(tx, _newest(runs.c.status.in_(_UNFINISHED), *within, limit=limit))


async def ended_since(
    tx: Transaction,
    user_id: str | None,
    since: datetime,
    *,
    limit: int,
    parent: str | None = None,
    read_in: Place | None = None,
) -> list[Run]:
    """Return unarchived runs that ended since a time, newest first; of all users for `None`."""
    lately = (runs.c.completed_at > since, runs.c.archived_at.is_(None))
    within = _within(user_id, parent, read_in)
    return await RUNS.all(tx, _newest(*lately, *within, limit=limit))


async def started_by(tx: Transaction, parent_id: str, *, limit: int = 20) -> list[Run]:
    """Return the runs that a run started, newest first."""
    return await RUNS.all(tx, _newest(runs.c.parent_run_id == parent_id, limit=limit))


async def find(
    tx: Transaction,
    handle: str,
    *,
    user_id: str | None,
    parent: str | None = None,
    read_in: Place | None = None,
    limit: int = 6,
    all_that_fit: bool = False,
) -> list[Run]:
    """Return the runs that match a typed handle, newest first.

    Args:
        tx: The transaction.
        handle: `#n`, `last`, a label or a part of one, or the beginning of an id. Unfinished runs
            come before ended ones.
        user_id: The owner; `None` for all users.
        parent: Only runs that this run started.
        read_in: Only runs that every reader of this place can read.
        limit: The most to return; two already mean that the handle is ambiguous.
        all_that_fit: Include ended runs even if exactly one unfinished run matches.
    """
    whose = _within(user_id, parent, read_in)
    if len(handle) > MAX_HANDLE:
        return []
    if handle.lower() == "last":
        return await RUNS.all(tx, _newest(*whose, limit=1))
    if handle.startswith("#") and handle[1:].isdecimal():
        number = min(int(handle[1:]), 2**31 - 1)
        return await RUNS.all(tx, _newest(*whose, runs.c.number == number, limit=limit))
    prefix = handle.lower().replace("-", "")
    found: list[ColumnElement[bool]] = [func.lower(runs.c.label) == func.lower(handle)]
    if prefix and all(character in "0123456789abcdef" for character in prefix):
        bare = func.replace(cast(runs.c.id, Text), "-", "")
        found.append(bare.startswith(prefix, autoescape=True))
    for condition in (or_(*found), runs.c.label.icontains(handle, autoescape=True)):
        matching = _newest(*whose, condition, limit=limit, going_first=True)
        matches = await RUNS.all(tx, matching)
        if matches:
            break
    going = [run for run in matches if not run.status.final]
    return going if len(going) == 1 and not all_that_fit else matches


def _overdue(*conditions: ColumnElement[bool], before: datetime) -> Any:
    return (
        select(*COLUMNS)
        .where(*conditions, runs.c.updated_at < before)
        .order_by(runs.c.updated_at)
        .limit(500)
    )


async def admitted(tx: Transaction, *, before: datetime) -> list[Run]:
    """Return background runs admitted before a time that have not begun, oldest first."""
    admitted = (runs.c.status == "accepted", runs.c.mode == "async")
    return await RUNS.all(tx, _overdue(*admitted, before=before))


async def unfinished(tx: Transaction, *, before: datetime) -> list[Run]:
    """Return runs that have begun, are not over, and took no step since a time, oldest first."""
    begun = runs.c.status.in_(BEGUN)
    return await RUNS.all(tx, _overdue(begun, before=before))


async def newest(tx: Transaction, user_id: str, *, limit: int) -> list[Run]:
    """Return a user's newest runs that are not archived, unfinished ones first."""
    going = await active(tx, user_id, limit=limit)
    over = (runs.c.status.not_in(_UNFINISHED), runs.c.archived_at.is_(None))
    ended = await RUNS.all(tx, _newest(runs.c.user_id == user_id, *over, limit=limit))
    return [*going, *ended][:limit]


async def get_many(tx: Transaction, run_ids: Sequence[str]) -> list[Run]:
    """Return the runs with these ids, in no order."""
    if not run_ids:
        return []
    return await RUNS.all(tx, select(*COLUMNS).where(runs.c.id.in_(run_ids)))
