"""Opens the declared skills that are on, and adds their parts to the registry."""

import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from skills import discovery
from skills.base import Skill
from skills.declaration import BotServices, SkillDeclaration, SkillParts
from skills.loading import fitting, load
from skills.registry import SkillRegistry
from skills.settings import SkillsSettings

log = logging.getLogger(__name__)


async def open_skills(
    stack: AsyncExitStack, services: BotServices, registry: SkillRegistry
) -> None:
    """Open all skills that the configuration leaves on; the stack closes them.

    Raises:
        ConfigError: A skill is broken, or its library is missing.
    """
    section = services.config.section
    declared: list[tuple[str, SkillDeclaration]] = []
    for module in discovery.modules():
        if all(section(kind).is_on for kind in discovery.settings_of(module)):
            name = module.removesuffix(".skill").rpartition(".")[2]
            declared.append((name, import_module(module).SKILL))
    own = section(SkillsSettings)
    for name, declaration in sorted(declared, key=lambda each: each[1].last):
        mine = replace(services, name=name, folder=Path(own.data_folder) / name)
        registry.add(await _parts(declaration, stack, mine))
    loaded = fitting(load(own, services.limits, services.reserve), registry.skills)
    for problem in loaded.problems:
        log.warning("%s", problem)
    registry.register(each.skill for each in loaded.skills)


async def _parts(
    declaration: SkillDeclaration, stack: AsyncExitStack, services: BotServices
) -> SkillParts:
    if declaration.open is not None:
        return await declaration.open(stack, services)
    assert declaration.build is not None, "A declaration has `build` or `open`."
    built = declaration.build(services)
    if isinstance(built, Skill):
        return SkillParts(skills=(built,))
    return built or SkillParts()
