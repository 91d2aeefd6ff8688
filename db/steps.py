"""Stores the steps of turns and runs, from which interrupted work resumes."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import partial
from typing import Literal

from sqlalchemy import ColumnElement, bindparam, false, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from bot.errors import FencedError
from bot.tasks import Tasks
from bot.values import UNFINISHED, Json
from db import turn_inbox, workers
from db.database import Database, Transaction, patiently
from db.group_writer import GroupWriter
from db.rows import count_rows, insert_new, one_of
from db.tables import run_messages, step_media, steps, subagent_runs, turns
from db.types import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A row of steps, with all values that are stored along with it.

    Attributes:
        table: The table of the work: `runs` or `turns`.
        attempt: The attempt that writes it; a stale attempt writes nothing.
        counts: The columns of the tokens and the cost of the work so far, those of a run.
        seconds_used: Working time so far (runs).
        media: Contents of images and PDFs in the body, by their digests.
        read: Ids of the messages to the turn or run that this step has read.
        number: Number of the answer, recorded on messages to a run.
    """

    table: Literal["runs", "turns"]
    work_id: str
    attempt: int
    seq: int
    kind: str
    body: Json
    now: datetime
    counts: Json = field(default_factory=dict)
    reserved_tokens: int = 0
    tool_calls: int = 0
    seconds_used: float = 0.0
    media: Mapping[str, bytes] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    number: int = 0


#: Number of the row with the transcript of the run that this run continues: before its own steps.
CARRIED = -1


async def load(tx: Transaction, work_id: str) -> list[tuple[int, str, Json]]:
    """Return (seq, kind, body) of every step of a piece of work, in order."""
    return (await load_many(tx, [work_id])).get(work_id, [])


async def media(tx: Transaction, work_id: str) -> dict[str, bytes]:
    """Return the contents of images and PDFs in the steps of a piece of work, by their digests."""
    query = select(step_media.c.digest, step_media.c.data).where(step_media.c.work_id == work_id)
    return {row.digest: row.data for row in await tx.execute(query)}


async def load_many(
    tx: Transaction, work_ids: Sequence[str]
) -> dict[str, list[tuple[int, str, Json]]]:
    """Return (seq, kind, body) of every step of several pieces of work, in order, by their ids."""
    if not work_ids:
        return {}
    return await _read(tx, steps.c.work_id.in_(work_ids), steps.c.seq > CARRIED)


async def answers_since(
    tx: Transaction, since: Mapping[str, datetime]
) -> dict[str, list[tuple[int, str, Json]]]:
    """Return (seq, kind, body) of the answers of runs after a time each, in order, by their ids."""
    later = ((steps.c.work_id == key) & (steps.c.created_at > at) for key, at in since.items())
    return await _read(tx, steps.c.kind == "answer", or_(false(), *later))


async def _read(
    tx: Transaction, *conditions: ColumnElement[bool]
) -> dict[str, list[tuple[int, str, Json]]]:
    found: dict[str, list[tuple[int, str, Json]]] = {}
    query = select(steps.c.work_id, steps.c.seq, steps.c.kind, steps.c.body).where(*conditions)
    for row in await tx.execute(query.order_by(steps.c.work_id, steps.c.seq)):
        found.setdefault(row.work_id, []).append((row.seq, row.kind, row.body))
    return found


async def carry(tx: Transaction, work_id: str, body: Json, now: datetime) -> None:
    """Store the transcript that a run takes over from the run that it continues."""
    await tx.execute(_INSERT, _row(work_id, CARRIED, "carried", body, now))


async def carried(tx: Transaction, work_id: str) -> Json | None:
    """Return the transcript that a run took over from an earlier run; `None` for none."""
    this = (steps.c.work_id == work_id, steps.c.seq == CARRIED)
    body: Json | None = await tx.scalar(select(steps.c.body).where(*this))
    return body


async def begin_with(tx: Transaction, work_id: str, body: Json, now: datetime) -> None:
    """Store the first step of a turn that no process works on yet."""
    await tx.execute(_INSERT, _row(work_id, 0, "answer", body, now))


def _row(work_id: str, seq: int, kind: str, body: Json, now: datetime) -> Json:
    return {"work_id": work_id, "seq": seq, "kind": kind, "body": body, "created_at": now}


async def count(tx: Transaction, work_id: str) -> int:
    """Return the number of answers that a piece of work has so far."""
    return await count_rows(tx, steps, steps.c.work_id == work_id, steps.c.kind == "answer")


#: `BUSY_STEPS` steps within `BUSY_SECONDS` mean that many runs are at work; their steps are then
#: gathered for `GATHER_SECONDS` and stored together.
BUSY_STEPS = 16
BUSY_SECONDS = 0.4
GATHER_SECONDS = 0.05
#: Shortest time between two heartbeats that are stored along with steps.
HEARTBEAT_SECONDS = 2.0


@dataclass(eq=False, slots=True)
class StepWriter:
    """Stores steps; concurrent ones are committed together.

    Storing steps counts as a heartbeat of the process, beside its regular ones.

    Attributes:
        tasks: Owns the writing task.
        worker_id: Id of the process, for its heartbeats; empty for none.
        stored: Called with the id of the work after each stored step.
    """

    database: Database
    tasks: Tasks
    _: KW_ONLY
    worker_id: str = ""
    stored: Callable[[str], None] = lambda _: None
    _heartbeat_at: float = -HEARTBEAT_SECONDS
    _lately: deque[float] = field(default_factory=lambda: deque(maxlen=BUSY_STEPS))
    _group: GroupWriter[Step, bool] = field(init=False)

    def __post_init__(self) -> None:
        """Create the writer of groups."""
        self._group = GroupWriter(
            database=self.database,
            tasks=self.tasks,
            name="step writer",
            store=self._store,
            gather_seconds=self._gather_seconds,
            # Neither a user's turn nor the end of a run waits for more steps.
            urgent=lambda step: step.table == "turns" or not step.reserved_tokens,
        )

    async def write(self, step: Step) -> None:
        """Return once the step is committed.

        While the database is unreachable, this waits for at most a minute.

        Raises:
            FencedError: Another attempt has the work, or the work is over.
        """
        self._lately.append(asyncio.get_running_loop().time())
        try:
            mine = await self._group.write(step)
        except IntegrityError:
            # This very step may have been committed before the connection broke.
            rows = await patiently(partial(self.database.read, load, step.work_id))
            mine = (step.seq, step.kind, json.loads(to_json(step.body))) in rows
        if not mine:
            raise FencedError("this work has been taken over")
        self.stored(step.work_id)

    def _gather_seconds(self) -> float:
        lately = self._lately
        busy = len(lately) == BUSY_STEPS and lately[-1] - lately[0] < BUSY_SECONDS
        return GATHER_SECONDS if busy else 0.0

    async def _store(self, tx: Transaction, batch: Sequence[Step]) -> list[bool]:
        """Store the steps whose attempts have the work; return for each step if its attempt has."""
        owned: set[tuple[str, int]] = set()
        # In the order of their ids, in which other transactions lock them.
        for step in sorted(batch, key=lambda step: step.work_id):
            if step.table == "turns":
                counts = {**step.counts, "b_id": step.work_id, "b_attempt": step.attempt}
                counts.pop("discounted_tokens", None)
                if (await tx.execute(_UPDATE_TURN, counts)).rowcount:
                    owned.add((step.work_id, step.attempt))
        owned |= await _update_runs(tx, [step for step in batch if step.table == "runs"])
        mine = [step for step in batch if (step.work_id, step.attempt) in owned]
        rows = [_row(step.work_id, step.seq, step.kind, step.body, step.now) for step in mine]
        read: list[Json] = []
        for step in mine:
            if step.table == "turns" and step.read:
                await turn_inbox.mark_read(tx, step.work_id, step.read)
            else:
                read += [{"b_id": key, "read_at_step": step.number} for key in step.read]
        for step in mine:
            common = {"work_id": step.work_id, "created_at": step.now}
            for digest, data in step.media.items():
                await insert_new(tx, step_media, {**common, "digest": digest, "data": data})
        for statement, values in ((_INSERT, rows), (_READ, read)):
            if values:
                await tx.execute(statement, values)
        # At the end of the transaction, since it locks the worker's row.
        now = asyncio.get_running_loop().time()
        regular = self.worker_id and not self.database.is_sqlite
        if regular and now - self._heartbeat_at >= HEARTBEAT_SECONDS:
            await workers.heartbeat(tx, self.worker_id)
            self._heartbeat_at = now
        return [(step.work_id, step.attempt) in owned for step in batch]


_INSERT = insert(steps)

# Executed with the columns to set, beside the id and the attempt.
_UPDATE_RUN = update(subagent_runs).where(subagent_runs.c.id == bindparam("b_id")).values(crashes=0)
_UPDATE_ATTEMPT = _UPDATE_RUN.where(
    subagent_runs.c.attempt == bindparam("b_attempt"), one_of(subagent_runs.c.status, UNFINISHED)
)
_UPDATE_TURN = (
    update(turns)
    .where(
        turns.c.id == bindparam("b_id"),
        turns.c.attempt == bindparam("b_attempt"),
        turns.c.status == "running",
    )
    .values(crashes=0)
)
_READ = update(run_messages).where(run_messages.c.id == bindparam("b_id"))

_ATTEMPTS = (
    select(subagent_runs.c.id, subagent_runs.c.attempt)
    .where(
        subagent_runs.c.id.in_(bindparam("ids", expanding=True)),
        one_of(subagent_runs.c.status, UNFINISHED),
    )
    .order_by(subagent_runs.c.id)
    .with_for_update()
)


async def _update_runs(tx: Transaction, batch: Sequence[Step]) -> set[tuple[str, int]]:
    """Store the counts of runs; return the attempts that have their run."""
    if len(batch) == 1:
        (step,) = batch
        counts = _counts(step) | {"b_attempt": step.attempt}
        owned = (await tx.execute(_UPDATE_ATTEMPT, counts)).rowcount > 0
        return {(step.work_id, step.attempt)} if owned else set()
    if not batch:
        return set()
    ids = [step.work_id for step in batch]
    attempts = {(row.id, row.attempt) for row in await tx.execute(_ATTEMPTS, {"ids": ids})}
    mine = [_counts(step) for step in batch if (step.work_id, step.attempt) in attempts]
    if mine:
        await tx.execute(_UPDATE_RUN, mine)
    return attempts


def _counts(step: Step) -> Json:
    return {
        **step.counts,
        "b_id": step.work_id,
        "reserved_tokens": step.reserved_tokens,
        "tool_call_count": step.tool_calls,
        "seconds_used": step.seconds_used,
        "updated_at": step.now,
    }
