"""Formats the agents for users: the description, tools and limits of each (pure)."""

from bot.agent.sanitizer import one_line
from bot.catalog.agents import AgentDefinition, Agents
from bot.run_texts import counted
from bot.subagents.limits import SubagentSettings, spoken

MOST_TOOLS = 20


def agents_text(agents: Agents, settings: SubagentSettings) -> str:
    """Return all agents with their tools and limits, Markdown."""
    found = sorted(agents.by_name.values(), key=lambda agent: agent.name)
    lines = [line for agent in found for line in _lines(agent, settings)]
    ask = "`/subagents spawn --agent NAME TASK` starts one."
    return "\n".join([f"**Agents** ({len(found)})", *lines, "", ask])


def _lines(agent: AgentDefinition, settings: SubagentSettings) -> list[str]:
    return [
        f"- **{one_line(agent.name, 60)}**: {one_line(agent.description, 300)}",
        f"  - Tools: {_tools(agent)}",
        f"  - Limits: {_limits(agent, settings)}",
    ]


def _tools(agent: AgentDefinition) -> str:
    named = "all that runs may have" if agent.tools is None else _named(agent.tools) or "none"
    return f"{named}, but not {_named(agent.disallowed)}" if agent.disallowed else named


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_TOOLS} more" if len(names) > MOST_TOOLS else ""
    return ", ".join(f"`{one_line(name, 60)}`" for name in names[:MOST_TOOLS]) + more


def _limits(agent: AgentDefinition, settings: SubagentSettings) -> str:
    minutes = agent.timeout_minutes or settings.default_timeout_minutes
    minutes = min(minutes, settings.max_timeout_minutes)
    tokens = agent.token_budget or settings.default_token_budget
    tokens = min(tokens, settings.max_token_budget)
    waited = spoken(settings.sync_timeout_seconds)
    return (
        f"{counted(agent.max_steps, 'step')}, {spoken(minutes * 60)} ({waited} "
        f"when an answer waits for it), {tokens:,} tokens"
    )
