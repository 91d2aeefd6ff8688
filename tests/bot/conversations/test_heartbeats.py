"""Which process counts as dead, and what a lock that another process holds delays."""

import asyncio
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any, cast

import pytest
from sqlalchemy import text

from bot.conversations.announcements import Announcements
from bot.conversations.commands import CommandRunner
from bot.conversations.durable_commands import DurableCommands
from bot.conversations.settings import ConversationSettings
from bot.conversations.upkeep import Heartbeat, Upkeep
from bot.errors import DatabaseUnreachableError
from bot.subagents.limits import SubagentSettings
from bot.tasks import Tasks
from bot.values import Clock, Identity, utc_now
from db import database as database_module
from db import workers
from db.database import Database, DatabaseSettings
from db.steps import Step, StepWriter
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngine
from tests.fakes.office import FakeOffice
from tests.fakes.stored import Stored


class Stopwatch:
    """A monotonic clock that moves when a test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def upkeep(database: Database, name: str, *, now: Clock, monotonic: Callable[[], float]) -> Upkeep:
    """Return the duties of one process, with the parts that taking over needs."""
    settings = SubagentSettings()
    parts: dict[str, Any] = {field.name: None for field in fields(Upkeep)}
    parts |= {
        "database": database,
        "engine": FakeEngine(),
        "worker_id": name,
        "platforms": ["fake"],
        "announcements": Announcements(database, {}, tasks=Tasks(), worker_id=name, now=now),
        "endings": FakeOffice(database, settings, now).endings,
        "settings": settings,
        "configuration": str,
        "version": "",
        "typed": DurableCommands(
            cast(CommandRunner, None),
            database,
            Tasks(),
            name,
            lambda *_: None,
            ConversationSettings(),
            now,
        ),
        "now": now,
        "further": (),
        "on_crashes": lambda _: None,
        "heartbeat": Heartbeat(monotonic),
    }
    return Upkeep(**parts)


def taken_for_alive(duties: Upkeep) -> list[set[str]]:
    """Return whom these duties took for alive, each time they looked for dead processes."""
    engine = duties.engine
    assert isinstance(engine, FakeEngine)
    return engine.taken_over


async def beat_for(duties: Upkeep, watch: Stopwatch, *others: Upkeep, seconds: int) -> None:
    """Let processes send their heartbeats for a while."""
    for _ in range(seconds // 2):
        watch.seconds += 2
        for each in (duties, *others):
            await each.beat()


async def grow_silent(database: Database, name: str, *, seconds: int = 60) -> None:
    """Let the newest sign of life of a process be this old."""
    async with database.transaction() as tx:
        await tx.execute(
            text(
                "UPDATE workers SET beat_at = beat_at - make_interval(secs => :seconds) "
                "WHERE id = :id"
            ),
            {"id": name, "seconds": seconds},
        )


@pytest.mark.processes
@pytest.mark.parametrize("ahead_seconds", [20, -20, 3600])
async def test_a_clock_that_is_wrong_declares_nobody_dead(
    postgres_url: str, ahead_seconds: int
) -> None:
    watch = Stopwatch()
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        wrong = upkeep(
            database,
            "wrong",
            now=lambda: utc_now() + timedelta(seconds=ahead_seconds),
            monotonic=watch,
        )
        right = upkeep(database, "right", now=utc_now, monotonic=watch)
        for each in (wrong, right):
            await each.enter()
        await beat_for(wrong, watch, right, seconds=12)
        for each in (wrong, right):
            await each.take_over()

        assert taken_for_alive(wrong) == [{"wrong", "right"}]
        assert taken_for_alive(right) == [{"wrong", "right"}]


@pytest.mark.processes
@pytest.mark.parametrize(("silent", "taken"), [(9, False), (11, True), (60, False)])
async def test_a_death_is_noticed_between_two_sweeps_and_once(
    postgres_url: str, silent: int, taken: bool
) -> None:
    watch = Stopwatch()
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        duties = upkeep(database, "me", now=utc_now, monotonic=watch)
        other = upkeep(database, "other", now=utc_now, monotonic=watch)
        for each in (duties, other):
            await each.enter()
        await beat_for(duties, watch, other, seconds=12)
        await grow_silent(database, "other", seconds=silent)

        await duties.notice_deaths()

        assert taken_for_alive(duties) == ([{"me"}] if taken else [])


async def test_a_process_whose_connections_are_all_in_use_still_sends_its_heartbeat(
    postgres_url: str,
) -> None:
    settings = DatabaseSettings(url=postgres_url, pool_size=1)
    async with Database.open(settings) as busy, Database.open(settings) as others:
        duties = upkeep(busy, "busy", now=utc_now, monotonic=Stopwatch())
        await duties.enter()
        await grow_silent(others, "busy")

        async with busy.transaction():
            await duties.beat()

        async with others.snapshot() as tx:
            assert await workers.alive(tx, timedelta(seconds=10)) == ["busy"]


async def test_a_process_that_stores_steps_is_alive_without_heartbeats(
    postgres_url: str, alice: Identity
) -> None:
    tasks = Tasks()
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        stored = Stored(database, FakeClock())
        run = await stored.run(alice, status="running", attempt=1)
        async with database.transaction() as tx:
            await workers.start(tx, "working", ["fake"])
            await workers.start(tx, "silent", ["fake"])
        for name in ("working", "silent"):
            await grow_silent(database, name)

        await StepWriter(database, tasks, worker_id="working").write(
            Step(
                table="runs",
                work_id=run.id,
                attempt=1,
                seq=0,
                kind="answer",
                body={},
                now=utc_now(),
            )
        )

        async with database.snapshot() as tx:
            assert await workers.alive(tx, timedelta(seconds=10)) == ["working"]
    await tasks.close()


async def test_a_process_that_was_frozen_itself_declares_nobody_dead(postgres_url: str) -> None:
    watch = Stopwatch()
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        frozen = upkeep(database, "frozen", now=utc_now, monotonic=watch)
        other = upkeep(database, "other", now=utc_now, monotonic=watch)
        for each in (frozen, other):
            await each.enter()
        await beat_for(frozen, watch, other, seconds=12)

        watch.seconds += 30
        await grow_silent(database, "other")
        await frozen.take_over()
        await frozen.beat()
        await frozen.take_over()
        after_the_freeze = taken_for_alive(frozen).copy()
        await beat_for(frozen, watch, seconds=6)
        await frozen.take_over()

        assert after_the_freeze == []
        assert taken_for_alive(frozen) == [{"frozen"}]


async def test_an_admission_waits_for_its_lock_for_a_moment_and_is_then_refused_with_the_reason(
    postgres_url: str, alice: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert database_module.ADMISSION_WAIT_SECONDS <= 3
    monkeypatch.setattr(database_module, "ADMISSION_WAIT_SECONDS", 0.2)
    settings = DatabaseSettings(url=postgres_url, pool_size=2)
    async with Database.open(settings) as frozen, Database.open(settings) as database:
        office = FakeOffice(database, SubagentSettings(), utc_now)
        await Stored(database, utc_now).person(alice)
        async with frozen.admission():
            refused = [
                asyncio.ensure_future(office.spawn(alice, f"Count sheep {n}")) for n in range(5)
            ]
            # Those that wait take no more than one connection: everything else goes on.
            async with database.snapshot() as tx:
                assert await tx.scalar(text("SELECT 1")) == 1
            await asyncio.wait(refused)
            outcomes = [each.exception() for each in refused]

        assert [type(each) for each in outcomes] == [DatabaseUnreachableError] * 5
        assert all("busy" in str(each) for each in outcomes)
        assert (await office.spawn(alice, "Count sheep again")).task == "Count sheep again"


async def test_a_long_queue_of_admissions_that_moves_refuses_none(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "ADMISSION_WAIT_SECONDS", 1.0)
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:

        async def admit() -> None:
            async with database.admission() as tx:
                await tx.execute(text("SELECT pg_sleep(0.1)"))

        async with asyncio.TaskGroup() as group:
            admitted = [group.create_task(admit()) for _ in range(20)]

        assert all(each.done() for each in admitted)


async def test_an_admission_waits_no_longer_for_another_one_of_its_own_process(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "ADMISSION_WAIT_SECONDS", 0.2)
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        async with asyncio.timeout(20), database.admission():
            with pytest.raises(DatabaseUnreachableError, match="busy"):
                async with database.admission():
                    pass

        async with database.admission() as tx:
            assert await tx.scalar(text("SELECT 1")) == 1
