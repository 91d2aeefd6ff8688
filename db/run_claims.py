"""Queries by which an attempt begins a run and releases it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BigInteger, bindparam, case, exists, func, update

from bot.values import UNFINISHED, WAITING, Identity, Json, RunStatus
from db.database import Transaction
from db.rows import RowMapper, change, one_of
from db.runs import CONVERT, THIS_RUN, Run, held_by
from db.tables import run_messages
from db.tables import subagent_runs as runs
from db.types import UtcDateTime


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedRun(Run):
    """A run with the account of its owner."""

    user: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRun(Run):
    """A run that an attempt has begun.

    Attributes:
        has_messages: A message to the run is unread.
    """

    has_messages: bool


# Not by the run's column: on SQLite what an update returns names columns without their table.
_UNREAD = exists().where(
    run_messages.c.run_id == bindparam("b_id"), run_messages.c.read_at_step.is_(None)
)
_OWNED = RowMapper(OwnedRun, runs, convert=CONVERT)
_CLAIMED = RowMapper(ClaimedRun, runs, others={"has_messages": _UNREAD}, convert=CONVERT)
_HOLD = (
    _OWNED.query.where(runs.c.id.in_(bindparam("b_ids", expanding=True)))
    # Two processes that claim the same runs lock them in the same order.
    .order_by(runs.c.id)
    .with_for_update(key_share=True, of=runs)
)
#: A delegated run belongs to the turn or run that waits for it, in whichever process that is.
_MAY_CLAIM = (
    (runs.c.mode == "sync") | (runs.c.worker_id == "") | (runs.c.worker_id == bindparam("b_worker"))
)
_CLAIM = (
    update(runs)
    .where(THIS_RUN, one_of(runs.c.status, UNFINISHED - {RunStatus.QUEUED}), _MAY_CLAIM)
    .values(
        # A run that waited for its user had no slot, and gets none by a takeover.
        status=case((one_of(runs.c.status, WAITING), runs.c.status), else_="running"),
        attempt=runs.c.attempt + 1,
        # Charged, since the interrupted call may have been billed.
        input_tokens=runs.c.input_tokens + runs.c.reserved_tokens,
        cost=runs.c.cost + bindparam("b_cost", type_=BigInteger()),
        reserved_tokens=case(
            (runs.c.reserved_tokens > bindparam("b_reserve"), runs.c.reserved_tokens),
            else_=bindparam("b_reserve"),
        ),
        worker_id=bindparam("b_worker"),
        begun_at=bindparam("b_now", type_=UtcDateTime()),
        started_at=func.coalesce(runs.c.started_at, bindparam("b_now", type_=UtcDateTime())),
        updated_at=bindparam("b_now", type_=UtcDateTime()),
    )
    .returning(*_CLAIMED.columns)
)


async def hold(tx: Transaction, run_ids: Sequence[str]) -> dict[str, OwnedRun]:
    """Return runs with their owners by their ids, locked as by `runs.hold`."""
    return {run.id: run for run in await _OWNED.all(tx, _HOLD, {"b_ids": [*run_ids]})}


async def claim(
    tx: Transaction,
    run_id: str,
    *,
    worker_id: str,
    reserve: int,
    now: datetime,
    cost: int | None = 0,
) -> ClaimedRun | None:
    """Begin an attempt and return the run; `None` if it is over, not admitted, or another's.

    The tokens that an interrupted attempt had reserved are charged, and their price, `cost`: its
    call may have been billed.
    """
    values = {"b_id": run_id, "b_worker": worker_id, "b_reserve": reserve, "b_now": now}
    return await _CLAIMED.first(tx, _CLAIM, values | {"b_cost": cost})


async def release(
    tx: Transaction,
    run_id: str,
    attempt: int,
    now: datetime,
    counts: Json | None = None,
) -> None:
    """Release a run to another process: its reserved tokens are freed, its used tokens are charged.

    Without `counts` the tokens are those of its steps.
    """
    values = {"reserved_tokens": 0, "worker_id": "", "updated_at": now, **(counts or {})}
    await change(tx, runs, *held_by(run_id, attempt), **values)
