"""Opens the declared skills that are on, and adds their parts to the registry."""

import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from skills import discovery
from skills.declaration import BotServices, SkillDeclaration, as_parts
from skills.loading import fitting, load, open_outside
from skills.registry import SkillRegistry
from skills.settings import OwnSkillsSettings

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
    own = section(OwnSkillsSettings)
    for name, declaration in sorted(declared, key=lambda each: each[1].last):
        mine = replace(services, name=name, folder=Path(own.data_folder) / name)
        if declaration.open is not None:
            registry.add(await declaration.open(stack, mine))
        elif declaration.build is not None and (built := declaration.build(mine)) is not None:
            registry.add(as_parts(built))
    loaded = fitting(load(own, services), registry.named)
    for each in loaded.skills:
        if (opened := await open_outside(each, stack, registry.named)).problems:
            loaded = replace(loaded, problems=(*loaded.problems, *opened.problems))
        for found in opened.skills:
            registry.add(found.parts)
    for problem in loaded.problems:
        log.warning("%s", problem)
