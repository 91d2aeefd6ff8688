"""Cancelling passes at every point, leaves whole steps behind, and nothing at work."""

import asyncio
from itertools import count

import pytest

from bot.agent.base_agent import BaseAgent
from bot.agent.messages import Answer
from bot.agent.protocols import Entry
from bot.models.base import ModelRequest
from bot.tasks import Tasks
from bot.values import RunStatus
from skills.base import Effects
from tests.bot.agent.things import TASK, Hung, a_tool, an_agent, answers_in
from tests.fakes.around import FakeInbox, FakeTimer, MemoryJournal, Shelf, surroundings
from tests.fakes.scripted_model import Hanging, Line, ScriptedModel, asks_for, call, says

SCRIPT = [
    asks_for(call("look", n=1), call("send", "a", n=1), text="I look."),
    asks_for(call("look", n=2), call("look", "b", n=3)),
    says("Seven in the last step."),
]


def a_run(shelf: Shelf, tasks: Tasks) -> BaseAgent:
    """Return an agent for whose third answer only the last step is left."""

    def respond(_: ModelRequest) -> Line:
        return SCRIPT[len(answers_in(shelf.entries))]

    return an_agent(
        ScriptedModel(respond=respond),
        a_tool("look"),
        a_tool("send", effects=Effects.ONCE),
        tasks=tasks,
        around=surroundings(
            journal=MemoryJournal(shelf, shelf.attempt), inbox=FakeInbox([("m1", "Hurry.")])
        ),
        max_steps=2,
    )


async def test_at_whatever_moment_it_is_cancelled_it_ends_and_can_be_taken_up_again(
    tasks: Tasks,
) -> None:
    for ticks in count():
        shelf = Shelf()
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            work = group.create_task(a_run(shelf, tasks).run(TASK))
            for _ in range(ticks):
                await asyncio.sleep(0)
            if work.done():
                break
            work.cancel()
        await tasks.wait_idle(5)

        assert work.cancelled(), f"it went on after {ticks} ticks"
        assert len(tasks) == 0, "a tool went on"
        shelf.attempt += 1
        result = await a_run(shelf, tasks).run(TASK)
        assert (result.status, result.text) == (RunStatus.MAX_STEPS, "Seven in the last step.")

    assert ticks > 20, "each answer, tool and write has moments of its own"


async def cancel(work: "asyncio.Task[object]", when: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await when.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work


async def test_cancelling_reaches_the_model_at_once(tasks: Tasks) -> None:
    slow, journal = Hanging(), MemoryJournal()
    agent = an_agent(ScriptedModel(slow), tasks=tasks, around=surroundings(journal=journal))
    async with asyncio.TaskGroup() as group:
        await cancel(group.create_task(agent.run(TASK)), slow.asked)

    assert slow.cancelled.is_set()
    assert journal.shelf.rows == {}


async def test_cancelling_reaches_the_model_in_the_last_step_too(tasks: Tasks) -> None:
    slow = Hanging()
    around = surroundings(timer=FakeTimer(seconds=0))
    agent = an_agent(ScriptedModel(slow), tasks=tasks, around=around)
    async with asyncio.TaskGroup() as group:
        await cancel(group.create_task(agent.run(TASK)), slow.asked)

    assert slow.cancelled.is_set()


async def test_cancelling_reaches_every_tool_at_once(tasks: Tasks) -> None:
    one, other = Hung(), Hung()
    model = ScriptedModel(asks_for(call("one"), call("other"), text="I look."))
    agent = an_agent(model, a_tool("one", one), a_tool("other", other), tasks=tasks)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(agent.run(TASK))
        await one.begun.wait()
        await cancel(work, other.begun)

    assert one.cancelled.is_set()
    assert other.cancelled.is_set()
    assert agent.progress.partial_text() == "I look.", "what it had said is still there"


async def test_cancelling_passes_while_a_step_is_stored(tasks: Tasks) -> None:
    begun = asyncio.Event()

    async def hang(_: Entry) -> None:
        begun.set()
        await asyncio.Event().wait()

    around = surroundings(journal=MemoryJournal(before=hang))
    agent = an_agent(ScriptedModel(says("Twelve.")), tasks=tasks, around=around)
    async with asyncio.TaskGroup() as group:
        await cancel(group.create_task(agent.run(TASK)), begun)


async def test_when_time_runs_out_at_the_same_moment_cancelling_wins(tasks: Tasks) -> None:
    class Torn:
        asked = 0

        async def ask(self, _: ModelRequest, __: object = None) -> Answer:
            self.asked += 1
            try:
                await asyncio.Event().wait()
            finally:
                work.cancel()
            raise AssertionError("nobody sets that event")

    model = Torn()
    agent = an_agent(model, tasks=tasks, around=surroundings(timer=FakeTimer(seconds=0.01)))
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        work = group.create_task(agent.run(TASK))

    assert work.cancelled()
    assert model.asked == 1, "no last step for one who is to stop"
