"""Every built-in tool declares how far it reaches and what its results hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import skills
from skills.base import Effects, Reach, Tool, ToolContext, tool
from tests.skill_pages import tools_in

HERE, AWAY, OWN, ACTS = "READS_HERE", "READS_BEYOND", "CHANGES_OWN", "ACTS_BEYOND"
DESTROYS = "DESTROYS"
FOREIGN, PRIVATE = "foreign", "private"

#: The reach of every tool in `skills/`, and what its results hold.
DECLARED = {
    "ask_user": (OWN,),
    "attachment_read": (HERE, FOREIGN, PRIVATE),
    "calendar_create": (ACTS,),
    "calendar_list": (AWAY, FOREIGN, PRIVATE),
    "channel_history": (AWAY, FOREIGN, PRIVATE),
    "channel_search": (AWAY, FOREIGN, PRIVATE),
    "conversation_search": (HERE, FOREIGN, PRIVATE),
    "current_time": (HERE,),
    "delegate_to_subagent": (OWN, FOREIGN, PRIVATE),
    "file_edit": (DESTROYS,),
    "file_list": (HERE, FOREIGN, PRIVATE),
    "file_read": (HERE, FOREIGN, PRIVATE),
    "file_send": (OWN,),
    "file_write": (DESTROYS,),
    "forget": (DESTROYS,),
    "glob": (HERE, FOREIGN, PRIVATE),
    "grep": (HERE, FOREIGN, PRIVATE),
    "note_delete": (DESTROYS,),
    "note_list": (AWAY, FOREIGN, PRIVATE),
    "note_read": (AWAY, FOREIGN, PRIVATE),
    "note_save": (OWN,),
    "note_search": (AWAY, FOREIGN, PRIVATE),
    "recall": (AWAY, PRIVATE),
    "remember": (OWN,),
    "remember_found": (OWN,),
    "report_progress": (OWN,),
    "schedule_cancel": (ACTS,),
    "schedule_list": (AWAY, FOREIGN, PRIVATE),
    "schedule_task": (ACTS,),
    "scheduler_toggle": (ACTS,),
    "scratch_get": (HERE, FOREIGN, PRIVATE),
    "scratch_list": (HERE, FOREIGN, PRIVATE),
    "scratch_set": (OWN,),
    "sessions_info": (HERE, FOREIGN, PRIVATE),
    "sessions_list": (HERE, FOREIGN, PRIVATE),
    "sessions_log": (HERE, FOREIGN, PRIVATE),
    "sessions_wait": (HERE, FOREIGN, PRIVATE),
    "sessions_send": (ACTS,),
    "sessions_spawn": (OWN,),
    "sessions_stop": (ACTS,),
    "shell": (DESTROYS, FOREIGN, PRIVATE),
    "skill_read": (HERE,),
    "todo_read": (HERE, FOREIGN, PRIVATE),
    "todo_write": (OWN,),
    "web_fetch": (AWAY, FOREIGN),
    "web_search": (AWAY, FOREIGN),
    "whiteboard_delete": (DESTROYS,),
    "whiteboard_list": (HERE, FOREIGN, PRIVATE),
    "whiteboard_read": (HERE, FOREIGN, PRIVATE),
    "whiteboard_write": (DESTROYS,),
}
KEYWORDS = {"foreign", "private", "reach"}
SKILLS = Path(skills.__file__).parent
#: Modules that build tools without the decorator.
BUILDERS = ("skills/agents.py", "skills/mcp/server.py", "skills/rest/services.py")


def decorated() -> Iterator[tuple[str, dict[str, ast.expr]]]:
    """Yield the name and the declarations of each function below `@tool(...)` in `skills/`."""
    for path in sorted(SKILLS.rglob("*.py")):
        for each in tools_in(path):
            yield each.name, each.keywords


@pytest.mark.parametrize(("name", "given"), [pytest.param(n, g, id=n) for n, g in decorated()])
def test_a_built_in_tool_declares_reach_foreign_and_private(
    name: str, given: dict[str, ast.expr]
) -> None:
    assert set(given) >= KEYWORDS
    flags = [flag for flag in (FOREIGN, PRIVATE) if ast.literal_eval(given[flag])]

    assert (ast.unparse(given["reach"]).removeprefix("Reach."), *flags) == DECLARED[name]


def test_the_table_names_no_tool_that_is_gone() -> None:
    assert {name for name, _ in decorated()} == set(DECLARED)


@pytest.mark.parametrize("module", BUILDERS)
def test_a_tool_built_without_the_decorator_declares_them_too(module: str) -> None:
    tree = ast.parse((SKILLS.parent / module).read_text())
    made = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Tool"
    ]

    assert made
    assert all({word.arg for word in call.keywords} >= KEYWORDS for call in made)


async def nothing(_: ToolContext) -> str:
    """Do nothing."""
    return ""


def test_a_tool_that_declares_nothing_is_treated_with_caution() -> None:
    undeclared, reader = tool()(nothing), tool(effects=Effects.NONE)(nothing)

    assert (undeclared.reach, undeclared.foreign, undeclared.private) == (
        Reach.ACTS_BEYOND,
        True,
        True,
    )
    assert (reader.reach, reader.foreign, reader.private) == (Reach.READS_BEYOND, True, True)


def test_a_tool_made_by_hand_is_treated_with_caution() -> None:
    async def run(_: ToolContext, __: object) -> str:
        return ""

    made = Tool(name="post", description="Posts.", schema={}, run=run)

    assert (made.reach, made.foreign, made.private) == (Reach.ACTS_BEYOND, True, True)
