"""Stores the steps of turns and runs, from which interrupted work resumes."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from bot.errors import FencedError
from bot.tasks import Tasks
from bot.values import UNFINISHED, Json
from db import workers
from db.database import Database, Transaction, is_connection_trouble, patiently
from db.tables import run_messages, steps, subagent_runs, turns
from db.types import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A row of steps, with all values that are stored along with it.

    Attributes:
        table: The table of the work: `runs` or `turns`.
        attempt: The attempt that writes it; a stale attempt writes nothing.
        seconds_used: Working time so far (runs).
        read: Ids of the messages to the run that this step has read.
        number: Number of the answer, recorded on these messages.
    """

    table: Literal["runs", "turns"]
    work_id: str
    attempt: int
    seq: int
    kind: str
    body: Json
    now: datetime
    input_tokens: int = 0
    output_tokens: int = 0
    discounted_tokens: int = 0
    reserved_tokens: int = 0
    tool_calls: int = 0
    seconds_used: float = 0.0
    read: tuple[str, ...] = ()
    number: int = 0


#: Number of the row with the transcript of the run that this run continues: before its own steps.
CARRIED = -1


async def load(tx: Transaction, work_id: str) -> list[tuple[int, str, Json]]:
    """Return (seq, kind, body) of every step of a piece of work, in order."""
    rows = await tx.execute(
        select(steps.c.seq, steps.c.kind, steps.c.body)
        .where(steps.c.work_id == work_id, steps.c.seq > CARRIED)
        .order_by(steps.c.seq)
    )
    return [(row.seq, row.kind, row.body) for row in rows]


async def carry(tx: Transaction, work_id: str, body: Json, now: datetime) -> None:
    """Store the transcript that a run takes over from the run that it continues."""
    row = {"work_id": work_id, "seq": CARRIED, "kind": "carried", "body": body, "created_at": now}
    await tx.execute(_INSERT, row)


async def carried(tx: Transaction, work_id: str) -> Json | None:
    """Return the transcript that a run took over from an earlier run; `None` for none."""
    this = (steps.c.work_id == work_id, steps.c.seq == CARRIED)
    body: Json | None = await tx.scalar(select(steps.c.body).where(*this))
    return body


async def begin_with(tx: Transaction, work_id: str, body: Json, now: datetime) -> None:
    """Store the first step of a turn that no process works on yet."""
    row = {"work_id": work_id, "seq": 0, "kind": "answer", "body": body, "created_at": now}
    await tx.execute(_INSERT, row)


async def count(tx: Transaction, work_id: str) -> int:
    """Return the number of answers that a piece of work has so far."""
    query = select(func.count()).where(steps.c.work_id == work_id, steps.c.kind == "answer")
    return await tx.scalar(query) or 0


_Waiting = tuple[Step, "asyncio.Future[None]"]

#: `BUSY_STEPS` steps within `BUSY_SECONDS` mean that many runs are at work; their steps are then
#: gathered for `GATHER_SECONDS` and stored together.
BUSY_STEPS = 16
BUSY_SECONDS = 0.4
GATHER_SECONDS = 0.02
#: Shortest time between two heartbeats that are stored along with steps.
HEARTBEAT_SECONDS = 2.0


class StepWriter:
    """Stores steps; concurrent ones are committed together.

    One flush at a time: steps that arrive while it waits for the database go into the next
    transaction together, so that a hundred runs cost little more than one. Storing steps counts
    as a heartbeat of the process, beside its regular ones.
    """

    def __init__(
        self,
        database: Database,
        tasks: Tasks,
        *,
        worker_id: str = "",
        stored: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Create the writer of a process.

        Args:
            database: The database.
            tasks: Owns the writing task.
            worker_id: Id of the process, for its heartbeats; empty for none.
            stored: Called with the id of the work after each stored step.
        """
        self._database = database
        self._tasks = tasks
        self._worker_id = worker_id
        self._stored = stored
        self._heartbeat_at = -HEARTBEAT_SECONDS
        self._waiting: list[_Waiting] = []
        self._flushing = False
        self._lately: deque[float] = deque(maxlen=BUSY_STEPS)

    async def write(self, step: Step) -> None:
        """Return once the step is committed.

        While the database is unreachable, this waits for at most a minute.

        Raises:
            FencedError: Another attempt has the work, or the work is over.
        """
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()
        self._waiting.append((step, stored))
        self._lately.append(loop.time())
        if not self._flushing:
            self._flushing = True
            self._tasks.start(self._flush(), name="step writer", fresh_context=True)
        await stored
        self._stored(step.work_id)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                await self._flush_once()
        finally:
            self._flushing = False

    async def _gather(self) -> None:
        """Wait briefly for more steps when many runs are at work; a user's turn never waits."""
        lately = self._lately
        busy = len(lately) == BUSY_STEPS and lately[-1] - lately[0] < BUSY_SECONDS
        if busy and all(step.table == "runs" for step, _ in self._waiting):
            await asyncio.sleep(GATHER_SECONDS)

    async def _flush_once(self) -> None:
        batch: list[_Waiting] = []

        async def store() -> list[bool]:
            async with self._database.transaction() as tx:
                self._move_to(batch)
                owned = await _store(tx, [step for step, _ in batch])
                await self._heartbeat(tx)
                return owned

        try:
            owned = await patiently(store)
        except Exception as error:  # noqa: BLE001 - raised in the caller
            self._move_to(batch)
            await self._refused(batch, error)
        except BaseException:
            self._move_to(batch)
            raise
        else:
            for (_, stored), mine in zip(batch, owned, strict=True):
                _tell(stored, fenced=not mine)
        finally:
            # On cancellation no caller may wait for ever.
            for _, stored in batch:
                stored.cancel()

    async def _heartbeat(self, tx: Transaction) -> None:
        """Store a heartbeat at the end of a transaction, since it locks the worker's row."""
        now = asyncio.get_running_loop().time()
        if (
            self._worker_id
            and not self._database.is_sqlite
            and now - self._heartbeat_at >= HEARTBEAT_SECONDS
        ):
            await workers.heartbeat(tx, self._worker_id)
            self._heartbeat_at = now

    def _move_to(self, batch: "list[_Waiting]") -> None:
        batch += self._waiting
        self._waiting.clear()

    async def _refused(self, batch: "Sequence[_Waiting]", error: Exception) -> None:
        """Fail the waiting callers; if one step caused the error, store the others without it."""
        if isinstance(error, DBAPIError) and not is_connection_trouble(error):
            for step, stored in batch:
                await self._alone(step, stored)
            return
        for _, stored in batch:
            _fail(stored, error)

    async def _alone(self, step: Step, stored: "asyncio.Future[None]") -> None:
        try:
            mine = await patiently(partial(self._store_alone, step))
        except Exception as error:  # noqa: BLE001 - raised in the caller
            _fail(stored, error)
        else:
            _tell(stored, fenced=not mine)

    async def _store_alone(self, step: Step) -> bool:
        """Store a step unless it is stored already; return True if its attempt has the work."""
        try:
            async with self._database.transaction() as tx:
                (mine,) = await _store(tx, [step])
                return mine
        except IntegrityError:
            return await self._is_there(step)

    async def _is_there(self, step: Step) -> bool:
        """Return True if this very step was committed before the connection broke."""
        async with self._database.snapshot() as tx:
            rows = await load(tx, step.work_id)
        return (step.seq, step.kind, json.loads(to_json(step.body))) in rows


def _tell(stored: "asyncio.Future[None]", *, fenced: bool) -> None:
    if fenced:
        _fail(stored, FencedError("this work has been taken over"))
    elif not stored.done():
        stored.set_result(None)


def _fail(stored: "asyncio.Future[None]", error: Exception) -> None:
    if not stored.done():
        stored.set_exception(error)


_UNFINISHED = [str(status) for status in UNFINISHED]

_INSERT = insert(steps)

_UPDATE_RUN = (
    update(subagent_runs)
    .where(subagent_runs.c.id == bindparam("b_id"))
    .values(
        input_tokens=bindparam("b_input"),
        output_tokens=bindparam("b_output"),
        discounted_tokens=bindparam("b_discounted"),
        reserved_tokens=bindparam("b_reserved"),
        tool_call_count=bindparam("b_calls"),
        seconds_used=bindparam("b_seconds"),
        updated_at=bindparam("b_now"),
        crashes=0,
    )
)

_UPDATE_TURN = (
    update(turns)
    .where(turns.c.id == bindparam("b_id"))
    .values(input_tokens=bindparam("b_input"), output_tokens=bindparam("b_output"), crashes=0)
)

_READ = (
    update(run_messages)
    .where(run_messages.c.id == bindparam("b_id"))
    .values(read_at_step=bindparam("b_step"))
)

_RUN_ATTEMPTS = (
    select(subagent_runs.c.id, subagent_runs.c.attempt)
    .where(
        subagent_runs.c.id.in_(bindparam("ids", expanding=True)),
        subagent_runs.c.status.in_(_UNFINISHED),
    )
    .order_by(subagent_runs.c.id)
    .with_for_update()
)

_TURN_ATTEMPTS = (
    select(turns.c.id, turns.c.attempt)
    .where(turns.c.id.in_(bindparam("ids", expanding=True)), turns.c.status == "running")
    .order_by(turns.c.id)
    .with_for_update()
)


async def _store(tx: Transaction, batch: Sequence[Step]) -> list[bool]:
    """Store the steps whose attempts have the work; return for each step if its attempt has it."""
    owned: set[tuple[str, int]] = set()
    for table, query in (("runs", _RUN_ATTEMPTS), ("turns", _TURN_ATTEMPTS)):
        ids = [step.work_id for step in batch if step.table == table]
        if ids:
            owned |= {(row.id, row.attempt) for row in await tx.execute(query, {"ids": ids})}
    mine = [step for step in batch if (step.work_id, step.attempt) in owned]
    if mine:
        await tx.execute(_INSERT, [_row(step) for step in mine])
        await _update(tx, mine)
    return [(step.work_id, step.attempt) in owned for step in batch]


async def _update(tx: Transaction, mine: Sequence[Step]) -> None:
    of_runs = [_counts(step) for step in mine if step.table == "runs"]
    if of_runs:
        await tx.execute(_UPDATE_RUN, of_runs)
    of_turns = [_counts(step) for step in mine if step.table == "turns"]
    if of_turns:
        await tx.execute(_UPDATE_TURN, of_turns)
    read = [{"b_id": key, "b_step": step.number} for step in mine for key in step.read]
    if read:
        await tx.execute(_READ, read)


def _row(step: Step) -> Json:
    return {
        "work_id": step.work_id,
        "seq": step.seq,
        "kind": step.kind,
        "body": step.body,
        "created_at": step.now,
    }


def _counts(step: Step) -> Json:
    counts = {"b_id": step.work_id, "b_input": step.input_tokens, "b_output": step.output_tokens}
    if step.table == "runs":
        counts |= {
            "b_discounted": step.discounted_tokens,
            "b_reserved": step.reserved_tokens,
            "b_calls": step.tool_calls,
            "b_seconds": step.seconds_used,
            "b_now": step.now,
        }
    return counts
