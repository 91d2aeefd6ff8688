"""Queries on what is sent of the outbox: when the results of a batch are due, and who sends."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, bindparam, exists, func, literal_column, select, update

from bot.values import OPEN_TURN, UNFINISHED, Json, RunStatus
from db.database import Transaction
from db.outbox import OutboxEntry
from db.rows import PLACE, RowMapper, change, count_rows, is_at, one_of
from db.runs import RUNS, Run
from db.schema.base import ROUTE
from db.tables import outbox, pauses, run_files, sentences, turns, users
from db.tables import subagent_runs as runs
from db.types import UtcDateTime
from db.users import spoke_since


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedEntry(OutboxEntry):
    """An entry that this process sends, with the facts on which the form of its message depends.

    Attributes:
        run_status: The final status of the run; `None` without a run.
        run_metadata: The metadata of the run; `None` without a run.
        notify: The owner's notifications about runs; empty for the default.
        has_files: The run has files to send.
        owner_present: The owner wrote in the run's conversation lately.
        stopped_by_other: Another user stopped the run.
        any_pause: A pause is in force, here or elsewhere.
    """

    run_status: RunStatus | None
    run_metadata: Json | None
    notify: str
    has_files: bool
    owner_present: bool
    stopped_by_other: bool
    any_pause: bool


_CLAIMED = RowMapper(
    ClaimedEntry,
    outbox,
    others={
        "run_status": runs.c.status,
        "run_metadata": runs.c.metadata,
        "notify": users.c.notify,
        "has_files": exists().where(run_files.c.run_id == outbox.c.run_id),
        "owner_present": spoke_since(
            outbox.c.user_id,
            runs.c.conversation_id,
            bindparam("b_present_since", type_=UtcDateTime()),
        ),
        "stopped_by_other": runs.c.cancelled_by.not_in(("", outbox.c.user_id)),
        "any_pause": exists(select(pauses.c.id)),
    },
    convert={
        "run_status": lambda status: status and RunStatus(status),
        "stopped_by_other": bool,
    },
)

# Statements of the hot path are built once: building one costs more than running it.
_GET_CLAIMED = (
    _CLAIMED.query.outerjoin(runs, runs.c.id == outbox.c.run_id)
    .where(outbox.c.key.in_(bindparam("b_keys", expanding=True)))
    # In the order in which the runs were asked for.
    .order_by(runs.c.number, outbox.c.key)
)
_NOW = bindparam("b_now", type_=UtcDateTime())
#: A sentence about the progress of runs is being posted in the place of an item.
_POSTING = exists().where(
    *(sentences.c[name] == outbox.c[name] for name in ROUTE), sentences.c.posting_until > _NOW
)
_DUE = (one_of(outbox.c.status, ("pending", "waiting")), outbox.c.due_at <= _NOW)
_CLAIM = (
    update(outbox)
    .where(
        outbox.c.key.in_(
            select(outbox.c.key)
            .where(outbox.c.key.in_(bindparam("b_keys", expanding=True)), *_DUE, ~_POSTING)
            # Two processes that claim the same items lock them in the same order.
            .order_by(outbox.c.key)
            .with_for_update(of=outbox)
        )
    )
    .values(
        status="sending",
        worker_id=bindparam("b_worker"),
        attempts=outbox.c.attempts + 1,
        first_tried_at=func.coalesce(outbox.c.first_tried_at, _NOW),
    )
    .returning(outbox.c.key)
)


async def claim(
    tx: Transaction,
    keys: Sequence[str],
    worker_id: str,
    now: datetime,
    *,
    present: timedelta = timedelta(0),
    together: bool = False,
) -> dict[str, list[ClaimedEntry]]:
    """Claim items for sending; none for a key that is not due, or that another process is sending.

    While a sentence about progress is being posted in its place, no item is due there.

    Args:
        tx: The transaction.
        keys: The items.
        worker_id: The process that sends them.
        now: The time.
        present: The time for which a user is present after a message.
        together: Whether to claim the due items of their batches as well. They are sent as one
            message, whose key is stored before it: after a crash the same items are sent under it
            again.

    Returns:
        The items of each message, by one of the keys, in the order in which their runs were asked
        for.
    """
    values: Json = {"b_keys": keys, "b_worker": worker_id, "b_now": now}
    mine = [*await tx.scalars(_CLAIM, values)]
    since = {"b_present_since": now - present}
    claimed: dict[str, list[ClaimedEntry]] = {}
    batches: dict[tuple[object, ...], list[ClaimedEntry]] = {}
    for item in await _CLAIMED.all(tx, _GET_CLAIMED, since | {"b_keys": mine}) if mine else ():
        if item.text_delivered or not item.batch_id or not (together or item.send_key):
            claimed[item.key] = [item]
        else:
            batch = (item.batch_id, item.send_key, item.user, item.place)
            batches.setdefault(batch, []).append(item)
    for items in batches.values():
        first = items[0]
        mates = await _claim_mates(tx, first, worker_id, now)
        together_keys = [*(each.key for each in items), *mates]
        send_key = first.send_key or first.key
        await change(tx, outbox, outbox.c.key.in_(together_keys), send_key=send_key)
        claimed[first.key] = await _CLAIMED.all(tx, _GET_CLAIMED, since | {"b_keys": together_keys})
    return claimed


async def _claim_mates(
    tx: Transaction, item: ClaimedEntry, worker_id: str, now: datetime
) -> list[str]:
    """Claim the other due items of the batch of a claimed one, and return their keys."""
    same = (
        outbox.c.batch_id == item.batch_id,
        # Written out, so that the partial index is used.
        outbox.c.batch_id != literal_column("''"),
        outbox.c.user_id == item.user.key,
        outbox.c.send_key == item.send_key,
        ~outbox.c.text_delivered,
        *is_at(outbox, item.place, *PLACE),
    )
    # Items that another process claims at this moment are sent by that one.
    mates = select(outbox.c.key).where(*same, *_DUE).with_for_update(skip_locked=True)
    keys = [*await tx.scalars(mates, {"b_now": now})]
    if keys:
        sending = {"status": "sending", "worker_id": worker_id, "attempts": outbox.c.attempts + 1}
        first = func.coalesce(outbox.c.first_tried_at, now)
        await change(tx, outbox, outbox.c.key.in_(keys), **sending, first_tried_at=first)
    return keys


#: Written out: with a parameter the partial indexes would not be used.
_NONE: ColumnElement[str] = literal_column("''")
_PLANNED = (outbox.c.key, outbox.c.status, outbox.c.attempts, outbox.c.created_at, outbox.c.due_at)

#: The longest time that a result waits for the others of its batch.
TOGETHER = timedelta(seconds=120)
#: The longest time that a result waits for the end of the turn that started its run.
SPOKEN = timedelta(seconds=60)


async def plan(tx: Transaction, batch_id: str, now: datetime, *, together: bool) -> list[str]:
    """Set the times at which the waiting results of a batch are due; return the keys due now.

    A result waits for the turn that started its run, and for the other runs of the turn; what comes
    after the first message of a batch waits for no others.

    Args:
        tx: The transaction.
        batch_id: The turn.
        now: The time.
        together: Whether the results of a turn are announced in one message: then one of its keys
            is returned.
    """
    if not batch_id:
        return []
    # The row of the turn is locked, so that its end plans after this transaction.
    this = select(turns.c.status).where(turns.c.id == batch_id).with_for_update(read=True)
    speaks = await tx.scalar(this) in OPEN_TURN
    of_batch = (outbox.c.batch_id == batch_id, outbox.c.batch_id != _NONE)
    rows = (await tx.execute(select(*_PLANNED).where(*of_batch))).all()
    waiting = [row for row in rows if row.status == "pending" and not row.attempts]
    if not waiting:
        return []
    open_runs = select(runs.c.id).where(
        runs.c.batch_id == batch_id,
        runs.c.batch_id != _NONE,
        runs.c.mode == "async",
        runs.c.announce == "result",
        one_of(runs.c.status, UNFINISHED),
    )
    first_message = len(waiting) == len(rows)
    waits = together and first_message and await tx.scalar(open_runs.limit(1)) is not None
    until = min(row.created_at for row in waiting) + TOGETHER
    due: list[str] = []
    for row in waiting:
        spoken = row.created_at + SPOKEN if speaks else now
        at = max(now, spoken, until if waits else now)
        if at == now:
            due.append(row.key)
        if at != row.due_at:
            await change(tx, outbox, outbox.c.key == row.key, due_at=at)
    return due[:1] if together else due


async def in_batch(tx: Transaction, run: Run) -> list[Run]:
    """Return the background runs that the turn of a run started for its user, oldest first."""
    if not run.batch_id:
        return [run]
    batch = (runs.c.batch_id == run.batch_id, runs.c.batch_id != _NONE, runs.c.mode == "async")
    mine = runs.c.user_id == run.user_id
    return await RUNS.find_all(tx, *batch, mine, order=(runs.c.number,))


async def unfinished(tx: Transaction, run: Run) -> int:
    """Return the number of unfinished runs in a run's batch that are announced together."""
    batch = (runs.c.batch_id == run.batch_id, runs.c.announce == "summary", runs.c.mode == "async")
    unfinished = one_of(runs.c.status, UNFINISHED)
    return await count_rows(tx, runs, *batch, unfinished) if run.batch_id else 0
