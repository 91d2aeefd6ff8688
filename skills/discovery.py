"""Finds the skills that come with the bot, in the modules of this package."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from bot.values import SkillSettings

_FOLDER = Path(__file__).parent
_DECLARED = re.compile(r"^SKILL\b", re.MULTILINE)


@cache
def modules() -> tuple[str, ...]:
    """Return the modules that declare a skill, such as `skills.notes` and `skills.mcp.skill`."""
    files = [*_FOLDER.glob("[!_]*.py"), *_FOLDER.glob("*/skill.py")]
    declared = (each for each in files if _DECLARED.search(each.read_text("utf-8")))
    return tuple(sorted(_name(each) for each in declared))


@cache
def sections() -> tuple[type[SkillSettings], ...]:
    """Return the classes of the sections of `config.yaml` that belong to skills."""
    found = (
        value
        for file in sorted(_FOLDER.glob("*/settings.py"))
        for value in vars(import_module(_name(file))).values()
    )
    kinds = (each for each in found if isinstance(each, type) and issubclass(each, SkillSettings))
    return tuple(dict.fromkeys(each for each in kinds if each.section))


def settings_of(module: str) -> tuple[type[SkillSettings], ...]:
    """Return the sections of the skill that a module declares."""
    package = module.rpartition(".")[0]
    return tuple(each for each in sections() if each.__module__ == f"{package}.settings")


def imported(kind: str) -> Iterator[Any]:
    """Import the modules of this name in the packages of skills, such as `checkup`."""
    return (import_module(_name(file)) for file in sorted(_FOLDER.glob(f"*/{kind}.py")))


@cache
def names() -> frozenset[str]:
    """Return the names of the skills and their tools, without importing them."""
    files = (_FOLDER.joinpath(*each.split(".")[1:]).with_suffix(".py") for each in modules())
    return frozenset(name for file in files for name in _names_in(file.read_text("utf-8")))


def _name(file: Path) -> str:
    return ".".join(("skills", *file.relative_to(_FOLDER).with_suffix("").parts))


def _names_in(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef):
            if any(
                isinstance(each, ast.Call) and ast.unparse(each.func) == "tool"
                for each in node.decorator_list
            ):
                yield node.name
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Skill":
            for keyword in node.keywords:
                if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                    yield str(keyword.value.value)
