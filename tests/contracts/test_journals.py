"""What every journal promises: the one in memory that other tests use, and the stored one."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

import pytest

from bot.agent.journal import StoredJournal
from bot.agent.messages import (
    Answer,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)
from bot.agent.protocols import AnswerEntry, Counters, Entry, Journal, ResultEntry
from bot.errors import FencedError
from bot.tasks import Tasks
from bot.values import Identity, Place, RunStatus
from db import conversations, run_claims, runs, turns
from db.database import Database, DatabaseSettings
from db.steps import StepWriter
from tests.fakes.around import MemoryJournal, Shelf
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet, store_run

FIRST = AnswerEntry(
    None,
    Answer(
        "Let me look. ☃",
        (
            ToolCall("a", "search", {"query": "tea", "deep": [1, {"x": None}]}),
            ToolCall("b", "x", {}, "{"),
        ),
        StopReason.TOOL_CALLS,
        Usage(1, 2, 3, 4),
        "some-model",
        [{"type": "thinking", "signature": "s"}],
    ),
)
RESULT = ResultEntry(1, 0, ToolResult("a", "Sent.\nTwice.", failed=True))
SECOND = AnswerEntry(
    ToolResults((ToolResult("a", "Sent."), ToolResult("b", "No.", failed=True)), "Hurry."),
    Answer("", stop=StopReason.PAUSE),
    read=("m1", "m2"),
)
LAST = AnswerEntry(UserMessage("Your time is up."), Answer("Done."), RunStatus.TIMEOUT)
ENTRIES: list[Entry] = [FIRST, RESULT, SECOND, LAST]


class Work(Protocol):
    """A piece of work whose steps are kept somewhere."""

    async def begin(self) -> int:
        """Begin the next attempt and return its number."""
        ...

    def journal(self, attempt: int) -> Journal:
        """Return a journal of that attempt."""
        ...

    async def end(self) -> None:
        """End the work."""
        ...


@dataclass
class WorkInMemory:
    shelf: Shelf = field(default_factory=lambda: Shelf(attempt=0))

    async def begin(self) -> int:
        self.shelf.attempt += 1
        return self.shelf.attempt

    def journal(self, attempt: int) -> MemoryJournal:
        return MemoryJournal(self.shelf, attempt)

    async def end(self) -> None:
        self.shelf.attempt += 1


@dataclass
class StoredWork:
    database: Database
    writer: StepWriter
    table: Literal["runs", "turns"]
    work_id: str
    clock: FakeClock

    async def begin(self) -> int:
        async with self.database.transaction() as tx:
            if self.table == "turns":
                begun = await turns.begin(tx, self.work_id, worker_id="w", now=self.clock())
                return begun.attempt if begun else 0
            claimed = await run_claims.claim(
                tx, self.work_id, worker_id="w", reserve=0, now=self.clock()
            )
            return claimed.attempt if claimed else 0

    def journal(self, attempt: int) -> StoredJournal:
        return StoredJournal(
            database=self.database,
            writer=self.writer,
            table=self.table,
            work_id=self.work_id,
            attempt=attempt,
            now=self.clock,
        )

    async def end(self) -> None:
        now = self.clock()
        async with self.database.transaction() as tx:
            if self.table == "turns":
                turn = await turns.get(tx, self.work_id)
                assert turn is not None
                assert await turns.end(tx, turn, status="done", now=now)
            else:
                assert await runs.finish(
                    tx, self.work_id, {"status": "completed"}, attempt=None, now=now
                )


@pytest.fixture(params=["memory", "sqlite runs", "sqlite turns", "postgres runs", "postgres turns"])
def kind(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Where the steps are kept, and what they are steps of."""
    where, _, table = request.param.partition(" ")
    return (request.getfixturevalue(f"{where}_url") if table else "", table)


@pytest.fixture
async def work(kind: tuple[str, str], clock: FakeClock, alice: Identity) -> AsyncIterator[Work]:
    url, table = kind
    if not table:
        yield WorkInMemory()
        return
    tasks = Tasks()
    async with Database.open(DatabaseSettings(url=url)) as database:
        await meet(database, alice, clock())
        writer = StepWriter(database, tasks)
        if table == "turns":
            turn_id = await begin_turn(database, alice, clock)
            yield StoredWork(database, writer, "turns", turn_id, clock)
        else:
            run_id = await store_run(database, alice, clock())
            yield StoredWork(database, writer, "runs", run_id, clock)
        await tasks.close()


async def begin_turn(database: Database, user: Identity, clock: FakeClock) -> str:
    place = Place("discord", channel="general")
    async with database.transaction() as tx:
        talk = await conversations.find_or_open(tx, user, place, clock())
        turn_id = await turns.add(tx, talk, user=user, place=place, message_id="m", now=clock())
        assert await turns.claim_next(tx, talk, clock(), "w") == turn_id
    return turn_id


async def test_a_first_attempt_finds_nothing(work: Work) -> None:
    journal = work.journal(await work.begin())

    assert await journal.load() == []


async def test_the_next_attempt_finds_what_was_written_in_order(work: Work) -> None:
    await write(work.journal(await work.begin()), *ENTRIES)

    assert await work.journal(await work.begin()).load() == ENTRIES


async def test_each_attempt_goes_on_where_the_one_before_it_ended(work: Work) -> None:
    for entry in ENTRIES:
        journal = work.journal(await work.begin())
        await journal.load()
        await write(journal, entry)

    assert await work.journal(await work.begin()).load() == ENTRIES


async def test_results_that_come_together_are_all_kept(work: Work) -> None:
    results = [ResultEntry(1, index, ToolResult(str(index), "Sent.")) for index in range(8)]
    journal = work.journal(await work.begin())
    await write(journal, FIRST)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for result in results:
            group.create_task(journal.write(result, Counters()))

    assert await work.journal(await work.begin()).load() == [FIRST, *results]


async def test_a_stale_attempt_is_refused_and_changes_nothing(work: Work) -> None:
    stale = work.journal(await work.begin())
    await write(stale, FIRST)
    fresh = work.journal(await work.begin())
    await fresh.load()
    for entry in (RESULT, SECOND):
        with pytest.raises(FencedError):
            await stale.write(entry, Counters())

    await write(fresh, SECOND)
    assert await work.journal(await work.begin()).load() == [FIRST, SECOND]


async def test_of_two_writers_of_one_attempt_the_slower_is_refused(work: Work) -> None:
    attempt = await work.begin()
    quick, slow = work.journal(attempt), work.journal(attempt)
    await write(quick, FIRST)

    with pytest.raises(FencedError):
        await slow.write(SECOND, Counters())
    assert await work.journal(await work.begin()).load() == [FIRST]


async def test_nothing_is_written_once_the_work_is_over(work: Work) -> None:
    journal = work.journal(await work.begin())
    await write(journal, FIRST)
    await work.end()

    with pytest.raises(FencedError):
        await journal.write(SECOND, Counters())


async def write(journal: Journal, *entries: Entry) -> None:
    for entry in entries:
        await journal.write(entry, Counters())
