"""The engine: which process starts a piece of work, and what it does with work that is left."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from bot.engine import TAKEN_AT_ONCE, Engine
from bot.events import RunAdmitted
from bot.tasks import Tasks
from bot.values import Identity
from db import turns, work
from db.database import Database, DatabaseSettings
from tests.fakes.clock import FakeClock
from tests.fakes.outage import outage_of
from tests.fakes.patience import eventually
from tests.fakes.stored import Stored
from tests.fakes.watched_database import WatchedDatabase


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    owner = Tasks()
    yield owner
    await owner.close()


class Begun:
    """Work that a test lets end: it says which pieces have begun, and in which process."""

    def __init__(self) -> None:
        self.by: dict[str, list[str]] = {}
        self.may_end = asyncio.Event()
        self.on_begin: Callable[[], None] = lambda: None
        self._changed = asyncio.Event()

    def opened(
        self, database: Database, tasks: Tasks, name: str = "one", *, at_once: int = 100
    ) -> AbstractAsyncContextManager[Engine]:
        async def attempt(work_id: str) -> None:
            self.by.setdefault(name, []).append(work_id)
            self._changed.set()
            self.on_begin()
            await self.may_end.wait()

        return Engine(
            database,
            {"run": attempt, "turn": attempt},
            tasks=tasks,
            worker_id=name,
            platforms=["discord"],
            at_once=at_once,
        ).opened()

    async def wait_for(self, number: int) -> list[str]:
        """Wait until so many pieces have begun, and return them."""
        async with asyncio.timeout(20):
            while len(begun := [each for ids in self.by.values() for each in ids]) < number:
                self._changed.clear()
                await self._changed.wait()
        return begun


def is_of(stored: Stored, run_id: str, process: str) -> Callable[[], Awaitable[bool]]:
    """Look whether a process has a run."""

    async def look() -> bool:
        return (await stored.read_run(run_id)).worker_id == process

    return look


def admitted(run_id: str) -> RunAdmitted:
    return RunAdmitted(run_id=run_id, mode="async")


async def test_a_run_that_is_admitted_begins_at_once_in_one_process(
    database: Database, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    begun = Begun()
    async with begun.opened(database, tasks) as engine:
        run = await Stored(database, clock).run(alice, status="accepted")
        engine.on_run_admitted(admitted(run.id))
        engine.on_run_admitted(admitted(run.id))

        assert await begun.wait_for(1) == [run.id]
        await engine.resume()
        await engine.resume()
    assert begun.by == {"one": [run.id]}


async def test_a_delegated_run_is_left_to_the_turn_that_waits_for_it(
    database: Database, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    begun, stored = Begun(), Stored(database, clock)
    delegated = await stored.run(alice, status="accepted", mode="sync")
    run = await stored.run(alice, status="accepted")
    async with begun.opened(database, tasks) as engine:
        engine.on_run_admitted(RunAdmitted(run_id=delegated.id, mode="sync"))
        engine.offer()

        assert await begun.wait_for(1) == [run.id]


@pytest.mark.processes
async def test_two_processes_share_the_runs_of_both_and_neither_takes_one_twice(
    postgres_url: str, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    begun, settings = Begun(), DatabaseSettings(url=postgres_url)
    async with (
        Database.open(settings) as first,
        Database.open(settings) as second,
        begun.opened(first, tasks, "first", at_once=20) as engine,
        begun.opened(second, tasks, "second", at_once=20),
    ):
        stored = Stored(first, clock)
        runs = [await stored.run(alice, status="accepted") for _ in range(40)]
        engine.offer()

        assert sorted(await begun.wait_for(40)) == sorted(run.id for run in runs)
    assert {name: len(ids) for name, ids in begun.by.items()} == {"first": 20, "second": 20}


@pytest.mark.processes
async def test_more_runs_than_are_taken_in_one_transaction_all_begin(
    database: Database, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    begun, stored = Begun(), Stored(database, clock)
    runs = [await stored.run(alice, status="accepted") for _ in range(2 * TAKEN_AT_ONCE + 1)]
    async with begun.opened(database, tasks) as engine:
        engine.offer()
        assert sorted(await begun.wait_for(len(runs))) == sorted(run.id for run in runs)


async def test_a_process_that_drains_while_it_takes_work_stops_taking(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    async with WatchedDatabase.open(database_settings) as database:
        stored = Stored(database, clock)
        begun, more = Begun(), 3 * TAKEN_AT_ONCE
        runs = [await stored.run(alice, status="accepted") for _ in range(more)]
        async with begun.opened(database, tasks) as engine:
            begun.on_begin = engine.drain
            engine.offer()
            await begun.wait_for(1)
            before = database.transactions
            for run in runs:
                await stored.read_run(run.id)
            # These reads, what is given back, and what was being taken.
            assert database.transactions - before <= more + 2 * TAKEN_AT_ONCE


async def test_work_of_another_platform_is_left_to_a_process_that_can_answer_there(
    database: Database, clock: FakeClock, alice: Identity, bob: Identity, tasks: Tasks
) -> None:
    begun, stored = Begun(), Stored(database, clock)
    on_slack = await stored.run(bob, status="accepted")
    on_discord = await stored.run(alice, status="accepted")
    async with begun.opened(database, tasks) as engine:
        engine.offer()
        assert await begun.wait_for(1) == [on_discord.id]
    assert (await stored.read_run(on_slack.id)).worker_id == ""


async def test_work_that_is_taken_again_begins_when_its_former_attempt_has_ended(
    database: Database, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    """A process was taken for dead, and its attempt notices that only at its next step."""
    begun, stored = Begun(), Stored(database, clock)
    run = await stored.run(alice, status="accepted")
    async with begun.opened(database, tasks) as engine:
        engine.offer()
        await begun.wait_for(1)
        await database.write(work.free, ["another"])
        engine.offer()
        await eventually(is_of(stored, run.id, "one"), "the process takes the run again")

        begun.may_end.set()

        assert await begun.wait_for(2) == [run.id] * 2


async def test_work_of_a_dead_process_is_taken(
    database: Database, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    begun, stored = Begun(), Stored(database, clock)
    runs = [
        await stored.run(alice, status="running", worker_id=name, attempt=1)
        for name in ("dead", "alive")
    ]
    async with begun.opened(database, tasks) as engine:
        async with database.transaction() as tx:
            count = await engine.take_over(tx, ["one", "alive"])
        engine.offer()

        assert await begun.wait_for(1) == [runs[0].id]
    assert count == 1
    assert (await stored.read_run(runs[1].id)).worker_id == "alive"


async def test_work_that_ended_without_its_end_being_stored_is_started_again(
    database: Database, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    begun, stored = Begun(), Stored(database, clock)
    run = await stored.run(alice, status="running", worker_id="one", attempt=1)
    conversation = await stored.conversation(alice)
    turn = await stored.turn(alice, conversation)
    async with database.transaction() as tx:
        await turns.claim_next(tx, conversation, clock(), "one")
    async with begun.opened(database, tasks) as engine:
        await engine.resume()
        at_first = dict(begun.by)
        await engine.resume()

        assert sorted(await begun.wait_for(2)) == sorted([run.id, turn])
        for _ in range(2):
            await engine.resume()
    assert at_first == {}, "It may just be ending."
    assert len(begun.by["one"]) == 2, "What is active is not started again."


async def test_a_draining_process_leaves_its_work_to_the_others(
    postgres_url: str, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    begun, settings = Begun(), DatabaseSettings(url=postgres_url)
    async with (
        Database.open(settings) as first,
        Database.open(settings) as second,
        begun.opened(first, tasks, "draining") as draining,
        begun.opened(second, tasks, "other"),
    ):
        stored = Stored(first, clock)
        draining.drain()
        run = await stored.run(alice, status="accepted")
        draining.on_run_admitted(admitted(run.id))
        await begun.wait_for(1)
        claimed = await stored.run(alice, status="accepted", worker_id="draining")
        draining.start("run", claimed.id)

        await begun.wait_for(2)
    assert begun.by == {"other": [run.id, claimed.id]}


@pytest.mark.processes
async def test_notifications_arrive_again_after_an_outage(
    postgres_url: str, clock: FakeClock, alice: Identity, tasks: Tasks
) -> None:
    begun, settings = Begun(), DatabaseSettings(url=postgres_url)
    async with (
        Database.open(settings) as database,
        begun.opened(database, tasks) as engine,
        outage_of(postgres_url) as outage,
    ):
        stored = Stored(database, clock)
        first = await stored.run(alice, status="accepted")
        engine.offer()
        await begun.wait_for(1)
        await outage.begin()
        await outage.end()
        second = await stored.run(alice, status="accepted")
        engine.offer()

        assert await begun.wait_for(2) == [first.id, second.id]
