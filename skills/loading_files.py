"""Imports Python files as skills, without replacing any other module."""

import hashlib
import inspect
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from bot.errors import ConfigError
from skills.services import SkillServices

#: Prefix of module names, so that a file called `json.py` replaces no other module.
_PREFIX = "retinue_skill_"


def built_from(path: Path, services: SkillServices) -> object:
    """Import a file, or a package, and return the result of its `build`.

    Raises:
        ConfigError: It has no `build`. All other errors of its code are passed on.
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
        return built(getattr(module, "build", None), services)
    except BaseException:
        _forget(name)
        raise


def built(build: object, services: SkillServices) -> object:
    """Call a `build(services)`, or a `build()`, and return its result.

    Raises:
        ConfigError: `build` is not a synchronous function.
    """
    if not callable(build) or inspect.iscoroutinefunction(build):
        raise ConfigError("it has no function `def build(services): …` that returns the skill.")
    made: object = build(services) if inspect.signature(build).parameters else build()
    return made


def _forget(name: str) -> None:
    for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[each]
