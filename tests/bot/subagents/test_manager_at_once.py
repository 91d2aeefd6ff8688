"""Caps hold and nothing is lost when several processes act at the same moment."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import func, select, text

from bot.errors import LimitReachedError
from bot.values import HOLDING_A_SLOT, Identity, RunStatus
from db import outbox, run_messages, runs
from db.database import Database, DatabaseSettings
from db.tables import outbox as outbox_table
from db.tables import subagent_runs
from tests.fakes.children import Child
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, caller, limits
from tests.fakes.stored import Stored

CAPS = limits(per_user=3, everyone=5, queued=4, rate=9)


@pytest.fixture
async def offices(
    database_settings: DatabaseSettings, clock: FakeClock
) -> AsyncIterator[list[FakeOffice]]:
    """Three processes, as far as the database can tell: each has connections of its own."""
    async with AsyncExitStack() as stack:
        yield [
            FakeOffice(
                await stack.enter_async_context(Database.open(database_settings)), CAPS, clock
            )
            for _ in range(3)
        ]


async def spawned(office: FakeOffice, user: Identity) -> str:
    try:
        return (await office.spawn(user)).status
    except LimitReachedError as error:
        return error.limit


async def holding(database: Database) -> Counter[str]:
    """Count the slots that are held, by user."""
    async with database.snapshot() as tx:
        rows = await tx.execute(
            select(subagent_runs.c.user_id, func.count().label("held"))
            .where(subagent_runs.c.status.in_([str(status) for status in HOLDING_A_SLOT]))
            .group_by(subagent_runs.c.user_id)
        )
        return Counter({row.user_id: row.held for row in rows})


async def all_runs(database: Database) -> Sequence[tuple[str, int, str]]:
    async with database.snapshot() as tx:
        columns = subagent_runs.c.user_id, subagent_runs.c.number, subagent_runs.c.status
        return [(key, number, status) for key, number, status in await tx.execute(select(*columns))]


async def test_of_many_requests_at_once_no_more_are_let_in_than_the_caps_allow(
    offices: list[FakeOffice], clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    stored = Stored(offices[0].database, clock)
    people = [alice, bob, await stored.somebody()]
    for user in people:
        await stored.person(user)

    async with asyncio.timeout(40), asyncio.TaskGroup() as group:
        asked = [
            group.create_task(spawned(office, user))
            for _ in range(4)
            for office in offices
            for user in people
        ]

    became = Counter(task.result() for task in asked)
    held = await holding(stored.database)
    assert became["accepted"] == 5
    assert became["queued"] == 12
    assert sum(held.values()) == 5
    assert max(held.values()) <= 3
    rows = await all_runs(stored.database)
    for user in people:
        numbers = sorted(number for owner, number, _ in rows if owner == user.key)
        assert numbers == list(range(1, len(numbers) + 1))


async def test_of_many_requests_at_once_no_more_are_let_in_than_the_rate_allows(
    offices: list[FakeOffice], database_settings: DatabaseSettings, clock: FakeClock
) -> None:
    wide = CAPS.model_copy(update={"max_queued_per_user": 100})
    for office in offices:
        office.settings = wide
    offices = [FakeOffice(office.database, wide, clock) for office in offices]
    user = await Stored(offices[0].database, clock).somebody()

    async with asyncio.timeout(40), asyncio.TaskGroup() as group:
        asked = [group.create_task(spawned(office, user)) for office in offices for _ in range(6)]

    became = Counter(task.result() for task in asked)
    assert became["accepted"] + became["queued"] == 9
    assert became["subagents.spawn_rate_limit.max_requests"] == 9


async def test_while_runs_come_and_go_in_all_processes_no_cap_is_ever_passed_and_all_get_in(
    offices: list[FakeOffice], database: Database, clock: FakeClock
) -> None:
    stored = Stored(database, clock)
    people = [await stored.somebody() for _ in range(3)]
    seen: list[Counter[str]] = []
    finished = asyncio.Event()

    async def work(office: FakeOffice) -> None:
        """End, one after another, what is handed to this process."""
        while not finished.is_set():
            if office.admitted:
                run_id = office.admitted.pop(0)
                async with office.database.snapshot() as tx:
                    run = await runs.get(tx, run_id)
                assert run is not None
                await office.end(run)
            else:
                await asyncio.sleep(0.001)

    async def watch() -> None:
        while not finished.is_set():
            seen.append(await holding(database))
            if not seen[-1] and all(task.done() for task in asked):
                async with database.snapshot() as tx:
                    if not await runs.active(tx, None):
                        finished.set()

    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        asked = [
            group.create_task(spawned(office, user)) for office in offices for user in people * 2
        ]
        for office in offices:
            group.create_task(work(office))
        group.create_task(watch())

    assert max(sum(held.values()) for held in seen) <= 5
    assert max((count for held in seen for count in held.values()), default=0) <= 3
    states = Counter(status for _, _, status in await all_runs(database))
    assert set(states) == {"completed"}
    assert await stored.count(outbox_table) == states["completed"]


async def test_two_processes_that_ask_for_one_user_at_once_keep_to_the_caps(
    postgres_url: str,
) -> None:
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        stored = Stored(database, FakeClock())
        user = await stored.somebody()
        given = ("tests.fakes.spawning", postgres_url, user.account, "8")
        processes = [await Child.start(*given) for _ in range(2)]
        try:
            async with asyncio.timeout(50):
                for process in processes:
                    assert await process.stdout.readline() == b"ready\n"
                told = await together(processes)
        finally:
            for process in processes:
                await process.close()

        became = Counter(each for lines in told for each in json.loads(lines))
        rows = await all_runs(database)

    assert became == {"accepted": 3, "queued": 2, "refused": 11}
    assert sorted(number for _, number, _ in rows) == [1, 2, 3, 4, 5]


async def together(processes: Sequence[Child]) -> list[bytes]:
    """Let all processes begin at once, and return what they write until they end."""
    for process in processes:
        process.stdin.write(b"go\n")
    return [await process.stdout.read() for process in processes]


async def test_a_run_that_several_end_at_once_ends_once_and_is_announced_once(
    offices: list[FakeOffice], database: Database, clock: FakeClock, alice: Identity
) -> None:
    stored = Stored(database, clock)
    await stored.person(alice)
    run = await offices[0].begin(await offices[0].spawn(alice))
    ends = [RunStatus.COMPLETED, RunStatus.CANCELLED, RunStatus.TIMEOUT] * 2

    async with asyncio.timeout(40), asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(office.end(run, str(status), status))
            for office, status in zip(offices * 2, ends, strict=True)
        ]

    (over,) = [end for task in tasks if (end := task.result()) is not None]
    assert await offices[0].read(run) == over
    assert over.result == over.status
    assert [key for office in offices for key in office.announced] == [run.id]
    assert await stored.count(outbox_table) == 1


async def test_a_run_does_not_end_between_the_look_at_it_and_the_message_to_it(
    postgres_url: str, clock: FakeClock, alice: Identity
) -> None:
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        office = FakeOffice(database, CAPS, clock)
        await Stored(database, clock).person(alice)
        run = await office.spawn(alice)
        async with asyncio.timeout(40), asyncio.TaskGroup() as group, database.transaction() as tx:
            await tx.execute(text("LOCK TABLE run_messages IN EXCLUSIVE MODE"))
            sending = group.create_task(office.manager.send(run.id, "Hurry", caller(alice)))
            while not await tx.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")):
                continue
            ending = group.create_task(office.end(run))
            # The message waits to be stored: the run has every chance to end before.
            await asyncio.wait([ending], timeout=0.2)

        async with database.snapshot() as snapshot:
            item = await outbox.get(snapshot, run.id)
    assert sending.result().startswith("Queued")
    assert item is not None
    assert "A message you sent came too late" in item.text


async def test_messages_and_the_end_of_their_run_at_once_lose_no_message(
    offices: list[FakeOffice], database: Database, clock: FakeClock, alice: Identity
) -> None:
    await Stored(database, clock).person(alice)
    run = await offices[0].spawn(alice)

    async with asyncio.timeout(40), asyncio.TaskGroup() as group:
        sent = [
            group.create_task(office.manager.send(run.id, f"Hurry {number}", caller(alice)))
            for number in range(3)
            for office in offices
        ]
        group.create_task(offices[1].end(run))

    queued = sum(task.result().startswith("Queued") for task in sent)
    async with database.snapshot() as tx:
        assert len(await run_messages.unread(tx, run.id)) == queued
        item = await outbox.get(tx, run.id)
    assert item is not None
    assert ("came too late" in item.text) == (queued > 0)
