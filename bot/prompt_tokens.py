"""Counts the tokens that each request of the main agent carries, without opening a bot.

The counts of built-in tools and guides are in `builtin/tokens.toml`, which
`python -m tests.stories.prompts --write` makes; those of agents and of one's own skills are made
here.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bot.agent.context import main_prompt
from bot.agent.messages import estimate_tokens
from bot.agent.tool_search import tokens_of
from bot.catalog.agents import AgentDefinition, Agents, described
from bot.config.model import Config
from bot.run_texts import counted
from skills import discovery
from skills.base import Skill

FILE = Path(__file__).parent / "builtin" / "tokens.toml"


def described_in(
    config: Config, agents: Agents, of_agents: Iterable[AgentDefinition], skills: Sequence[Skill]
) -> str:
    """Return a sentence about the tokens of each part.

    Args:
        config: The configuration.
        agents: All agents.
        of_agents: The agents that are tools.
        skills: The skills that do not come with the bot.
    """
    known: Mapping[str, Mapping[str, int]] = tomllib.loads(FILE.read_text("utf-8"))
    on = {
        name
        for module in discovery.modules()
        if all(config.section(kind).is_on for kind in discovery.settings_of(module))
        for name in discovery.names_of(module)
    }
    tools = [tokens for name, tokens in known["tools"].items() if name in on]
    tools += [estimate_tokens(f"{each.description}{each.input_schema}") for each in of_agents]
    tools += [tokens_of(tool) for skill in skills for tool in skill.tools]
    guides = [tokens for name, tokens in known["guides"].items() if name in on]
    guides += [estimate_tokens(skill.guide_now) for skill in skills]
    own = config.agent.model_copy(update={"instructions": ""})
    prompt = estimate_tokens(main_prompt(own, (), "terminal", ()))
    lines = sum(estimate_tokens(f"- {line}\n") for line in described(agents))
    total, most = prompt + sum(guides) + sum(tools) + lines, config.agent.fixed_tokens
    parts = (
        f"{prompt:,} for its prompt, {sum(guides):,} for the guides of skills, {sum(tools):,} for "
        f"{counted(len(tools), 'tool')}, {lines:,} for {counted(len(agents.by_name), 'agent')}"
    )
    further = estimate_tokens(config.agent.instructions) if config.agent.instructions else 0
    fits = (
        f"all of it is sent (`agent.fixed_tokens`: {most:,})"
        if total <= most
        else f"of these {most:,} are sent (`agent.fixed_tokens`), and the rest is searched"
    )
    return (
        f"about {total:,} tokens in each request of the main agent: {parts}; {fits}"
        f"{f'; {further:,} more for `agent.instructions`' if further else ''}; tools of "
        "calendars, MCP servers and REST services come on top within that limit"
    )
