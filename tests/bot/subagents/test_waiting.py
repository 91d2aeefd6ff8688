"""A wait ends when a run has ended or asks, when a message arrives, or when its time is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import update

from bot.errors import NotFoundError
from bot.events import EventBus, RunStatusChanged
from bot.subagents import waiting
from bot.subagents.records import Records
from bot.subagents.requests import Caller
from bot.subagents.waiting import RunWaits, WaitOutcome
from bot.values import Identity, RunStatus
from db.database import Database
from db.tables import subagent_runs
from tests.fakes.clock import FakeClock
from tests.fakes.office import model_of
from tests.fakes.patience import eventually
from tests.fakes.stored import Stored


class Waits:
    """The runs of a user, and waits for them."""

    def __init__(self, database: Database, clock: FakeClock) -> None:
        self.database, self.events = database, EventBus()
        self.stored = Stored(database, clock)
        self.waits = RunWaits(database, Records(database, clock), self.events)

    async def end(self, run_id: str, status: RunStatus = RunStatus.COMPLETED) -> None:
        """Store the status of a run, as another process would."""
        async with self.database.transaction() as tx:
            await tx.execute(
                update(subagent_runs)
                .where(subagent_runs.c.id == run_id)
                .values(status=status, completed_at=None)
            )

    async def is_listening(self) -> bool:
        return bool(self.events._handlers)

    def publish(self, run_id: str, user: Identity) -> None:
        """Publish a change of status in this process."""
        self.events.publish(
            RunStatusChanged(
                run_id=run_id,
                user_id=user.key,
                old=RunStatus.RUNNING,
                new=RunStatus.COMPLETED,
            )
        )

    @asynccontextmanager
    async def waiting(
        self, who: Caller, *handles: str, everything: bool = False, seconds: float = 20
    ) -> AsyncIterator["asyncio.Task[WaitOutcome]"]:
        """Wait during the block, at the end of which the wait must be over."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                self.waits.wait(handles, who, everything=everything, seconds=seconds)
            )

            async def begun() -> bool:
                return task.done() or await self.is_listening()

            await eventually(begun, "a wait that knows its runs")
            yield task


@pytest.fixture
def it(database: Database, clock: FakeClock) -> Waits:
    return Waits(database, clock)


async def running(it: Waits, user: Identity, label: str = "digging") -> str:
    return (await it.stored.run(user, status="running", attempt=1, label=label)).id


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.WAITING_INPUT])
async def test_an_event_of_this_process_ends_a_wait_at_once(
    it: Waits, alice: Identity, status: RunStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "POLL_SECONDS", 60)
    run_id = await running(it, alice)

    async with asyncio.timeout(10), it.waiting(model_of(alice), run_id) as task:
        await it.end(run_id, status)
        it.publish(run_id, alice)

    assert [run.status for run in task.result().over] == [status]
    assert it.events._handlers == []


async def test_a_poll_finds_a_run_that_another_process_has_ended(
    it: Waits, alice: Identity
) -> None:
    run_id = await running(it, alice)

    async with it.waiting(model_of(alice), run_id) as task:
        await it.end(run_id)

    assert [run.id for run in task.result().over] == [run_id]


async def test_without_a_name_the_first_of_all_ends_the_wait_and_everything_takes_all(
    it: Waits, alice: Identity
) -> None:
    one, two = await running(it, alice, "one"), await running(it, alice, "two")
    async with it.waiting(model_of(alice)) as first:
        await it.end(one)
    async with it.waiting(model_of(alice), one, two, everything=True) as everything:
        await it.end(two)

    assert [run.id for run in first.result().over] == [one]
    assert {run.id for run in first.result().runs} == {one, two}
    assert [run.id for run in everything.result().over] == [one, two]


async def test_without_a_name_and_with_all_over_the_runs_of_the_turn_are_the_answer(
    it: Waits, alice: Identity, clock: FakeClock
) -> None:
    over: dict[str, Any] = {"status": "completed", "completed_at": clock()}
    for other in ({"batch_id": "earlier"}, {"batch_id": "turn", "mode": "sync"}):
        await it.stored.run(alice, **over, **other)
    quick = await it.stored.run(alice, **over, batch_id="turn")

    async with asyncio.timeout(10), it.waiting(model_of(alice, batch_id="turn")) as task:
        pass

    assert [run.id for run in task.result().over] == [quick.id]


async def test_a_message_that_waits_for_the_turn_ends_the_wait(
    it: Waits, alice: Identity, bob: Identity
) -> None:
    run_id = await running(it, alice)
    conversation_id = await it.stored.conversation(alice)
    who = model_of(alice, conversation_id=conversation_id)

    async with asyncio.timeout(10), it.waiting(who, run_id) as task:
        await it.stored.turn(alice, conversation_id, "Stop digging!")

    assert task.result().interrupted
    assert task.result().over == []


async def test_the_time_of_a_wait_is_limited(it: Waits, alice: Identity) -> None:
    run_id = await running(it, alice)
    async with it.waiting(model_of(alice), run_id, seconds=0.2) as task:
        pass

    assert task.result().over == []
    assert [run.id for run in task.result().runs] == [run_id]
    assert not task.result().interrupted


async def test_nobody_waits_for_the_run_of_another_user(
    it: Waits, alice: Identity, bob: Identity
) -> None:
    run_id = await running(it, alice)

    with pytest.raises(NotFoundError):
        await it.waits.wait([run_id], model_of(bob), everything=False, seconds=1)
    assert (await it.waits.wait([], model_of(bob), everything=False, seconds=1)).runs == []
