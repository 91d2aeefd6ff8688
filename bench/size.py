"""Measures the cost of a message in a large database beside the same database when empty."""

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Table, insert

from bench.postgres import MISSING, opened
from bench.stage import Stage, open_server, open_stage
from bench.table import Row, Scale
from bench.times import say
from bench.upkeep import AT_ONCE, longest_statement
from bot.values import Json, new_run_id, new_sortable_id, utc_now
from db.rows import place_columns
from db.tables import conversations, messages, steps, subagent_runs, turns

PEOPLE = 200
#: Older than the runs that a turn is told of.
AGE = timedelta(days=2)
#: Of each stored conversation.
TURNS, RUNS = 5, 5
STEPS_PER_RUN = 18
#: Messages in a conversation before those that are measured, and repetitions of the measurement.
BEFORE, REPETITIONS = 40, 5


@dataclass(frozen=True, slots=True)
class Found:
    """The times that were measured, in seconds.

    Attributes:
        empty: Processor time of a message, in the middle of the repetitions.
        full: The same when the rows are stored.
        asked: The time of the statements of a message when the database is empty.
        asked_full: The same when the rows are stored.
        statement: The longest statement of the messages with the rows stored.

    Statements are measured on SQLite in processor time of the loop's thread, on PostgreSQL by the
    clock; those of the regular duties are among them.
    """

    empty: float
    full: float
    asked: float
    asked_full: float
    statement: float


async def rows(scale: Scale) -> list[Row]:
    """Return the figures of both databases."""
    found = [_row("SQLite", scale.conversations, await measure(scale.conversations, scale.counted))]
    async with opened() as url:
        if url is None:
            return [*found, Row("a message in a large database, PostgreSQL", "≤ 1.1", MISSING)]
        measured = await measure(scale.conversations, scale.counted, url)
        return [*found, _row("PostgreSQL", scale.conversations, measured)]


def _row(database: str, count: int, found: Found) -> Row:
    runs = count * RUNS
    return Row(
        f"a message in a database of {count:,} conversations, {runs:,} runs and "
        f"{runs * STEPS_PER_RUN + count * TURNS * 2:,} steps ÷ an empty one, {database}",
        "≤ 1.1; longest statement ≤ 10 ms",
        f"{found.full / found.empty:.2f}: {found.full * 1000:.1f} ms of CPU, empty "
        f"{found.empty * 1000:.1f} ms; its statements {found.asked_full * 1000:.1f} ms, empty "
        f"{found.asked * 1000:.1f} ms; longest statement {found.statement * 1000:.1f} ms",
    )


async def measure(count: int, samples: int, url: str = "") -> Found:
    """Measure messages before and after so many conversations are stored."""
    async with open_server() as server, open_stage(server, url, people=PEOPLE) as stage:
        clock = time.thread_time if stage.bot.database.is_sqlite else time.perf_counter
        said = REPETITIONS * (BEFORE + samples)
        with longest_statement(clock) as before:
            empty = [await _cost(stage, number, samples) for number in range(REPETITIONS)]
        await _fill(stage, count)
        gc.collect()
        with longest_statement(clock) as after:
            full = [await _cost(stage, REPETITIONS + each, samples) for each in range(REPETITIONS)]
        return Found(
            empty=_middle(empty),
            full=_middle(full),
            asked=sum(before) / said,
            asked_full=sum(after) / said,
            statement=max(after),
        )


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


async def _cost(stage: Stage, speaker: int, samples: int) -> float:
    """Return the processor time of a message of one user, whose conversation is new."""
    await say(stage, BEFORE, speaker)
    began = time.process_time()
    await say(stage, samples, speaker)
    return (time.process_time() - began) / samples


async def _fill(stage: Stage, count: int) -> None:
    """Store conversations that were held, with their messages, turns, runs and steps."""
    waiting: dict[Table, list[Json]] = {}
    for number in range(count):
        for table, row in _conversation(stage, number):
            waiting.setdefault(table, []).append(row)
        if number % 100 == 0 or number == count - 1:
            await _store(stage, waiting)
            waiting = {}


async def _store(stage: Stage, waiting: dict[Table, list[Json]]) -> None:
    for table, stored in waiting.items():
        for first in range(0, len(stored), AT_ONCE):
            async with stage.bot.database.transaction() as tx:
                await tx.execute(insert(table), stored[first : first + AT_ONCE])


def _conversation(stage: Stage, number: int) -> Iterator[tuple[Table, Json]]:
    """Yield the rows of one conversation, in an order in which they can be stored."""
    caller, here = stage.callers[number % len(stage.callers)], new_sortable_id()
    now = utc_now() - AGE
    common: Json = {"user_id": caller.user.key, "created_at": now}
    common |= place_columns(caller.place) | {"place_thread": f"thread {number}"}
    yield conversations, {**common, "id": here, "shared": False}
    for _ in range(TURNS):
        turn_id, asked, answered = (new_sortable_id() for _ in range(3))
        said: Json = {"conversation_id": here, "text": "words " * 20, "created_at": now}
        yield messages, {**said, "id": asked, "role": "user", "turn_id": None}
        yield messages, {**said, "id": answered, "role": "assistant", "turn_id": turn_id}
        ended: Json = {"id": turn_id, "conversation_id": here, "message_id": asked}
        yield turns, {**common, **ended, "status": "done", "seen_id": asked, "ended_at": now}
        yield from ((steps, _step(turn_id, seq, now)) for seq in range(2))
    for each in range(RUNS):
        run_id = new_run_id()
        run: Json = {"id": run_id, "conversation_id": here, "number": number * RUNS + each + 1}
        run |= {"task": "Look it up.", "status": "completed", "result": "words " * 20}
        run |= {"token_budget": 1, "max_steps": 1, "timeout_ms": 1, "card_drawn": True}
        # As the clean-up has left it, which would otherwise be at work on all of them.
        over = {"updated_at": now, "completed_at": now, "archived_at": now}
        yield subagent_runs, {**common, **run, **over}
        yield from ((steps, _step(run_id, seq, now)) for seq in range(STEPS_PER_RUN))


def _step(work_id: str, seq: int, now: Any) -> Json:
    body = {"text": "words " * 10}
    return {"work_id": work_id, "seq": seq, "kind": "answer", "body": body, "created_at": now}
