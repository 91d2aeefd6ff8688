"""Finds the skills that come with the bot, in the modules of this package."""

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from bot.values import SkillSettings

_DECLARED = re.compile(r"^SKILL\b", re.MULTILINE)
_DECORATORS = ("tool", "reads_here", "changes_own")
#: A module may give its decorator a name: `reads = tool(...)`, `writes = partial(tool, ...)`.
_NAMED_DECORATOR = re.compile(
    rf"^[ \t]*(\w+) = (?:partial\(\s*)?(?:{'|'.join(_DECORATORS)})[(,]", re.MULTILINE
)
#: Parsing the modules instead would take a fifth of the time of a whole `check`.
_SKILL = re.compile(r'\bSkill\([^"]*?\bname="([^"]+)"')


def modules() -> tuple[str, ...]:
    """Return the modules that declare a skill, such as `skills.notes` and `skills.mcp.skill`."""
    return tuple(sorted(_declaring()))


@cache
def sections() -> tuple[type[SkillSettings], ...]:
    """Return the classes of the sections of `config.yaml` that belong to skills."""
    found = (value for module in imported("settings") for value in vars(module).values())
    kinds = (each for each in found if isinstance(each, type) and issubclass(each, SkillSettings))
    return tuple(dict.fromkeys(each for each in kinds if each.section))


def settings_of(module: str) -> tuple[type[SkillSettings], ...]:
    """Return the sections of the skill that a module declares."""
    package = module.rpartition(".")[0]
    return tuple(each for each in sections() if each.__module__ == f"{package}.settings")


def imported(kind: str) -> Iterator[Any]:
    """Import the modules of this name in the packages of skills, such as `checkup`."""
    return (import_module(each) for each in sorted(_files(f"*/{kind}.py")))


@cache
def names() -> frozenset[str]:
    """Return the names of the skills and their tools, without importing them."""
    return frozenset(name for module in modules() for name in names_of(module))


@cache
def names_of(module: str) -> frozenset[str]:
    """Return the names of the skills and tools that a module declares, without importing it."""
    source = _declaring()[module]
    decorators = "|".join((*_DECORATORS, *_NAMED_DECORATOR.findall(source)))
    tools = re.compile(
        rf"^[ \t]*@(?:{decorators})\b.*?^[ \t]*async def (\w+)", re.MULTILINE | re.DOTALL
    )
    return frozenset((*tools.findall(source), *_SKILL.findall(source)))


@cache
def _declaring() -> dict[str, str]:
    """Return the sources of the modules that declare a skill, by the names of the modules."""
    files = _files("[!_]*.py") | _files("*/skill.py")
    sources = {name: file.read_text("utf-8") for name, file in files.items()}
    return {name: source for name, source in sources.items() if _DECLARED.search(source)}


def _files(pattern: str) -> dict[str, Path]:
    """Return the files of this package that fit a pattern, by the names of their modules."""
    return {
        ".".join(("skills", *file.relative_to(folder).with_suffix("").parts)): file
        for folder in map(Path, sys.modules[__name__.rpartition(".")[0]].__path__)
        for file in folder.glob(pattern)
    }
