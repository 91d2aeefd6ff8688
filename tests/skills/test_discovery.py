"""A package in skills/ is a skill of the bot: no other file lists it."""

import ast
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from bot.config.model import Config
from skills import discovery
from skills.declaration import SkillDeclaration

DICE = """
    from contextlib import AsyncExitStack

    from skills.base import Effects, Skill, ToolContext, tool
    from skills.declaration import BotServices, SkillDeclaration, SkillParts
    from skills.dice.settings import DiceSettings

    @tool(effects=Effects.NONE)
    async def roll(context: ToolContext) -> str:
        '''Roll a die.'''
        return "4"

    async def _open(stack: AsyncExitStack, services: BotServices) -> SkillParts:
        stack.callback(print, "closed")
        print("sides:", services.config.section(DiceSettings).sides)
        return SkillParts(skills=(Skill(name="dice", description="Rolls.", tools=(roll,)),))

    SKILL = SkillDeclaration(open=_open)
"""
SETTINGS = """
    from typing import ClassVar

    from pydantic import Field

    from bot.values import SkillSettings

    class DiceSettings(SkillSettings):
        '''Everything under `dice:`.'''

        section: ClassVar[str] = "dice"
        about: ClassVar[str] = "Dice, for those who cannot decide."

        sides: int = Field(6, ge=2, description="Sides of a die.")

        @property
        def is_on(self) -> bool:
            return self.sides != 13
"""
REPORT = """
    from skills.dice.settings import DiceSettings

    TITLE = "Dice"

    def lines(config, environ):
        yield f"{config.section(DiceSettings).sides} sides"
"""
CHECKUP = """
    from bot.checks import works

    SUBJECT = "Dice"

    async def checks(config):
        return [works("they roll.")]
"""
CONSOLE = """
    import typer

    COMMANDS = typer.Typer(name="dice")

    @COMMANDS.command("roll")
    def roll() -> None:
        '''Roll a die.'''
        print("on the console: 4")

    @COMMANDS.command("weigh")
    def weigh() -> None:
        '''Weigh a die.'''
"""
#: Uses the bot with one more folder of skills, in a process of its own.
USE = r"""
    import asyncio
    import sys
    from pathlib import Path

    import skills

    skills.__path__.append(sys.argv[1])

    from bot.__main__ import build
    from bot.app import open_bot
    from bot.config.loading import load
    from bot.doctor import examine
    from bot.config.example import example
    from bot.report import report
    from tests.fakes.outlet import FakeOutlet

    assert "\ndice:\n  # Sides of a die.\n  sides: 6\n" in example()
    file = Path(sys.argv[1], "config.yaml")

    async def use() -> None:
        config = load(file, {})
        async with open_bot(config, {"fake": FakeOutlet("fake")}) as bot:
            print("roll" in bot.registry.tools, "skills.dice.skill" in sys.modules)
        print(*report(config, file, {}).splitlines(), sep="\n")
        print(*await examine(config), sep="\n")

    build()(["dice", "roll"], standalone_mode=False)
    print("imported by the console:", "skills.dice.skill" in sys.modules)
    asyncio.run(use())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "dice"
    package.mkdir()
    files = {"skill": DICE, "settings": SETTINGS, "report": REPORT}
    files |= {"checkup": CHECKUP, "console": CONSOLE}
    for name, code in files.items():
        (package / f"{name}.py").write_text(dedent(code))
    return tmp_path


def used(folder: Path, *, sides: int) -> str:
    text = f"database: {{url: 'sqlite:///{folder}/bot.db'}}\ndice: {{sides: {sides}}}\n"
    (folder / "config.yaml").write_text(text)
    return subprocess.run(
        [sys.executable, "-c", dedent(USE), str(folder)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.processes
def test_a_package_adds_tools_settings_checks_and_commands_without_any_list(folder: Path) -> None:
    told = used(folder, sides=20)

    assert "sides: 20\n" in told
    assert "True True\n" in told
    assert "closed\n" in told
    assert "Dice           20 sides" in told
    assert "✓ Dice       they roll." in told
    assert "on the console: 4\nimported by the console: False\n" in told


@pytest.mark.processes
def test_a_skill_that_is_off_is_not_imported(folder: Path) -> None:
    told = used(folder, sides=13)

    assert "False False\n" in told
    assert "sides: 13" not in told


def test_every_module_that_declares_a_skill_declares_it_in_the_same_form() -> None:
    for module in discovery.modules():
        declaration = sys.modules.get(module) or __import__(module, fromlist=["SKILL"])
        assert isinstance(declaration.SKILL, SkillDeclaration)
        assert bool(declaration.SKILL.build) != bool(declaration.SKILL.open)


def test_every_section_of_a_skill_is_in_the_configuration() -> None:
    config = Config()

    for kind in discovery.sections():
        assert isinstance(getattr(config, kind.section), kind)
        assert kind.about


def parsed_names(source: str) -> set[str]:
    """Return the names of skills and tools by the syntax tree instead of by patterns."""
    nodes = list(ast.walk(ast.parse(source)))
    decorators = {"tool", "reads_here", "changes_own"}
    found = set()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                called = [call.func, *call.args[:1]] if _is(call.func, "partial") else [call.func]
                if any(isinstance(each, ast.Name) and each.id in decorators for each in called):
                    decorators.add(name)
            case ast.Call(func=ast.Name(id="Skill"), keywords=keywords):
                values = {each.arg: each.value for each in keywords}
                if isinstance(value := values.get("name"), ast.Constant):
                    found.add(str(value.value))
    for node in nodes:
        if isinstance(node, ast.AsyncFunctionDef):
            for each in node.decorator_list:
                if any(
                    _is(each.func if isinstance(each, ast.Call) else each, n) for n in decorators
                ):
                    found.add(node.name)
    return found


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


@pytest.mark.parametrize("module", discovery.modules())
def test_patterns_find_the_names_that_the_syntax_tree_has(module: str) -> None:
    source = discovery._declaring()[module]

    assert discovery.names_of(module) == parsed_names(source)
