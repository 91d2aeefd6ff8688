"""Registers all skills, and decides which agent may have which tool."""

import logging
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Self

from bot.errors import BadRequestError, ConfigError
from skills.base import Audience, Skill, Tool
from skills.declaration import SkillParts
from skills.shapes import check_confirmations, check_own_names, in_the_way

if TYPE_CHECKING:
    from db.runs import Run

log = logging.getLogger(__name__)

#: Suffix of a name that denotes all tools of a server: `mcp__files__*`.
ALL_OF = "__*"


class SkillRegistry:
    """The registered skills, and their current tools.

    Tools that come and go pass the same filters as all others, at every query. A tool is left out
    if its name is taken, or if it needs a confirmation and subagents could call it.

    Args:
        skills: The first skills; `add` adds others.

    Attributes:
        parts: The parts of all skills.

    Raises:
        ConfigError: As `add`.
    """

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self.skills: tuple[Skill, ...] = ()
        self.parts: list[SkillParts] = []
        self._run_tools: dict[str, Tool] = {}
        self._fixed: dict[str, Tool] = {}
        self._skills: dict[str, Skill] = {}
        self._complained: set[str] = set()
        self.add(SkillParts(skills=tuple(skills)))

    def add(self, parts: SkillParts) -> None:
        """Add the parts of a skill.

        Raises:
            ConfigError: A name is taken, or a tool needs a confirmation and could be called by a
                subagent.
        """
        for skill in parts.skills:
            check_own_names(skill)
            if reason := in_the_way(skill, self.skills):
                raise ConfigError(f"The skill {skill.name!r} cannot be added: {reason}")
            check_confirmations(skill, f"The skill {skill.name!r}")
            self.skills = (*self.skills, skill)
            self._fixed |= {tool.name: tool for tool in skill.tools}
            self._skills[skill.name] = skill
        self.parts.append(parts)
        self._run_tools |= {tool.name: tool for tool in parts.run_tools}

    @classmethod
    def of(cls, parts: Iterable[SkillParts]) -> Self:
        """Return the registry of these parts.

        Raises:
            ConfigError: As `add`.
        """
        registry = cls()
        registry.parts.clear()
        for each in parts:
            registry.add(each)
        return registry

    def replace(self, parts: Iterable[SkillParts]) -> None:
        """Replace everything by these parts, at once.

        Raises:
            ConfigError: As `add`; nothing is replaced then.
        """
        parts = self.of(parts).parts
        self.skills, self.parts = (), []
        for table in (self._run_tools, self._fixed, self._skills):
            table.clear()
        for each in parts:
            self.add(each)

    @property
    def named(self) -> tuple[Skill, ...]:
        """The skills, and each tool of runs as a skill of its name: all names that are taken."""
        return tuple(skill for parts in self.parts for skill in parts.named)

    async def unavailable(self, run: "Run | None" = None) -> tuple[str, ...]:
        """Return the unreachable services whose tools a run, or the main agent, may use."""
        asked = [parts.unavailable for parts in self.parts if parts.unavailable]
        found = [await unavailable(run) for unavailable in asked]
        return tuple(name for names in found for name in names)

    def run_guide(self, skills: tuple[str, ...], tools: tuple[str, ...]) -> str:
        """Return text of skills for the prompt of a run.

        Args:
            skills: The Agent Skills that the agent names.
            tools: The names of the run's tools.
        """
        guides = [parts.run_guide(skills, tools) for parts in self.parts if parts.run_guide]
        return "\n\n".join(guide for guide in guides if guide)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All current tools, by name."""
        found = dict(self._fixed)
        for skill in self.skills:
            for tool in skill.live() if skill.live else ():
                problem = self._problem(tool, skill, found)
                if not problem:
                    found[tool.name] = tool
                elif problem not in self._complained:
                    # Log once: the tools are queried many times a minute.
                    self._complained.add(problem)
                    log.error("%s", problem)
        return found

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name, or `None` if none exists now."""
        return self.tools.get(name)

    @property
    def main_agent_only(self) -> frozenset[str]:
        """The tools that no subagent ever gets."""
        return frozenset(tool.name for tool in self.tools.values() if tool.main_agent_only)

    def has(self, name: str) -> bool:
        """Return True if a tool or a skill has this name, for the main agent or for runs."""
        return (
            name in self._skills
            or name in self._run_tools
            or name in self.tools
            or self._may_come(name)
        )

    def resolve(self, names: Iterable[str]) -> frozenset[str]:
        """Return the tools of these names; the name of a skill denotes all its tools.

        The name of a tool is valid while its server is disconnected. The name of the skill then
        stays in the result, so that permissions apply when the server connects again.

        Raises:
            BadRequestError: No tool or skill has one of these names.
        """
        tools = self.tools
        return frozenset(tool for name in names for tool in self._resolve_one(name, tools))

    def expand(self, names: Iterable[str]) -> frozenset[str]:
        """Return the tools of these names as `resolve`, and all other names as they are."""
        tools, found = self.tools, set[str]()
        for name in names:
            try:
                found.update(self._resolve_one(name, tools))
            except BadRequestError:
                # A pattern, or a tool that is not there now.
                found.add(name)
        return frozenset(found)

    def place_tools(self) -> dict[str, Tool]:
        """Return the tools that read, at least in some calls, what everyone in a place may read."""
        tools = self.tools_for(is_subagent=False)
        return {each.name: each for each in tools if each.audience is Audience.PLACE}

    def tools_for(
        self,
        *,
        is_subagent: bool,
        allowed: Iterable[str] | None = None,
        blocked: Iterable[str] = (),
    ) -> tuple[Tool, ...]:
        """Return the tools of one agent: three filters, each of which only removes tools.

        Args:
            is_subagent: Whether to leave out tools for the main agent only.
            allowed: Names of tools or skills; `None` for all, empty for none.
            blocked: Names of tools or skills to remove.

        Raises:
            BadRequestError: No tool or skill has one of these names.
        """
        tools = tuple(self.tools.values())
        if allowed is not None:
            wanted = self.resolve(allowed)
            tools = tuple(tool for tool in tools if _is_among(tool.name, wanted))
        unwanted = self.resolve(blocked)
        tools = tuple(tool for tool in tools if not _is_among(tool.name, unwanted))
        if is_subagent:
            tools = tuple(tool for tool in tools if not tool.main_agent_only)
        return tools

    def tools_of_run(
        self, *, allowed: Iterable[str] | None, blocked: Collection[str]
    ) -> tuple[Tool, ...]:
        """Return the tools of a run: those that only runs have, and the others within its scope.

        A tool of runs replaces the main agent's tool of the same name.

        Args:
            allowed: Names of tools or skills; `None` for all, empty for none.
            blocked: Names of tools or skills to remove.

        Raises:
            BadRequestError: No tool or skill has one of these names.
        """
        own = self._run_tools
        scope = self.tools_for(is_subagent=True, allowed=allowed, blocked=blocked)
        mine = [tool for name, tool in own.items() if name not in blocked]
        return (*mine, *(tool for tool in scope if tool.name not in own))

    def _resolve_one(self, name: str, tools: Mapping[str, Tool]) -> tuple[str, ...]:
        if (
            name in self._run_tools
            or name in tools
            or self._may_come(name)
            or name.endswith(ALL_OF)
        ):
            return (name,)
        if skill := self._skills.get(name):
            if skill.live is None:
                return tuple(tool.name for tool in skill.tools)
            own = (tool for tool in tools if skill.may_own(tool))
            return (name, *(tool.name for tool in skill.tools), *own)
        known = sorted({*tools, *self._skills})
        close = get_close_matches(name, known, n=3)
        advice = (
            f"Did you mean {' or '.join(close)}?" if close else f"There are: {', '.join(known)}."
        )
        raise BadRequestError(f"There is no tool or skill {name[:100]!r}. {advice}")

    def _may_come(self, name: str) -> bool:
        return any(skill.may_own(name) for skill in self.skills)

    def _problem(self, tool: Tool, skill: Skill, others: Mapping[str, Tool]) -> str:
        if not skill.may_own(tool.name):
            return f"The tool {tool.name!r} of {skill.name!r} does not begin with its name"
        if tool.name in others or tool.name in self._skills:
            return f"The name {tool.name!r} is taken; the tool of {skill.name!r} is left out"
        if tool.needs_confirmation and not tool.main_agent_only:
            return f"The tool {tool.name!r} needs a user to ask, whom a subagent does not have"
        return ""


def _is_among(name: str, names: frozenset[str]) -> bool:
    return name in names or any(
        name.startswith(each.removesuffix("*")) for each in names if each.endswith(ALL_OF)
    )
