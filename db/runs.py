"""Queries on runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Text,
    bindparam,
    cast,
    func,
    or_,
    select,
    update,
)

from bot.values import UNFINISHED, WAITING, Json, Place, RunStatus
from db.database import Transaction
from db.rows import RowMapper, begun_in, change, one_of, owned_by, readable_in
from db.tables import subagent_runs as runs

#: The states of a run that has begun and is not over.
BEGUN = WAITING | {RunStatus.RUNNING}

#: No label or id is longer.
MAX_HANDLE = 100
#: Key of the summary of a run's result in its metadata.
SUMMARY = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run that may be admitted; a run of the main agent has a depth of 1."""

    id: str
    user_id: str
    place: Place
    conversation_id: str
    parent_message_id: str
    parent_run_id: str | None = None
    batch_id: str = ""
    label: str
    agent: str
    task: str
    context: str
    instructions: str
    mode: str
    depth: int
    announce: str
    model: str | None
    provider: str | None
    token_budget: int
    max_steps: int
    timeout_ms: int
    metadata: Json
    allowed_tools: Sequence[str] | None
    blocked_tools: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(NewRun):
    """A run as stored, without its transcript.

    Attributes:
        number: `#n`: a counter per user.
        degraded: It completed, but every tool call that it made was refused or failed.
        input_tokens: Input tokens so far, those of the cache included.
        cached_tokens: Input tokens read from a cache.
        cost: The cost so far in micro-dollars; `None` if a call had no price.
        seconds_used: Working time so far; waiting for a user is not counted.
    """

    number: int
    status: RunStatus
    result: str | None
    error: str | None
    degraded: bool
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    discounted_tokens: int
    cost: int | None
    reserved_tokens: int
    tool_call_count: int
    seconds_used: float
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


CONVERT: dict[str, Callable[[Any], Any]] = {
    "status": RunStatus,
    "allowed_tools": lambda names: None if names is None else tuple(names),
    "blocked_tools": lambda names: tuple(names or ()),
}
RUNS = RowMapper(Run, runs, convert=CONVERT)
NEW_RUNS = RowMapper(NewRun, runs)
COLUMNS = RUNS.columns
_NEWEST_FIRST = (runs.c.created_at.desc(), runs.c.number.desc())

# Statements of the hot path are built once: building one costs more than running it.
THIS_RUN = runs.c.id == bindparam("b_id")
_GET = RUNS.query.where(THIS_RUN)
_HOLD = _GET.with_for_update(key_share=True)
_MANY = RUNS.query.where(runs.c.id.in_(bindparam("b_ids", expanding=True)))
_FINISH = update(runs).where(THIS_RUN, one_of(runs.c.status, UNFINISHED)).returning(*COLUMNS)
_FINISH_ATTEMPT = _FINISH.where(runs.c.attempt == bindparam("b_attempt"))


# -- one run -------------------------------------------------------------------------------------


def held_by(run_id: str, attempt: int) -> tuple[ColumnElement[bool], ...]:
    """Return the condition for a run that this attempt has begun and not ended."""
    return runs.c.id == run_id, runs.c.attempt == attempt, one_of(runs.c.status, BEGUN)


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
    requested = update(runs).where(runs.c.id == run_id, one_of(runs.c.status, UNFINISHED))
    requested = requested.values(cancel_requested_at=now, cancelled_by=by)
    return await RUNS.first(tx, requested.returning(*COLUMNS))


async def cancel_requested(tx: Transaction, run_ids: Sequence[str]) -> list[str]:
    """Return those of these runs whose cancellation is requested."""
    requested = (runs.c.id.in_(run_ids), runs.c.cancel_requested_at.is_not(None))
    query = select(runs.c.id).where(*requested, one_of(runs.c.status, UNFINISHED))
    return list(await tx.scalars(query))


async def wait(
    tx: Transaction, run_id: str, attempt: int, status: RunStatus, now: datetime
) -> bool:
    """Put a run into a waiting status, without a slot; `False` if this attempt has lost the run."""
    # No call is in progress that may have to be charged.
    values = {"status": str(status), "ready_at": None, "reserved_tokens": 0, "updated_at": now}
    return await change(tx, runs, *held_by(run_id, attempt), **values)


async def heartbeat(tx: Transaction, run_id: str, attempt: int, now: datetime) -> bool:
    """Store a heartbeat of a waiting run; `False` if this attempt has lost the run."""
    return await change(tx, runs, *held_by(run_id, attempt), updated_at=now)


async def be_ready(tx: Transaction, run_id: str, attempt: int, now: datetime) -> bool:
    """Mark a waiting run as ready for a slot; `False` if this attempt has lost the run."""
    waiting = one_of(runs.c.status, WAITING)
    values = {"ready_at": func.coalesce(runs.c.ready_at, now), "updated_at": now}
    return await change(tx, runs, *held_by(run_id, attempt), waiting, **values)


# -- many runs -----------------------------------------------------------------------------------


def _within(
    user_id: str | None, parent: str | None, read_in: Place | None, began_in: Place | None
) -> list[ColumnElement[bool]]:
    nested = [] if parent is None else [runs.c.parent_run_id == parent]
    places = (*readable_in(runs, read_in), *begun_in(runs.c, began_in))
    return [*owned_by(runs, user_id), *places, *nested]


async def active(
    tx: Transaction,
    user_id: str | None,
    *,
    parent: str | None = None,
    read_in: Place | None = None,
    began_in: Place | None = None,
    limit: int = 100,
) -> list[Run]:
    """Return unfinished runs, newest first; those of all users for `None`."""
    within = _within(user_id, parent, read_in, began_in)
    unfinished = one_of(runs.c.status, UNFINISHED)
    return await RUNS.find_all(tx, unfinished, *within, order=_NEWEST_FIRST, limit=limit)


async def ended_since(
    tx: Transaction,
    user_id: str | None,
    since: datetime,
    *,
    limit: int,
    parent: str | None = None,
    read_in: Place | None = None,
    began_in: Place | None = None,
) -> list[Run]:
    """Return unarchived runs that ended since a time, newest first; of all users for `None`."""
    lately = (runs.c.completed_at > since, runs.c.archived_at.is_(None))
    within = _within(user_id, parent, read_in, began_in)
    return await RUNS.find_all(tx, *lately, *within, order=_NEWEST_FIRST, limit=limit)


async def started_by(tx: Transaction, parent_id: str, *, limit: int = 20) -> list[Run]:
    """Return the runs that a run started, newest first."""
    started = runs.c.parent_run_id == parent_id
    return await RUNS.find_all(tx, started, order=_NEWEST_FIRST, limit=limit)


async def find(
    tx: Transaction,
    handle: str,
    *,
    user_id: str | None,
    parent: str | None = None,
    read_in: Place | None = None,
    began_in: Place | None = None,
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
        began_in: Only runs that began in the server or workspace of this place.
        limit: The most to return; two already mean that the handle is ambiguous.
        all_that_fit: Include ended runs even if exactly one unfinished run matches.
    """
    whose = _within(user_id, parent, read_in, began_in)
    if len(handle) > MAX_HANDLE:
        return []
    if handle.lower() == "last":
        return await RUNS.find_all(tx, *whose, order=_NEWEST_FIRST, limit=1)
    if handle.startswith("#") and handle[1:].isdecimal():
        numbered = runs.c.number == min(int(handle[1:]), 2**31 - 1)
        return await RUNS.find_all(tx, *whose, numbered, order=_NEWEST_FIRST, limit=limit)
    prefix = handle.lower().replace("-", "")
    found: list[ColumnElement[bool]] = [func.lower(runs.c.label) == func.lower(handle)]
    if prefix and all(character in "0123456789abcdef" for character in prefix):
        bare = func.replace(cast(runs.c.id, Text), "-", "")
        found.append(bare.startswith(prefix, autoescape=True))
    for condition in (or_(*found), runs.c.label.icontains(handle, autoescape=True)):
        order = (runs.c.completed_at.is_not(None), *_NEWEST_FIRST)
        matches = await RUNS.find_all(tx, *whose, condition, order=order, limit=limit)
        if matches:
            break
    going = [run for run in matches if not run.status.final]
    return going if len(going) == 1 and not all_that_fit else matches


async def admitted(tx: Transaction, *, before: datetime) -> list[Run]:
    """Return background runs admitted before a time that have not begun, oldest first."""
    admitted = (runs.c.status == "accepted", runs.c.mode == "async")
    age = runs.c.updated_at
    return await RUNS.find_all(tx, *admitted, age < before, order=[age], limit=500)


async def unfinished(tx: Transaction, *, before: datetime) -> list[Run]:
    """Return runs that have begun, are not over, and took no step since a time, oldest first."""
    age = runs.c.updated_at
    return await RUNS.find_all(
        tx, one_of(runs.c.status, BEGUN), age < before, order=[age], limit=500
    )


async def newest(tx: Transaction, user_id: str, *, limit: int) -> list[Run]:
    """Return a user's newest runs that are not archived, unfinished ones first."""
    going = await active(tx, user_id, limit=limit)
    over = (runs.c.status.not_in(UNFINISHED), runs.c.archived_at.is_(None))
    mine = runs.c.user_id == user_id
    ended = await RUNS.find_all(tx, mine, *over, order=_NEWEST_FIRST, limit=limit)
    return [*going, *ended][:limit]


async def get_many(tx: Transaction, run_ids: Sequence[str]) -> list[Run]:
    """Return the runs with these ids, in no order."""
    if not run_ids:
        return []
    return await RUNS.all(tx, _MANY, {"b_ids": [*run_ids]})
