"""Opens the declared skills that are on, and opens them anew when their settings change."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from bot.errors import ConfigError
from bot.tasks import Tasks
from bot.values import Live, Section, Sections, Settings
from skills import discovery
from skills.declaration import BotServices, SkillDeclaration, SkillParts, as_parts
from skills.loading import fitting, load, open_outside
from skills.registry import SkillRegistry
from skills.settings import OwnSkillsSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadSections:
    """The sections of the configuration, and those that a skill has read when it was opened.

    Attributes:
        config: The sections in force.
        read: The sections that were read, as they were then.
    """

    config: Sections
    read: dict[type[Settings], Settings] = field(default_factory=dict)

    def section(self, kind: type[Section]) -> Section:
        """Return the section of this class."""
        found = self.config.section(kind)
        self.read[kind] = found
        return found

    def live(self, kind: type[Section]) -> Live[Section]:
        """Return a function that returns the section of this class at each call."""
        return self.config.live(kind)

    @property
    def have_changed(self) -> bool:
        """True if a section differs from what was read."""
        return any(self.config.section(kind) != found for kind, found in self.read.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSkill:
    """A declared skill, open or off.

    Attributes:
        sections: The settings with which it was opened.
        parts: Its parts; none while it is off.
        last: Whether it comes after the others.
        stack: Closes its resources.
    """

    sections: ReadSections
    parts: SkillParts = field(default_factory=SkillParts)
    last: bool = False
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)


class OpenSkills:
    """The skills of a bot; one whose settings have changed is opened anew.

    Work under way keeps the tools that it has: the resources behind them are closed when the work
    has ended that was under way at the change.

    Args:
        services: The services for skills.
        registry: Gets the parts of the skills.
        at_work: Returns the tasks of the work under way.
    """

    def __init__(
        self,
        services: BotServices,
        registry: SkillRegistry,
        at_work: Callable[[], Iterable[asyncio.Task[Any]]] = tuple,
    ) -> None:
        self._services = services
        self._registry = registry
        self._at_work = at_work
        self._skills: dict[str, OpenSkill] = {}
        self._retired: list[OpenSkill] = []
        self._tasks = Tasks()

    async def open(self, stack: AsyncExitStack) -> None:
        """Open all skills that the configuration leaves on; the stack closes them.

        Raises:
            ConfigError: A skill is broken, or its library is missing.
        """
        stack.push_async_callback(self._close_all)
        on = [module for module in discovery.modules() if self._is_on(module)]
        for module in sorted(on, key=lambda each: _declaration(each).last):
            skill = await self._opened(module, self._registry)
            self._skills[module] = skill
            self._registry.add(skill.parts)
        own = self._services.config.section(OwnSkillsSettings)
        loaded = fitting(load(own, self._services), self._registry.named)
        for each in loaded.skills:
            if (opened := await open_outside(each, stack, self._registry.named)).problems:
                loaded = replace(loaded, problems=(*loaded.problems, *opened.problems))
            for found in opened.skills:
                self._registry.add(found.parts)
        for problem in loaded.problems:
            log.warning("%s", problem)

    async def update(self) -> list[str]:
        """Open the skills anew whose settings have changed; return a sentence for each failure."""
        problems = []
        for module in discovery.modules():
            before = self._skills.get(module)
            if before is None and not self._is_on(module):
                continue
            if before is not None and not before.sections.have_changed:
                continue
            others = [
                each for each in self._registry.parts if before is None or each is not before.parts
            ]
            skill = None
            try:
                skill = await self._opened(module, SkillRegistry.of(others))
                self._registry.replace(self._in_order(before, skill))
            except ConfigError as error:
                problems.append(f"The skill {_name(module)} stays as it was: {error}")
                self._retire(skill)
                continue
            self._skills[module] = skill
            log.info("The skill %s follows its new settings", _name(module))
            self._retire(before)
        return problems

    def _is_on(self, module: str) -> bool:
        section = self._services.config.section
        return all(section(kind).is_on for kind in discovery.settings_of(module))

    async def _opened(self, module: str, others: SkillRegistry) -> OpenSkill:
        """Open a skill.

        Args:
            module: The module that declares the skill.
            others: The other skills, whose names are taken.

        Raises:
            ConfigError: The skill is broken, or its library is missing.
        """
        sections = ReadSections(self._services.config)
        own_sections = [sections.section(kind) for kind in discovery.settings_of(module)]
        if not all(each.is_on for each in own_sections):
            return OpenSkill(sections=sections)
        declaration, name = _declaration(module), _name(module)
        own = self._services.config.section(OwnSkillsSettings)
        services = replace(
            self._services,
            name=name,
            folder=Path(own.data_folder) / name,
            config=sections,
            is_taken=others.has,
        )
        if declaration.open is None:
            built = declaration.build(services) if declaration.build else None
            parts = SkillParts() if built is None else as_parts(built)
            return OpenSkill(sections=sections, parts=parts, last=declaration.last)
        stack = AsyncExitStack()
        try:
            parts = await declaration.open(stack, services)
        except BaseException:
            await stack.aclose()
            raise
        return OpenSkill(sections=sections, parts=parts, last=declaration.last, stack=stack)

    def _in_order(self, before: OpenSkill | None, now: OpenSkill) -> list[SkillParts]:
        """Return the parts of all skills, with a skill in the place that it had."""
        parts = list(self._registry.parts)
        if before is not None and before.parts in parts:
            parts[parts.index(before.parts)] = now.parts
            return parts
        firsts = [each.parts for each in self._skills.values() if not each.last]
        place = 1 + max((parts.index(each) for each in firsts if each in parts), default=-1)
        return [*parts[:place], now.parts, *parts[place:]]

    def _retire(self, skill: OpenSkill | None) -> None:
        """Close the resources of a skill when the work has ended that may use it."""
        if skill is not None:
            self._retired.append(skill)
            work = _close(skill, set(self._at_work()))
            self._tasks.start(work, name="close a former skill")

    async def _close_all(self) -> None:
        await self._tasks.close()
        for skill in reversed([*self._retired, *self._skills.values()]):
            await skill.stack.aclose()


async def _close(skill: OpenSkill, working: set[asyncio.Task[Any]]) -> None:
    if working:
        await asyncio.wait(working)
    await skill.stack.aclose()


def _declaration(module: str) -> SkillDeclaration:
    found: SkillDeclaration = import_module(module).SKILL
    return found


def _name(module: str) -> str:
    return module.removesuffix(".skill").rpartition(".")[2]
