"""Agents at work and tools in their hands, as the tests of the loop need them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from bot.agent.base_agent import BaseAgent
from bot.agent.messages import ToolResult, ToolResults, UserMessage
from bot.agent.progress import AgentResult
from bot.agent.protocols import AgentConfig, AgentContext, AnswerEntry, Entry
from bot.agent.toolbox import Toolbox
from bot.models.base import Model, ModelRequest, OnText
from bot.tasks import Tasks
from bot.values import Json
from skills.base import Effects, Reach, Tool, ToolContext
from tests.fakes.around import surroundings

TASK = [UserMessage("Count the sheep.")]


class Numbers(TypedDict, total=False):
    """What an agent may be short of."""

    max_steps: int
    max_tool_calls: int
    context_tokens: int
    tool_result_characters: int
    max_response_tokens: int


def an_agent(
    model: Model,
    *tools: Tool,
    tasks: Tasks,
    around: AgentContext | None = None,
    **numbers: Unpack[Numbers],
) -> BaseAgent:
    """Return an agent that has plenty of everything, unless it is said otherwise."""
    plenty: Numbers = {"max_steps": 20, "max_tool_calls": 25}
    config = AgentConfig(prompt="You count.", model="some-model", **(plenty | numbers))
    box = Toolbox(tools, is_subagent=True, tasks=tasks, timeout_seconds=30)
    return BaseAgent(config, model, box, around or surroundings())


@dataclass(slots=True)
class Office:
    """Lets agents work; a test that never ends is cut off."""

    tasks: Tasks

    async def work(
        self,
        model: Model,
        *tools: Tool,
        around: AgentContext | None = None,
        on_text: OnText | None = None,
        **numbers: Unpack[Numbers],
    ) -> AgentResult:
        agent = an_agent(model, *tools, tasks=self.tasks, around=around, **numbers)
        async with asyncio.timeout(20):
            return await agent.run(TASK, on_text=on_text)

    async def with_box(self, model: Model, box: Toolbox, around: AgentContext) -> AgentResult:
        """Let an agent work with this toolbox."""
        config = AgentConfig(prompt="You count.", model="m", max_steps=20, max_tool_calls=25)
        async with asyncio.timeout(20):
            return await BaseAgent(config, model, box, around).run(TASK)


Run = Callable[[ToolContext, Json], Awaitable[str]]


def a_tool(
    name: str,
    run: Run | None = None,
    *,
    effects: Effects = Effects.NONE,
    seconds: float | None = None,
    main_agent_only: bool = False,
    needs_confirmation: bool = False,
    foreign: bool = False,
    private: bool = False,
    reach: Reach = Reach.CHANGES_OWN,
) -> Tool:
    """Return a tool; without a function it tells what it was called with."""
    return Tool(
        name=name,
        description=f"Does {name}.",
        schema={"type": "object", "properties": {}},
        run=run or echo,
        effects=effects,
        timeout_seconds=seconds,
        main_agent_only=main_agent_only,
        needs_confirmation=needs_confirmation,
        foreign=foreign,
        private=private,
        reach=reach,
    )


async def echo(_: ToolContext, arguments: Json) -> str:
    await asyncio.sleep(0)
    return f"done {arguments}" if arguments else "done"


@dataclass(slots=True)
class Hung:
    """The function of a tool that never answers of its own accord.

    Attributes:
        begun: Set once it is called.
        cancelled: Set when it was told to stop.
        ignores: How often it goes on all the same; not for ever, since no test must hang.
    """

    ignores: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _: ToolContext, __: Json) -> str:
        self.begun.set()
        while True:
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                if self.ignores == 0:
                    raise
                self.ignores -= 1
            else:
                return "At last."


def results_shown(request: ModelRequest) -> ToolResults:
    """Return the results that a request ends with."""
    newest = request.messages[-1]
    assert isinstance(newest, ToolResults)
    return newest


def texts_of(results: Sequence[ToolResult]) -> list[str]:
    return [result.text for result in results]


def told(request: ModelRequest) -> str:
    """Return the texts of the runtime and of users at the end of a request."""
    match request.messages[-1]:
        case ToolResults(note=note):
            return note
        case UserMessage(text):
            return text
        case other:
            raise AssertionError(f"The request ends with {other!r}")


def answers_in(entries: Sequence[Entry]) -> list[AnswerEntry]:
    return [entry for entry in entries if isinstance(entry, AnswerEntry)]
