"""Agents that a test has, without any file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.catalog.agents import AgentDefinition


@dataclass(frozen=True)
class FakeAgents:
    """These agents and no others."""

    by_name: Mapping[str, AgentDefinition] = field(default_factory=dict)
