"""From what was asked to the row of a run: clamped and told so, and never more than is allowed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest

from bot.catalog.agents import AgentDefinition
from bot.errors import BadRequestError, NotAllowedError
from bot.rights.effective import Rights
from bot.rights.settings import RoleSettings
from bot.subagents.limits import SubagentSettings
from bot.subagents.planning import MAX_TASK, PlannedRun, RunPlanner, label_for
from bot.subagents.requests import BUDGET_SOURCE, WORDED, Caller, RunRequest
from bot.values import Identity, Json, Place, Role
from db.runs import NEW_RUNS
from tests.fakes.agents import FakeAgents

SKILLS = {
    "notes": {"note_save", "note_search"},
    "clock": {"current_time"},
    "runs": {"sessions_spawn"},
}
TOOLS = frozenset(tool for tools in SKILLS.values() for tool in tools)
RESERVED = frozenset({"note_save", "sessions_spawn"})

GENERAL = AgentDefinition(name="general", description="Does all.", prompt="")
READER = AgentDefinition(
    name="reader",
    description="Reads.",
    prompt="",
    tools=("note_search", "clock"),
    disallowed=("current_time",),
    max_steps=12,
    token_budget=7_000,
    timeout_minutes=2,
    announce="summary",
)


def resolve(names: Sequence[str]) -> frozenset[str]:
    found: set[str] = set()
    for name in names:
        if name not in SKILLS and name not in TOOLS:
            raise BadRequestError(f"There is no tool or skill {name!r}.")
        found |= SKILLS.get(name, {name})
    return frozenset(found)


def choose(provider: str | None, model: str | None, definition: AgentDefinition) -> tuple[str, str]:
    return provider or definition.provider or "offline", model or definition.model or "demo"


def planner(*agents: AgentDefinition, settings: SubagentSettings | None = None) -> RunPlanner:
    known = {agent.name: agent for agent in (GENERAL, READER, *agents)}
    return RunPlanner(
        settings or SubagentSettings(), FakeAgents(known), choose, resolve, lambda: RESERVED
    )


@pytest.fixture
def caller(alice: Identity) -> Caller:
    return Caller(
        user=alice,
        role=Role.USER,
        place=Place("discord", "", "general", "thread", "message"),
        conversation_id="c1",
        message_id="m1",
        batch_id="turn-1",
    )


def plan(
    caller: Caller, *, mode: str = "async", by: RunPlanner | None = None, **request: Any
) -> PlannedRun:
    asked = RunRequest(**({"task": "Count the sheep."} | request))
    return (by or planner()).plan(asked, caller, mode=mode)


def test_a_request_that_says_nothing_gets_the_defaults(caller: Caller) -> None:
    made = plan(caller)

    expected: Json = {
        "user_id": caller.user.key,
        "conversation_id": "c1",
        "parent_message_id": "m1",
        "parent_run_id": None,
        "batch_id": "turn-1",
        "label": "Count the sheep.",
        "agent": "general",
        "task": "Count the sheep.",
        "context": "",
        "instructions": "",
        "mode": "async",
        "depth": 1,
        "announce": "result",
        "provider": "offline",
        "model": "demo",
        "timeout_ms": 300_000,
        "token_budget": 50_000,
        "max_steps": 20,
        "allowed_tools": None,
        "blocked_tools": [],
        "metadata": {},
        "channel": "discord",
        "place_workspace": "",
        "place_channel": "general",
        "place_thread": "thread",
        "place_message": "message",
    }
    columns = NEW_RUNS.values(made.run)
    columns.pop("id")
    assert (columns, made.notes) == (expected, [])


def test_an_agent_brings_its_own_numbers(caller: Caller) -> None:
    made = plan(caller, agent="Reader ")

    values = made.run
    assert (values.agent, values.announce) == ("reader", "summary")
    assert (values.timeout_ms, values.token_budget, values.max_steps) == (
        120_000,
        7_000,
        12,
    )
    assert made.notes == []


@pytest.mark.parametrize(
    ("request_", "source"),
    [
        ({}, None),
        ({"agent": "reader"}, "agent"),
        ({"agent": "reader", "token_budget": 9_000}, "request"),
        ({"token_budget": 10**9}, "cap"),
    ],
)
def test_what_set_the_budget_is_kept(
    caller: Caller, request_: dict[str, Any], source: str | None
) -> None:
    assert plan(caller, **request_).run.metadata.get(BUDGET_SOURCE) == source


@pytest.mark.parametrize(
    ("setting", "of_agent", "asked", "worded"),
    [
        ("card", "", None, False),
        ("worded", "", None, True),
        ("worded", "card", None, False),
        ("card", "worded", None, True),
        ("card", "worded", "card", False),
        ("card", "", "worded", True),
    ],
)
def test_progress_is_worded_by_the_request_else_the_agent_else_the_setting(
    caller: Caller,
    setting: Literal["card", "worded"],
    of_agent: str,
    asked: str | None,
    worded: bool,
) -> None:
    settings = SubagentSettings(progress=setting)
    agent = replace(READER, name="teller", progress=of_agent)
    request = RunRequest(task="Count.", agent="teller", progress=asked)

    planned = planner(agent, settings=settings).plan(request, caller, mode="async").run

    assert planned.metadata.get(WORDED, False) is worded


def test_what_is_asked_for_goes_before_what_the_agent_brings(caller: Caller) -> None:
    values = plan(
        caller,
        agent="reader",
        announce="silent",
        timeout_minutes=3,
        token_budget=9_000,
        max_turns=3,
        provider="openai",
        model="small",
        label="sheep",
    ).run

    assert (values.announce, values.label) == ("silent", "sheep")
    assert (values.timeout_ms, values.token_budget, values.max_steps) == (
        180_000,
        9_000,
        3,
    )
    assert (values.provider, values.model) == ("openai", "small")
    assert values.metadata == {"asked_model": ["openai", "small"], "budget_source": "request"}


def test_more_than_there_is_gets_clamped_and_says_so(caller: Caller) -> None:
    made = plan(caller, timeout_minutes=99.5, token_budget=1_000_000, max_turns=500)

    values = made.run
    assert (values.timeout_ms, values.token_budget, values.max_steps) == (
        600_000,
        200_000,
        50,
    )
    assert made.notes == [
        "You asked for 1 h 39 min; a run gets 10 min at most.",
        "You asked for 1,000,000 tokens; a run gets 200,000 at most.",
        "You asked for 500 steps; a run gets 50 at most.",
    ]


def test_an_agent_cannot_bring_more_than_the_caps(caller: Caller) -> None:
    greedy = replace(READER, name="greedy", timeout_minutes=600, token_budget=10**9)

    made = plan(caller, by=planner(greedy), agent="greedy")

    assert (made.run.timeout_ms, made.run.token_budget) == (600_000, 200_000)


def test_a_delegated_task_has_the_time_of_a_turn(caller: Caller) -> None:
    made = plan(caller, mode="sync", agent="reader", timeout_minutes=9)

    assert (made.run.mode, made.run.timeout_ms) == ("sync", 120_000)


def test_a_run_has_a_second_at_least(caller: Caller) -> None:
    assert plan(caller, timeout_minutes=0.000001).run.timeout_ms == 1_000


def test_an_unknown_agent_is_replaced_and_that_is_said(caller: Caller) -> None:
    made = plan(caller, agent="pirate\n" + "x" * 100)

    assert made.run.agent == "general"
    (note,) = made.notes
    assert note.startswith("There is no agent “pirate xxx")
    assert note.endswith("…”; `general` took it.")


@pytest.mark.parametrize(
    ("agent", "asked", "allowed"),
    [
        ("general", None, None),
        ("general", [], []),
        ("general", ["clock"], ["current_time"]),
        ("general", ["note_search", "clock"], ["current_time", "note_search"]),
        ("reader", None, ["current_time", "note_search"]),
        ("reader", ["clock"], ["current_time"]),
        ("reader", [], []),
    ],
)
def test_tools_are_resolved_within_what_the_agent_may_have(
    caller: Caller, agent: str, asked: list[str] | None, allowed: list[str] | None
) -> None:
    assert plan(caller, agent=agent, allowed_tools=asked).run.allowed_tools == allowed


def test_an_agent_with_an_empty_list_has_no_tools_whatever_is_asked_for(caller: Caller) -> None:
    bare = replace(READER, name="bare", tools=())

    for asked in (None, ["clock"]):
        made = plan(caller, by=planner(bare), agent="bare", allowed_tools=asked)
        assert made.run.allowed_tools == []


def test_what_only_the_main_agent_may_use_is_left_out_and_that_is_said(caller: Caller) -> None:
    made = plan(caller, allowed_tools=["notes", "sessions_spawn"])

    assert made.run.allowed_tools == ["note_search"]
    assert made.notes == ["Only the main agent may use note_save, sessions_spawn; left out."]


def test_blocked_are_what_is_asked_for_and_what_the_agent_may_not_use(caller: Caller) -> None:
    made = plan(caller, agent="reader", blocked_tools=["notes"])

    assert made.run.blocked_tools == ["current_time", "note_save", "note_search"]


@pytest.mark.parametrize("field", ["allowed_tools", "blocked_tools"])
def test_an_unknown_tool_is_an_error(caller: Caller, field: str) -> None:
    asked: Json = {field: ["bash"]}

    with pytest.raises(BadRequestError, match="no tool or skill 'bash'"):
        plan(caller, **asked)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["timeout_minutes", "token_budget", "max_turns"])
def test_a_number_that_makes_no_sense_is_named(caller: Caller, name: str, value: float) -> None:
    asked: Json = {name: value}

    with pytest.raises(BadRequestError, match=f"`{name}` must be more than 0"):
        plan(caller, **asked)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": " \n\x07"}, "There is no task"),
        ({"task": "x" * (MAX_TASK + 1)}, "20,000 characters"),
        ({"context": "x" * MAX_TASK}, "20,000 characters"),
        ({"instructions": "x" * MAX_TASK}, "20,000 characters"),
        ({"token_budget": 99}, "at least 100"),
        ({"announce": "loudly"}, "one of result, summary, silent"),
        ({"progress": "loudly"}, "one of card, worded"),
        ({"whiteboard": {str(n): "" for n in range(101)}}, "100 entries"),
        ({"whiteboard": {"k" * 201: ""}}, "keys of at most 200"),
        ({"whiteboard": {"k": "x" * 20_001}}, "20,000 characters"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(
    caller: Caller, changes: Json, said: str
) -> None:
    with pytest.raises(BadRequestError) as raised:
        plan(caller, **changes)

    assert said in str(raised.value)


def test_texts_are_made_plain(caller: Caller) -> None:
    values = plan(
        caller, task="\x1b[31mCount\x1b[0m.", context="A\u202eB", instructions=" Be\x00 brief. "
    ).run

    assert (values.task, values.context) == ("Count.", "AB")
    assert values.instructions == "Be\ufffd brief."


def test_asked_again_after_a_crash_it_is_the_same_run(caller: Caller) -> None:
    asked = replace(caller, call_key=("turn-1", "2.0"))
    other = replace(caller, call_key=("turn-1", "2.1"))

    assert plan(asked).run.id == plan(asked).run.id
    assert plan(asked).run.id != plan(other).run.id
    assert plan(caller).run.id != plan(caller).run.id


def test_a_run_of_a_run_stands_one_deeper_and_names_its_parent(caller: Caller) -> None:
    values = plan(replace(caller, run_id="run-1", depth=1)).run

    assert (values.depth, values.parent_run_id) == (2, "run-1")


@pytest.mark.parametrize(
    ("label", "task", "said"),
    [
        (" news\nof today ", "x", "news of today"),
        ("", "Count\n  the sheep", "Count the sheep"),
        (
            "",
            "Compare the three quickest sorting algorithms",
            "Compare the three quickest sorting…",
        ),
        ("", "x" * 50, "x" * 40 + "…"),
        ("y" * 80, "x", "y" * 59 + "…"),
    ],
)
def test_a_run_is_called_by_its_label_or_by_the_first_words_of_its_task(
    label: str, task: str, said: str
) -> None:
    assert label_for(label, task) == said


# -- the rights of the user ------------------------------------------------------------------------


def limited(**lists: Any) -> Rights:
    settings = RoleSettings.model_validate(lists)
    return Rights((settings.level("roles.named.guest", "the role `guest`"),), "guest")


@pytest.mark.parametrize(
    ("rights", "request_", "refusal"),
    [
        ({"agents": []}, {}, "The role `guest` does not include the agent `general`; an operator"),
        ({"agents": ["reader"]}, {"agent": "general"}, "the agent `general`"),
        ({"denied_agents": ["*"]}, {"agent": "reader"}, "the agent `reader`"),
        ({"models": []}, {}, "the model `offline/demo`"),
        ({"models": ["small"]}, {"model": "big"}, "the model `offline/big`"),
        ({"denied_models": ["offline/*"]}, {}, "the model `offline/demo`"),
    ],
)
def test_what_a_role_does_not_include_is_refused_and_the_role_named(
    caller: Caller, rights: Json, request_: Json, refusal: str
) -> None:
    with pytest.raises(NotAllowedError, match=refusal):
        plan(caller, by=planner().within(limited(**rights)), **request_)


def test_without_a_wish_the_first_model_answers_that_the_role_names(caller: Caller) -> None:
    made = plan(caller, by=planner().within(limited(models=["small", "tiny"])))

    assert (made.run.provider, made.run.model) == ("offline", "small")


def test_a_run_is_clamped_to_the_limits_of_the_role_and_stores_what_applied(caller: Caller) -> None:
    limits = {"max_token_budget": 2_000, "max_timeout_minutes": 1, "max_concurrent_per_user": 1}
    rights = limited(limits=limits, tools=["web_fetch"])

    made = plan(caller, by=planner().within(rights), token_budget=90_000)

    assert (made.run.token_budget, made.run.timeout_ms) == (2_000, 60_000)
    assert made.notes == ["You asked for 90,000 tokens; a run gets 2,000 at most."]
    assert Rights.of_json(made.run.metadata["rights"]) == rights
    assert made.run.metadata["most_running"] == 1
    assert "rights" not in plan(caller).run.metadata
