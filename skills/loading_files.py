"""Imports Python files as skills, without replacing any other module."""

import hashlib
import inspect
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import cast

from bot.errors import ConfigError
from skills.declaration import BotServices, SkillDeclaration, SkillParts, as_parts
from skills.services import SkillServices

#: The parts of a skill, or the function that opens it.
Built = SkillParts | Callable[[AsyncExitStack], Awaitable[SkillParts]]

#: Prefix of module names, so that a file called `json.py` replaces no other module.
_PREFIX = "retinue_skill_"


def built_from(path: Path, services: SkillServices) -> Built:
    """Import a file, or a package, and build its skill.

    Raises:
        ConfigError: It declares no skill. All other errors of its code are passed on.
    """
    package = path.is_dir()
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    name = f"{_PREFIX}{re.sub(r'[^A-Za-z0-9]', '_', path.stem)}_{digest}"
    _forget(name)
    spec = spec_from_file_location(
        name,
        path / "__init__.py" if package else path,
        submodule_search_locations=[str(path)] if package else None,
    )
    if spec is None or spec.loader is None:
        raise ConfigError("it cannot be imported.")
    module = module_from_spec(spec)
    # A package finds its own modules by this entry.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        return built(getattr(module, "SKILL", None) or getattr(module, "build", None), services)
    except BaseException:
        _forget(name)
        raise


def built(declared: object, services: SkillServices) -> Built:
    """Build a declared skill; one with resources is only prepared for its opening.

    Args:
        declared: A `SkillDeclaration`; a function `build` alone is one too.
        services: The services of the skill.

    Raises:
        ConfigError: It declares no skill.
    """
    if not isinstance(declared, SkillDeclaration):
        if not callable(declared) or inspect.iscoroutinefunction(declared):
            raise ConfigError(
                "it has no `SKILL = SkillDeclaration(build=…)`, and no function "
                "`def build(services): …` that returns the skill."
            )
        given = inspect.signature(declared).parameters
        return as_parts(declared(services) if given else declared())
    # A bot gives all services; `check` gives those that need no bot, and opens nothing.
    mine = cast("BotServices", services)
    if declared.open is not None:
        opening = declared.open
        return lambda stack: opening(stack, mine)
    return as_parts(declared.build(mine) if declared.build else None)


def _forget(name: str) -> None:
    for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[each]
