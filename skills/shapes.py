"""Checks the form of skills, and that their names differ (pure)."""

import json
import re
from collections.abc import Sequence

from bot.errors import ConfigError
from skills.base import Skill, Tool

#: Tool names that every provider accepts; a refused name would prevent all answers.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_shape(skill: Skill) -> None:
    """Check that a skill can be offered to a model.

    Raises:
        ConfigError: It cannot; the text names the necessary change.
    """
    if not _is_name(skill.name):
        raise ConfigError(f"the skill's name must be {_NAME.pattern}, and is {skill.name!r:.100}.")
    if not isinstance(skill.tools, tuple) or not all(isinstance(t, Tool) for t in skill.tools):
        raise ConfigError("`tools` must be a tuple of tools: functions below `@tool()`.")
    for tool in skill.tools:
        if not _is_name(tool.name):
            raise ConfigError(
                f"a tool's name must be {_NAME.pattern}, and one is {tool.name!r:.100}."
            )
        if not isinstance(tool.description, str) or not tool.description.strip():
            raise ConfigError(
                f"the tool {tool.name!r} has no docstring, which is all a model sees."
            )
        try:
            json.dumps(tool.schema)
        except (TypeError, ValueError):
            raise ConfigError(f"the schema of the tool {tool.name!r} is no plain JSON.") from None
        if not isinstance(tool.schema, dict) or tool.schema.get("type") != "object":
            raise ConfigError(f"the schema of the tool {tool.name!r} must describe an object.")
    check_own_names(skill)


def check_own_names(skill: Skill) -> None:
    """Check that the tools of a skill differ in name, from one another and from the skill.

    Raises:
        ConfigError: They do not; the text names the necessary change.
    """
    names = [tool.name for tool in skill.tools]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two tools of {skill.name!r} are called {name!r}; rename one.")
        if skill.may_own(name) or (name == skill.name and len(names) > 1):
            raise ConfigError(f"the tool {name!r} is called like the skill; rename it.")


def check_confirmations(skill: Skill, owner: str) -> None:
    """Check that subagents are offered no tool that needs a confirmation.

    Raises:
        ConfigError: A tool needs one, and a subagent could call it.
    """
    for tool in skill.tools:
        if tool.needs_confirmation and not tool.main_agent_only:
            raise ConfigError(
                f"{owner}: the tool {tool.name!r} needs a confirmation, and a subagent has no user "
                "to ask: make it main_agent_only=True."
            )


def in_the_way(skill: Skill, others: Sequence[Skill]) -> str:
    """Return a sentence on a name that collides with these other skills; empty for none."""
    mine = _names(skill)
    for other in others:
        for name in sorted(mine & _names(other)):
            return f"the name {name!r} is taken by the skill {other.name!r}; rename it."
        for name in sorted(each for each in mine if other.may_own(each)):
            return f"{name!r} is called like a tool that may come from {other.name!r}; rename it."
        for name in sorted(each for each in _names(other) if skill.may_own(each)):
            return f"{name!r} is called like a tool that may come from it; rename the skill."
    return ""


def _names(skill: Skill) -> set[str]:
    return {skill.name, *(tool.name for tool in skill.tools)}


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None
