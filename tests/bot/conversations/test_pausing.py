"""Messages and requests for runs begin nothing in the scope of a committed pause."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.errors import LimitReachedError, NotAllowedError
from bot.subagents.requests import RunRequest
from bot.values import Identity, Place, RunStatus
from db import pauses
from db.database import DatabaseSettings
from db.pauses import Pause
from tests.bot.conversations.hearing import Process, message
from tests.db.test_pauses import begun
from tests.fakes.clock import FakeClock
from tests.fakes.office import caller
from tests.fakes.stored import Stored
from tests.fakes.watched_database import WatchedDatabase


@pytest.fixture
async def process(database_settings: DatabaseSettings, clock: FakeClock) -> AsyncIterator[Process]:
    async with WatchedDatabase.open(database_settings) as database:
        yield Process(database, clock)


async def pause(process: Process) -> set[str]:
    """Pause everything, and return what has begun by then."""
    everything = Pause(paused_by="discord::1", created_at=process.clock())
    await process.database.write(pauses.put, everything)
    return await begun(process.database)


async def ask(process: Process, user: Identity, number: int) -> None:
    """Send a message, or ask for a run."""
    if number % 2:
        await process.office.ask(user)
    else:
        await process.orchestrator.receive(message(user, "Hello", name=user.account))


@pytest.mark.parametrize("position", [0, 5, 12])
async def test_what_is_asked_for_after_a_pause_waits(process: Process, position: int) -> None:
    stored = Stored(process.database, process.clock)
    users = [await stored.somebody() for _ in range(12)]
    for user in users:
        # A message of a known conversation begins its turn with the transaction that stores it.
        await stored.conversation(user)

    async with asyncio.TaskGroup() as group:
        for number, user in enumerate(users):
            if number == position:
                pausing = group.create_task(pause(process))
            group.create_task(ask(process, user, number))
        if position == len(users):
            pausing = group.create_task(pause(process))
    for number, user in enumerate(users):
        await ask(process, user, number + 1)

    assert await begun(process.database) == pausing.result()


async def test_a_run_waits_for_the_end_of_a_pause_and_a_task_is_not_delegated(
    process: Process, alice: Identity
) -> None:
    office = process.office
    await Stored(process.database, process.clock).person(alice)
    await pause(process)

    spawned = await office.ask(alice)
    with pytest.raises(NotAllowedError, match="paused"):
        await office.manager.delegate(RunRequest(task="Count sheep"), caller(alice))

    assert spawned.run.status is RunStatus.QUEUED
    assert any("paused" in note for note in spawned.notes)


async def test_no_more_runs_wait_for_the_end_of_a_pause_than_may_wait(
    process: Process, alice: Identity
) -> None:
    office = process.office
    await Stored(process.database, process.clock).person(alice)
    most = office.manager.settings().max_queued_per_user
    await pause(process)

    spawned = [await office.ask(alice) for _ in range(most)]
    with pytest.raises(LimitReachedError, match="waiting") as refused:
        await office.ask(alice)

    assert {each.run.status for each in spawned} == {RunStatus.QUEUED}
    assert refused.value.limit == "subagents.max_queued_per_user"


async def test_runs_that_a_pause_holds_in_one_channel_hold_none_in_another(
    process: Process, alice: Identity
) -> None:
    office = process.office
    await Stored(process.database, process.clock).person(alice)
    here, there = (replace(caller(alice).place, channel=name) for name in ("barn", "yard"))
    pause = Pause(place=here, paused_by="discord::1", created_at=process.clock())
    await process.database.write(pauses.put, pause)

    async def ask(place: Place) -> RunStatus:
        asks = replace(caller(alice), place=place)
        return (await office.manager.spawn(RunRequest(task="Dig"), asks)).run.status

    held = [await ask(here) for _ in range(office.manager.settings().max_queued_per_user)]
    elsewhere = await ask(there)

    assert set(held) == {RunStatus.QUEUED}
    assert elsewhere is RunStatus.ACCEPTED
