"""A silent agent is interrupted, reports without tools, and ends as stalled."""

import asyncio
from dataclasses import replace

from bot.agent.activity import Activity
from bot.agent.base_agent import BaseAgent
from bot.agent.messages import Answer, ToolCall
from bot.agent.progress import AgentResult
from bot.models.base import ModelRequest, OnText
from bot.tasks import Tasks
from bot.values import Json, RunStatus
from skills.base import Effects, ToolContext
from tests.bot.agent.test_activity import Clock
from tests.bot.agent.things import TASK, a_tool, an_agent
from tests.fakes.around import surroundings


class Quiet:
    """A model that says nothing in some steps, and else what is in its script."""

    def __init__(self, *script: Answer | None) -> None:
        self.script = list(script)
        self.asked: list[ModelRequest] = []
        self.silent = asyncio.Event()

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        self.asked.append(request)
        answer = self.script.pop(0)
        if answer is None:
            self.silent.set()
            await asyncio.Event().wait()
        assert answer is not None
        return answer


async def interrupted(agent: BaseAgent, clock: Clock, at: asyncio.Event) -> AgentResult:
    """Let an agent work, and let time pass as soon as it is silent."""
    activity = agent.context.activity
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        working = group.create_task(agent.run(TASK))
        await at.wait()
        early = activity.interrupt_if_silent()
        clock.seconds += 1_000
        late = activity.interrupt_if_silent()
    assert (early, late) == (False, True)
    return working.result()


def with_clock(clock: Clock) -> Activity:
    return Activity(600, monotonic=clock)


async def test_a_silent_model_is_asked_once_more_for_a_report(tasks: Tasks) -> None:
    clock = Clock()
    model = Quiet(
        Answer(text="Nine so far.", calls=(ToolCall("1", "look", {}),)),
        None,
        Answer(text="I counted nine, the rest is open."),
    )
    around = replace(surroundings(), activity=with_clock(clock))
    agent = an_agent(model, a_tool("look"), tasks=tasks, around=around)

    result = await interrupted(agent, clock, model.silent)

    assert result.status is RunStatus.STALLED
    assert result.text == "I counted nine, the rest is open."
    last = model.asked[-1]
    assert not last.tools_allowed
    assert "you were interrupted" in str(last.messages[-1])
    assert last.seconds is not None
    assert 100 < last.seconds <= 120


async def test_a_model_that_stays_silent_leaves_what_there_is(tasks: Tasks) -> None:
    clock = Clock()
    model = Quiet(Answer(text="Nine so far.", calls=(ToolCall("1", "look", {}),)), None)

    class Fails(Quiet):
        async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
            if self.silent.is_set():
                raise TimeoutError
            return await super().ask(request, on_text)

    model = Fails(*model.script)
    around = replace(surroundings(), activity=with_clock(clock))
    agent = an_agent(model, a_tool("look"), tasks=tasks, around=around)

    result = await interrupted(agent, clock, model.silent)

    assert (result.status, result.text) == (RunStatus.STALLED, "Nine so far.")


async def test_a_tool_that_never_answers_is_ended_and_counts_as_perhaps_done(
    tasks: Tasks,
) -> None:
    clock, reached = Clock(), asyncio.Event()

    async def hang(_: ToolContext, __: Json) -> str:
        reached.set()
        await asyncio.Event().wait()
        return "never"

    model = Quiet(
        Answer(text="I pay.", calls=(ToolCall("1", "pay", {}), ToolCall("2", "look", {}))),
        Answer(text="I may have paid."),
    )
    around = replace(surroundings(), activity=with_clock(clock))
    pay = a_tool("pay", hang, effects=Effects.ONCE)
    agent = an_agent(model, pay, a_tool("look"), tasks=tasks, around=around)

    result = await interrupted(agent, clock, reached)

    assert (result.status, result.text) == (RunStatus.STALLED, "I may have paid.")
    results = str(model.asked[-1].messages[-1])
    assert "may have run" in results


async def test_every_part_of_an_answer_is_an_event(tasks: Tasks) -> None:
    clock = Clock()

    class Slow(Quiet):
        async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
            for _ in range(10):
                clock.seconds += 200
                assert request.on_activity is not None
                assert not agent.context.activity.interrupt_if_silent()
                request.on_activity()
            return await super().ask(request, on_text)

    around = replace(surroundings(), activity=with_clock(clock))
    agent = an_agent(Slow(Answer(text="Done.")), tasks=tasks, around=around)

    result = await agent.run(TASK)

    assert result.status is RunStatus.COMPLETED
