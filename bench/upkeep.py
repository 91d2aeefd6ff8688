"""The regular duties and the clean-up over many messages: how long they keep others waiting."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, Table, event, func, insert, select

from bench.postgres import MISSING, opened
from bench.server import CALLS
from bench.stage import Stage, open_server, open_stage
from bench.table import Row, Scale
from bot.values import Json, new_run_id, new_sortable_id, utc_now
from db.database import Database
from db.rows import place_columns
from db.tables import messages, steps, subagent_runs, turns

#: Every second message is younger by this time. The clean-up that is measured is done so much
#: later: the one at the start of the bot must not have done its work.
LATER = timedelta(days=400)
#: Messages for each run that was started.
MESSAGES_PER_RUN = 20
AT_ONCE = 2000
#: How often the watcher of the loop looks at the clock.
LOOK_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Found:
    """The times that were measured, in seconds.

    Statements on SQLite are done by the loop's thread and measured in its processor time, those on
    PostgreSQL by the clock.

    Attributes:
        duty: The longest statement of a regular duty, before anything was deleted.
        statement: The longest statement of the clean-up.
        blocked: The longest time that the loop did nothing else during the clean-up.
        at_work: The same in processor time of its thread: what other programs do is left out.
        cleaning: The whole clean-up.
        deleted: Messages that it deleted.
    """

    duty: float
    statement: float
    blocked: float
    at_work: float
    cleaning: float
    deleted: int


async def rows(scale: Scale) -> list[Row]:
    """Return the figures of both databases."""
    found = [_row("SQLite", scale.messages, await measure(scale.messages))]
    async with opened() as url:
        figure = f"duties over {scale.messages:,} messages, PostgreSQL"
        if url is None:
            return [*found, Row(figure, "report", MISSING)]
        return [*found, _row("PostgreSQL", scale.messages, await measure(scale.messages, url))]


def _row(database: str, count: int, found: Found) -> Row:
    return Row(
        f"duties over {count:,} messages and a clean-up of {found.deleted:,}, {database}",
        "report",
        f"longest statement of a regular duty {found.duty * 1000:.1f} ms, of the clean-up "
        f"{found.statement * 1000:.1f} ms; the clean-up blocks the loop for "
        f"{found.blocked * 1000:.1f} ms at most ({found.at_work * 1000:.1f} ms of processor time) "
        f"and takes {found.cleaning:.1f} s",
    )


async def measure(count: int, url: str = "") -> Found:
    """Store so many messages with their turns, steps and runs, and do every duty over them."""
    async with open_server() as server, open_stage(server, url) as stage:
        await _fill(stage, count)
        upkeep = stage.bot.upkeep
        regular = (upkeep.beat, upkeep.poll, upkeep.recover, upkeep.sweep, upkeep.release)
        # The rows that were stored are no part of what is measured.
        gc.collect()
        clock = time.thread_time if stage.bot.database.is_sqlite else time.perf_counter
        with longest_statement(clock) as duty:
            for each in (*regular, *upkeep.further()):
                await each()
        before = await _count(stage.bot.database)
        retention = replace(upkeep.retention, now=lambda: utc_now() + LATER)
        with longest_statement(clock) as statement:
            began = time.monotonic()
            blocked, at_work = await _longest_blocks(retention.apply)
            cleaning = time.monotonic() - began
        deleted = before - await _count(stage.bot.database)
        return Found(max(duty), max(statement), blocked, at_work, cleaning, deleted)


@contextmanager
def longest_statement(clock: Callable[[], float]) -> Iterator[list[float]]:
    """Give the durations of the bot's own statements inside the block."""
    found: list[float] = [0.0]

    def before(connection: Any, *_: Any) -> None:
        connection.info["began"] = clock()

    def after(connection: Any, *_: Any) -> None:
        found.append(clock() - connection.info["began"])

    event.listen(Engine, "before_cursor_execute", before)
    event.listen(Engine, "after_cursor_execute", after)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", before)
        event.remove(Engine, "after_cursor_execute", after)


async def _longest_blocks(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Do some work, and return the longest time in which the loop did not get to anything else.

    Returns:
        That time by the clock, and the longest by the processor time of the loop's thread.
    """
    longest = [0.0, 0.0]

    async def watch() -> None:
        while True:
            before = time.perf_counter(), time.thread_time()
            await asyncio.sleep(LOOK_SECONDS)
            longest[0] = max(longest[0], time.perf_counter() - before[0] - LOOK_SECONDS)
            longest[1] = max(longest[1], time.thread_time() - before[1])

    watching = asyncio.ensure_future(watch())
    await asyncio.sleep(0)
    try:
        await work()
    finally:
        watching.cancel()
    return longest[0], longest[1]


async def _count(database: Database) -> int:
    async with database.snapshot() as tx:
        return await tx.scalar(select(func.count()).select_from(messages)) or 0


async def _fill(stage: Stage, count: int) -> None:
    """Store messages in pairs, each with its turn and its steps, and some runs with theirs."""
    now, found = utc_now(), _Rows(stage)
    for number in range(count // 2):
        found.pair(number, now if number % 2 else now + LATER)
    for number in range(count // MESSAGES_PER_RUN):
        found.run(number, now if number % 2 else now + LATER)
    for table, stored in found.by_table:
        for first in range(0, len(stored), AT_ONCE):
            async with stage.bot.database.transaction() as tx:
                await tx.execute(insert(table), stored[first : first + AT_ONCE])


class _Rows:
    """Rows of conversations that were held and of runs that have ended."""

    def __init__(self, stage: Stage) -> None:
        self._callers = stage.callers
        self._messages: list[Json] = []
        self._turns: list[Json] = []
        self._steps: list[Json] = []
        self._runs: list[Json] = []

    @property
    def by_table(self) -> Sequence[tuple[Table, list[Json]]]:
        """The rows, in an order in which they can be stored."""
        return (
            (messages, self._messages),
            (turns, self._turns),
            (steps, self._steps),
            (subagent_runs, self._runs),
        )

    def pair(self, number: int, when: datetime) -> None:
        """Add a message and its answer."""
        caller = self._callers[number % len(self._callers)]
        turn = {"turn_id": new_sortable_id(), "conversation_id": caller.conversation_id}
        said, answered = (
            {"id": new_sortable_id(), "role": role, "text": "words " * 40, "created_at": when}
            for role in ("user", "assistant")
        )
        self._messages += [said | turn, answered | turn]
        self._turns.append(
            {
                "id": turn["turn_id"],
                "conversation_id": caller.conversation_id,
                "user_id": caller.user.key,
                "message_id": said["id"],
                "status": "done",
                "created_at": when,
                "ended_at": when,
                **place_columns(caller.place),
            }
        )
        self._steps.append(_step(turn["turn_id"], 0, when))

    def run(self, number: int, when: datetime) -> None:
        """Add a run that has ended."""
        caller, run_id = self._callers[number % len(self._callers)], new_run_id()
        self._runs.append(
            {
                "id": run_id,
                "user_id": caller.user.key,
                "conversation_id": caller.conversation_id,
                "number": number + 1,
                "task": "Look it up.",
                "status": "completed",
                "result": "words " * 200,
                "transcript": [{"text": "words " * 100}] * CALLS,
                "token_budget": 1,
                "max_steps": 1,
                "timeout_ms": 1,
                "created_at": when,
                "updated_at": when,
                "completed_at": when,
                **place_columns(caller.place),
            }
        )
        self._steps += [_step(run_id, seq, when) for seq in range(CALLS)]


def _step(work_id: str, seq: int, when: datetime) -> Json:
    body = {"text": "words " * 100}
    return {"work_id": work_id, "seq": seq, "kind": "answer", "body": body, "created_at": when}
