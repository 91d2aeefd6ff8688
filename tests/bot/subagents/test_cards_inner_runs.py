"""What goes on in a run that is waited for is told as events (features J6, E18)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bot.errors import BadRequestError
from bot.events import RunEvent, RunProgress, SubAgentEnd, SubAgentEvent, SubAgentStart
from bot.subagents.requests import RunRequest
from bot.values import Identity, RunStatus
from db import runs
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, caller, limits
from tests.fakes.stored import Stored

KEY = ("turn-1", "2.0")


@pytest.fixture
async def office(database: Database, clock: FakeClock, alice: Identity) -> FakeOffice:
    await Stored(database, clock).person(alice)
    return FakeOffice(database, limits(), clock)


def working(
    office: FakeOffice, user: Identity, status: RunStatus = RunStatus.COMPLETED
) -> Callable[[str], Awaitable[None]]:
    """Return what works a run off: a tool call, and an end."""

    async def work(run_id: str) -> None:
        async with office.database.snapshot() as tx:
            run = await runs.get(tx, run_id)
        assert run is not None
        office.publish(RunProgress(run_id=run_id, user_id=user.key, part="tool", tool="grep"))
        await office.end(run, "Twelve.\nSheep.", status)

    return work


async def delegate(office: FakeOffice, user: Identity, **wanted: object) -> str:
    request = RunRequest(task="Count sheep", **wanted)  # type: ignore[arg-type]
    return await office.manager.delegate(request, caller(user, call_key=KEY))


def inner(office: FakeOffice) -> list[SubAgentEvent]:
    return [event for event in office.events if isinstance(event, SubAgentEvent)]


async def test_begin_progress_and_end_name_the_agent_and_the_call_that_waits(
    office: FakeOffice, alice: Identity
) -> None:
    office.work = working(office, alice)

    await delegate(office, alice)

    told = [(event.name, event.payload) for event in inner(office)]
    assert [name for name, _ in told] == [
        "sub_agent_start",
        "sub_agent_progress",
        "sub_agent_end",
    ]
    for _, payload in told:
        assert (payload["name"], payload["parent"], payload["call"]) == ("general", *KEY)
        assert payload["user_id"] == alice.key
    begin, between, end = (payload for _, payload in told)
    assert begin["input"] == {"task": "Count sheep"}
    assert (between["event"]["name"], between["event"]["tool"]) == ("subagent.progress", "grep")
    assert (end["status"], end["result"]) == ("completed", "Twelve. Sheep.")


async def test_an_agent_with_an_input_of_its_own_is_told_of_with_that(
    office: FakeOffice, alice: Identity
) -> None:
    office.work = working(office, alice)

    await delegate(office, alice, given={"query": "sheep", "scope": "barns"})

    begin = inner(office)[0]
    assert isinstance(begin, SubAgentStart)
    assert begin.input == {"query": "sheep", "scope": "barns"}


async def test_a_run_that_is_stopped_ends_stopped(office: FakeOffice, alice: Identity) -> None:
    office.work = working(office, alice, RunStatus.CANCELLED)

    await delegate(office, alice)

    end = inner(office)[-1]
    assert isinstance(end, SubAgentEnd)
    assert end.status is RunStatus.CANCELLED


async def test_when_the_turn_itself_is_ended_meanwhile_the_end_is_told_all_the_same(
    office: FakeOffice, alice: Identity
) -> None:
    end_it = working(office, alice, RunStatus.CANCELLED)

    async def cancelled(run_id: str) -> None:
        await end_it(run_id)
        raise asyncio.CancelledError

    office.work = cancelled
    with pytest.raises(asyncio.CancelledError):
        await delegate(office, alice)

    assert [event.name for event in inner(office)][-1] == "sub_agent_end"


async def test_of_a_run_that_is_left_to_another_process_no_end_is_told(
    office: FakeOffice, alice: Identity
) -> None:
    with pytest.raises(BadRequestError):
        await delegate(office, alice)

    assert [event.name for event in inner(office)] == ["sub_agent_start"]


async def test_background_runs_and_what_comes_after_the_end_are_not_told(
    office: FakeOffice, alice: Identity
) -> None:
    office.work = working(office, alice)
    run = await office.spawn(alice)
    await delegate(office, alice)
    before = len(inner(office))

    late: list[RunEvent] = [
        RunProgress(run_id=run_id, user_id=alice.key, part="step")
        for run_id in (run.id, inner(office)[0].run_id)
    ]
    for event in late:
        office.publish(event)

    assert len(inner(office)) == before
