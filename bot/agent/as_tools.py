"""Which agents can be tools of the main agent, and what these are called (pure)."""

import re
from collections.abc import Callable

from bot.agent.definition import AgentDefinition, Agents

#: The skill that has them.
SKILL = "agents"
#: What every provider takes for the name of a tool; one that it refuses would stop all answers.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def as_tools(
    agents: Agents, is_taken: Callable[[str], bool]
) -> tuple[list[AgentDefinition], list[str]]:
    """Return the agents that can be tools, and why others with an `input_schema` cannot."""
    possible: dict[str, AgentDefinition] = {}
    problems = []
    for agent in agents.by_name.values():
        name = tool_name(agent)
        if not agent.input_schema:
            continue
        if not _NAME.fullmatch(name):
            problems.append(
                f"The agent {agent.name} is no tool: {name!r:.100} has other signs than letters, "
                "digits, `_` and `-`, or more than 64. Give it another `tool`."
            )
        elif name == SKILL or name in possible or is_taken(name):
            problems.append(
                f"The agent {agent.name} is no tool: the name `{name}` is taken. Give it another "
                "`tool`."
            )
        else:
            possible[name] = agent
    return list(possible.values()), problems


def tool_name(agent: AgentDefinition) -> str:
    """Return what the tool of an agent is called."""
    return agent.tool or agent.name.replace("-", "_")
