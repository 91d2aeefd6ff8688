"""The guide to writing a skill tells the truth."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import skills
from bot.errors import ToolError
from bot.values import Identity
from skills.base import Skill
from skills.declaration import SkillDeclaration
from skills.registry import SkillRegistry
from tests.fakes.calls import Caller
from tests.fakes.clock import FakeClock

README = Path(skills.__file__).with_name("README.md")


@pytest.fixture
def example() -> Skill:
    """The skill that the guide shows, run from the text of the guide."""
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    module = ModuleType("skills.coin")
    exec(compile(code, str(README), "exec"), module.__dict__)
    declaration = module.SKILL
    assert isinstance(declaration, SkillDeclaration)
    skill = module.COIN
    assert isinstance(skill, Skill)
    return skill


async def test_the_example_of_the_guide_works(
    example: Skill, alice: Identity, clock: FakeClock
) -> None:
    caller = Caller(example, alice, clock)

    assert re.fullmatch(r"1001 tossed: (heads|tails)\.", await caller.call("coin_toss"))
    with pytest.raises(ToolError, match="tossed 21 times"):
        await caller.call("coin_toss", times=21)


def test_the_model_sees_what_the_guide_promises(example: Skill) -> None:
    (tool,) = SkillRegistry([example]).tools_for(is_subagent=True)

    assert tool.description == "Toss a coin and return what it shows."
    assert tool.schema["properties"]["times"]["description"] == "From 1 to 20"
