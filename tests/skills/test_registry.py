"""The registry gives every agent its tools, and never more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import BadRequestError, ConfigError
from skills.base import Skill, Tool, ToolContext
from skills.registry import SkillRegistry


async def nothing(_: ToolContext, __: object) -> str:
    return ""


def a_tool(name: str, *, main_only: bool = False, confirm: bool = False) -> Tool:
    return Tool(
        name=name,
        description=name,
        schema={"type": "object"},
        run=nothing,
        main_agent_only=main_only,
        needs_confirmation=confirm,
    )


def a_skill(name: str, *tools: Tool) -> Skill:
    return Skill(name=name, description=name, tools=tools)


NOTES = a_skill("notes", a_tool("note_search"), a_tool("note_save", main_only=True))
CLOCK = a_skill("clock", a_tool("current_time"))
RUNS = a_skill("runs", a_tool("sessions_spawn", main_only=True))
REGISTRY = SkillRegistry([NOTES, CLOCK, RUNS])
TOOLS = ["note_search", "note_save", "current_time", "sessions_spawn"]
MAIN_ONLY = {"note_save", "sessions_spawn"}

names = st.lists(st.sampled_from([*TOOLS, "notes", "clock", "runs"]))


def given_to(
    *, is_subagent: bool = False, allowed: list[str] | None = None, blocked: tuple[str, ...] = ()
) -> list[str]:
    tools = REGISTRY.tools_for(is_subagent=is_subagent, allowed=allowed, blocked=blocked)
    return [tool.name for tool in tools]


def test_the_main_agent_has_everything_unless_told_otherwise() -> None:
    assert given_to() == TOOLS


def test_a_subagent_has_everything_but_what_is_for_the_main_agent() -> None:
    assert given_to(is_subagent=True) == ["note_search", "current_time"]


def test_an_empty_list_allows_nothing() -> None:
    assert given_to(allowed=[]) == []


def test_a_tool_alone_does_not_bring_the_rest_of_its_skill() -> None:
    assert given_to(allowed=["note_search"]) == ["note_search"]


def test_a_skill_stands_for_all_its_tools() -> None:
    assert REGISTRY.resolve(["notes", "current_time"]) == {
        "note_search",
        "note_save",
        "current_time",
    }
    assert given_to(blocked=("notes",)) == ["current_time", "sessions_spawn"]


def test_blocked_wins_over_allowed() -> None:
    assert given_to(allowed=["notes", "clock"], blocked=("note_search",)) == [
        "note_save",
        "current_time",
    ]


def test_an_unknown_name_is_refused_with_the_closest_ones() -> None:
    with pytest.raises(BadRequestError, match=r"'note_serch'\. Did you mean note_search"):
        REGISTRY.resolve(["current_time", "note_serch"])

    with pytest.raises(BadRequestError, match=r"'xyz'\. There are: clock, current_time"):
        REGISTRY.resolve(["xyz"])


def test_an_unknown_name_blocks_or_allows_nothing_silently() -> None:
    with pytest.raises(BadRequestError):
        given_to(allowed=["note_serch"])
    with pytest.raises(BadRequestError):
        given_to(blocked=("note_serch",))


@given(is_subagent=st.booleans(), allowed=st.none() | names, blocked=names)
def test_the_three_filters_each_take_away_and_nothing_comes_back(
    is_subagent: bool, allowed: list[str] | None, blocked: list[str]
) -> None:
    found = given_to(is_subagent=is_subagent, allowed=allowed, blocked=tuple(blocked))

    first = TOOLS if allowed is None else [t for t in TOOLS if t in REGISTRY.resolve(allowed)]
    second = [tool for tool in first if tool not in REGISTRY.resolve(blocked)]
    third = [tool for tool in second if not (is_subagent and tool in MAIN_ONLY)]
    assert found == third


@given(allowed=st.none() | names, blocked=names)
def test_nothing_brings_a_main_agent_tool_to_a_subagent(
    allowed: list[str] | None, blocked: list[str]
) -> None:
    found = given_to(is_subagent=True, allowed=allowed, blocked=tuple(blocked))

    assert not set(found) & MAIN_ONLY


@given(wanted=names)
def test_resolving_what_is_resolved_changes_nothing(wanted: list[str]) -> None:
    resolved = REGISTRY.resolve(wanted)

    assert resolved <= set(TOOLS)
    assert REGISTRY.resolve(resolved) == resolved


@pytest.mark.parametrize(
    ("skills", "complaint"),
    [
        (
            [NOTES, a_skill("more", a_tool("note_save"))],
            "'more' cannot be added: the name 'note_save' is taken by the skill 'notes'",
        ),
        ([a_skill("twice", a_tool("x"), a_tool("x"))], "two tools of 'twice' are called 'x'"),
        ([NOTES, a_skill("notes")], "the name 'notes' is taken by the skill 'notes'"),
        ([NOTES, a_skill("other", a_tool("notes"))], "the name 'notes' is taken"),
        ([a_skill("both", a_tool("both"), a_tool("x"))], "'both' is called like the skill"),
        ([a_skill("mail", a_tool("send", confirm=True))], "'send' needs a confirmation"),
    ],
)
def test_the_bot_does_not_start_with_names_or_tools_that_cannot_be(
    skills: list[Skill], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        SkillRegistry(skills)


def test_a_confirmed_tool_of_the_main_agent_is_fine() -> None:
    mail = a_skill("mail", a_tool("send", main_only=True, confirm=True))

    assert SkillRegistry([mail]).resolve(["mail"]) == {"send"}


def test_a_skill_may_be_called_like_its_only_tool() -> None:
    assert SkillRegistry([a_skill("dice", a_tool("dice"))]).resolve(["dice"]) == {"dice"}


# -- tools that come and go ------------------------------------------------------------------------


class Coming:
    """A skill whose tools come and go."""

    def __init__(self, name: str = "far", *tools: Tool) -> None:
        self.now = tools
        self.skill = Skill(name=name, description=name, live=lambda: self.now)


def names_of(
    registry: SkillRegistry, *, is_subagent: bool = False, **wanted: list[str]
) -> list[str]:
    tools = registry.tools_for(
        is_subagent=is_subagent, allowed=wanted.get("allowed"), blocked=wanted.get("blocked", [])
    )
    return [tool.name for tool in tools]


def test_a_tool_that_comes_late_passes_the_same_filters() -> None:
    far = Coming()
    registry = SkillRegistry([CLOCK, far.skill])
    assert names_of(registry) == ["current_time"]

    far.now = (a_tool("far__look"), a_tool("far__act", main_only=True))

    assert names_of(registry) == ["current_time", "far__look", "far__act"]
    assert names_of(registry, is_subagent=True) == ["current_time", "far__look"]
    assert names_of(registry, is_subagent=True, allowed=["far"]) == ["far__look"]
    assert names_of(registry, allowed=["current_time"]) == ["current_time"]
    assert registry.main_agent_only == {"far__act"}
    assert registry.find("far__look") is not None
    far.now = ()
    assert names_of(registry) == ["current_time"]
    assert registry.find("far__look") is None


def test_what_is_blocked_stays_blocked_when_it_comes() -> None:
    far = Coming()
    registry = SkillRegistry([CLOCK, far.skill])
    blocked = sorted(registry.resolve(["far__look"]))
    all_blocked = sorted(registry.resolve(["far"]))

    far.now = (a_tool("far__look"), a_tool("far__act"))

    assert names_of(registry, blocked=blocked) == ["current_time", "far__act"]
    assert names_of(registry, blocked=all_blocked) == ["current_time"]


def test_what_is_allowed_by_name_is_there_when_it_comes_and_nothing_beside_it() -> None:
    far = Coming()
    registry = SkillRegistry([CLOCK, far.skill])
    allowed = sorted(registry.resolve(["far__look"]))

    assert names_of(registry, allowed=allowed) == []
    far.now = (a_tool("far__look"), a_tool("far__act"))

    assert names_of(registry, allowed=allowed) == ["far__look"]
    assert registry.resolve(registry.resolve(["far"])) == registry.resolve(["far"])


def test_a_tool_that_cannot_be_is_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    far = Coming(
        "far",
        a_tool("current_time", main_only=True),
        a_tool("far__ask", confirm=True),
        a_tool("far__twin"),
        a_tool("far__twin", main_only=True),
    )
    registry = SkillRegistry([CLOCK, far.skill])

    for _ in range(3):
        assert names_of(registry) == ["current_time", "far__twin"]

    assert not registry.tools["current_time"].main_agent_only
    assert not registry.tools["far__twin"].main_agent_only
    assert len(caplog.records) == 3


def test_nothing_else_is_called_like_a_tool_that_may_come() -> None:
    far = Coming()
    for other in (a_skill("x", a_tool("far__x")), Coming("far__x").skill):
        with pytest.raises(ConfigError, match="may come from 'far'"):
            SkillRegistry([far.skill, other])


def test_a_name_that_may_come_is_no_unknown_name() -> None:
    registry = SkillRegistry([Coming().skill])

    assert registry.has("far__look")
    assert registry.has("far")
    assert not registry.has("fax__look")
    with pytest.raises(BadRequestError, match="fax__look"):
        registry.resolve(["fax__look"])


def test_all_tools_of_a_server_are_meant_by_one_name_whichever_it_has() -> None:
    tools = [a_tool("mcp__files__read"), a_tool("mcp__files2__read"), a_tool("mcp__web__get")]
    skill = Skill(name="mcp", description="Servers.", live=lambda: tuple(tools))
    registry = SkillRegistry([CLOCK, skill])

    allowed = ["current_time", "mcp__files__*", "mcp__gone__*"]
    some = registry.tools_for(is_subagent=True, allowed=allowed)
    rest = registry.tools_for(is_subagent=True, blocked=["mcp__files__*"])

    assert [tool.name for tool in some] == ["current_time", "mcp__files__read"]
    assert [tool.name for tool in rest] == ["current_time", "mcp__files2__read", "mcp__web__get"]
