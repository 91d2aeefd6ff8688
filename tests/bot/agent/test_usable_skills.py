"""The Agent Skills that a caller may use: they are what its commands see."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from bot.agent.call_rules import usable_skills
from bot.agent.messages import ToolCall
from bot.agent.permissions import Permissions, read_rules
from bot.agent.toolbox import Toolbox
from bot.errors import NotAllowedError
from bot.rights.effective import Rights
from bot.rights.settings import RoleSettings
from bot.tasks import Tasks
from bot.values import Json
from skills.base import Effects, Tool, ToolContext, tool
from tests.fakes.around import caller

NAMES = ("csv", "forms", "pdf")


def reader() -> Tool:
    @tool(effects=Effects.NONE)
    async def skill_read(_: ToolContext, name: str = "") -> str:
        """Read."""
        return name

    return skill_read


def of_role(role: Json) -> Callable[[], Awaitable[Rights]]:
    level = RoleSettings.model_validate(role).level("roles.named.guest", "the role `guest`")

    async def rights() -> Rights:
        return Rights((level,), "guest")

    return rights


@pytest.mark.parametrize(
    ("role", "rules", "has_reader", "named", "usable"),
    [
        ({}, {}, True, (), NAMES),
        ({"skills": ["forms"]}, {}, True, (), ("forms",)),
        ({"denied_skills": ["p*"]}, {}, True, (), ("csv", "forms")),
        ({"skills": []}, {}, True, ("pdf",), ()),
        ({}, {}, False, (), ()),
        ({}, {}, False, ("pdf", "gone"), ("pdf",)),
        ({"denied_skills": ["pdf"]}, {}, False, ("pdf",), ()),
        ({}, {"skill_read": "deny"}, True, ("csv",), ("csv",)),
        ({}, {"skill_read": "ask"}, True, (), ()),
        ({"tools": ["shell"]}, {}, True, (), ()),
        ({"permissions": {"skill_read": "deny"}}, {}, True, ("csv",), ("csv",)),
    ],
)
async def test_skills_are_usable_that_the_prompt_holds_or_that_may_be_read(
    role: Json,
    rules: Json,
    has_reader: bool,
    named: tuple[str, ...],
    usable: tuple[str, ...],
) -> None:
    permissions = Permissions(read_rules(rules))
    tools = {"skill_read": reader()} if has_reader else {}
    context = replace(caller(), rights=of_role(role), named_skills=frozenset(named))

    assert await usable_skills(permissions, tools, context, NAMES) == frozenset(usable)


async def test_a_tool_learns_what_its_caller_may_use_and_which_tools_it_has(tasks: Tasks) -> None:
    seen: list[object] = []

    @tool()
    async def shell(context: ToolContext) -> str:
        """Run."""
        seen.extend([sorted(context.tools), await context.usable_skills(NAMES)])
        return "Done."

    box = Toolbox([shell, reader()], is_subagent=True, tasks=tasks, timeout_seconds=30)
    context = replace(caller(), rights=of_role({"skills": ["csv"]}))
    result = await box.call(ToolCall("id", "shell", {}), context)

    assert not result.failed
    assert seen == [["shell", "skill_read"], frozenset({"csv"})]


async def test_nothing_is_usable_while_the_role_is_unknown() -> None:
    async def rights() -> Rights:
        raise NotAllowedError("I cannot check your role here at the moment.")

    with pytest.raises(NotAllowedError):
        await usable_skills(
            Permissions(), {"skill_read": reader()}, replace(caller(), rights=rights), NAMES
        )
