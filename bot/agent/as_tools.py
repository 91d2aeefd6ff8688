"""Selects the agents that are tools of the main agent, and names these tools (pure)."""

import re
from collections.abc import Callable

from bot.agent.definition import AgentDefinition, Agents

#: The skill that holds the tools of agents.
SKILL = "agents"
#: Tool names that every provider accepts. A provider refuses any request with another name, so no
#: answer would come.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def as_tools(
    agents: Agents, is_taken: Callable[[str], bool]
) -> tuple[list[AgentDefinition], list[str]]:
    """Return the agents that can be tools, and a problem for each other with an `input_schema`."""
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
    """Return the name of an agent's tool."""
    return agent.tool or agent.name.replace("-", "_")
