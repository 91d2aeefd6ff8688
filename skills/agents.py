"""Agents as tools: each agent with an `input_schema` is a tool of the main agent."""

import logging
from collections.abc import Callable

from bot.agent.sanitizer import one_line
from bot.catalog.agents import AgentDefinition, Agents, as_tools, find, tool_name
from bot.catalog.schemas import task_of
from bot.subagents.limits import SubagentSettings
from bot.subagents.manager import SubagentManager
from bot.subagents.requests import Caller, RunRequest
from bot.values import Json
from skills.base import Audience, Effects, Reach, Skill, Tool, ToolContext, ToolError
from skills.declaration import BotServices, SkillDeclaration

log = logging.getLogger(__name__)

LABEL_CHARACTERS = 60

GUIDE = """\
{names} are agents that report in this same turn: prefer them to `delegate_to_subagent` where one \
fits; for what takes longer than a minute use `sessions_spawn` with the `agent`."""


def build(manager: SubagentManager, agents: Agents, is_taken: Callable[[str], bool]) -> Skill:
    """Return the skill with a tool for each agent that has an `input_schema` at the start.

    Args:
        manager: Admits the runs.
        agents: The agents, read again at each call.
        is_taken: Returns True if another tool or skill has this name.
    """
    possible, problems = as_tools(agents, is_taken)
    for problem in problems:
        log.warning("%s", problem)
    tools = tuple(_tool(manager, agents, agent) for agent in possible)
    names = ", ".join(f"`{tool.name}`" for tool in tools)
    return Skill(
        name="agents",
        description="Agents with an input of their own, as tools.",
        tools=tools,
        guide=GUIDE.format(names=names) if tools else "",
    )


def _tool(manager: SubagentManager, agents: Agents, agent: AgentDefinition) -> Tool:
    async def run(context: ToolContext, given: Json) -> str:
        current, known = find(agents, agent.name)
        if not known or current.input_schema is None:
            raise ToolError(
                f"The agent {agent.name} is gone since the start. Use `delegate_to_subagent`."
            )
        task = task_of(current.input_schema, given)
        first = next((value for value in given.values() if isinstance(value, str)), agent.name)
        request = RunRequest(
            task=task,
            agent=current.name,
            label=one_line(f"{current.name}: {first}", LABEL_CHARACTERS),
            given=given,
        )
        return await manager.delegate(request, Caller.of(context))

    assert agent.input_schema is not None, "Only these agents are tools."
    return Tool(
        name=tool_name(agent),
        description=agent.description,
        schema=agent.input_schema,
        run=run,
        main_agent_only=True,
        effects=Effects.REPEATABLE,
        timeout_seconds=manager.longest_wait_seconds,
        auto_approved=True,
        foreign=True,
        private=True,
        audience=Audience.PLACE,
        reach=Reach.CHANGES_OWN,
    )


def _configured(services: BotServices) -> Skill | None:
    if not services.config.section(SubagentSettings).enabled:
        return None
    return build(services.manager, services.agents, services.is_taken)


#: The last one, since the names of its tools must differ from all others.
SKILL = SkillDeclaration(build=_configured, last=True)
