"""All skills under one roof: who may have which tool."""

from collections.abc import Iterable
from difflib import get_close_matches

from bot.errors import BadRequestError, ConfigError
from skills.base import Skill, Tool


class SkillRegistry:
    """The skills that the bot was started with.

    Raises:
        ConfigError: Two things have one name, or a tool that asks for a person's yes could be
            called where no person is.
    """

    def __init__(self, skills: Iterable[Skill]) -> None:
        self.skills: tuple[Skill, ...] = tuple(skills)
        self._tools = {tool.name: tool for skill in self.skills for tool in skill.tools}
        self._skills = {skill.name: skill for skill in self.skills}
        _check(self.skills)

    @property
    def main_agent_only(self) -> frozenset[str]:
        """The tools that no subagent ever gets."""
        return frozenset(tool.name for tool in self._tools.values() if tool.main_agent_only)

    def resolve(self, names: Iterable[str]) -> frozenset[str]:
        """Return the tools that are meant: by their names, or by a skill's name for all of its own.

        Raises:
            BadRequestError: There is no such tool or skill.
        """
        return frozenset(tool for name in names for tool in self._resolve_one(name))

    def tools_for(
        self,
        *,
        is_subagent: bool,
        allowed: Iterable[str] | None = None,
        blocked: Iterable[str] = (),
    ) -> tuple[Tool, ...]:
        """Return the tools of one agent: three filters, and none brings back what one took.

        Args:
            is_subagent: Leave out whatever is for the main agent only.
            allowed: Names of tools or skills; `None` for all, empty for none.
            blocked: Names of tools or skills that are taken away again.

        Raises:
            BadRequestError: There is no tool or skill of one of these names.
        """
        tools = tuple(self._tools.values())
        if allowed is not None:
            wanted = self.resolve(allowed)
            tools = tuple(tool for tool in tools if tool.name in wanted)
        unwanted = self.resolve(blocked)
        tools = tuple(tool for tool in tools if tool.name not in unwanted)
        if is_subagent:
            tools = tuple(tool for tool in tools if not tool.main_agent_only)
        return tools

    def _resolve_one(self, name: str) -> tuple[str, ...]:
        if name in self._tools:
            return (name,)
        if name in self._skills:
            return tuple(tool.name for tool in self._skills[name].tools)
        known = sorted({*self._tools, *self._skills})
        close = get_close_matches(name, known, n=3)
        advice = (
            f"Did you mean {' or '.join(close)}?" if close else f"There are: {', '.join(known)}."
        )
        raise BadRequestError(f"There is no tool or skill {name[:100]!r}. {advice}")


def _check(skills: tuple[Skill, ...]) -> None:
    owners: dict[str, str] = {}
    names = [skill.name for skill in skills]
    for skill in skills:
        if names.count(skill.name) > 1:
            raise ConfigError(f"Two skills are called {skill.name!r}; rename one of them.")
        for tool in skill.tools:
            _check_tool(tool, skill, owners.get(tool.name), names)
            owners[tool.name] = skill.name


def _check_tool(tool: Tool, skill: Skill, owner: str | None, skills: list[str]) -> None:
    if owner is not None:
        raise ConfigError(
            f"The skills {owner!r} and {skill.name!r} both have a tool {tool.name!r}; rename one."
        )
    # Asking for the skill would give one tool, and nobody could tell which was meant.
    if tool.name in skills and (tool.name != skill.name or len(skill.tools) > 1):
        raise ConfigError(
            f"The tool {tool.name!r} of the skill {skill.name!r} is called like a skill; rename it."
        )
    if tool.needs_confirmation and not tool.main_agent_only:
        raise ConfigError(
            f"The tool {tool.name!r} needs a confirmation, and a subagent has no person to ask: "
            "make it main_agent_only=True."
        )
