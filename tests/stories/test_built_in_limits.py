"""What the agents that come with the bot may do: so many steps, these tools, and no others."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import func, select

from bot.values import Json, RunStatus
from db.tables import subagent_runs
from tests.fakes.anthropic_server import Reply
from tests.stories.farm import BARN, Cast, Decide, Farm, Work, farm
from tests.stories.stage import ALICE, calls
from tests.stories.stage import call as one_call

#: What every run has for itself.
OWN = {
    "ask_user",
    "report_progress",
    *("scratch_get", "scratch_list", "scratch_set"),
    *("whiteboard_delete", "whiteboard_list", "whiteboard_read", "whiteboard_write"),
}


@dataclass(frozen=True, slots=True)
class Agent:
    """A row of the table of agents (features D1 to D7)."""

    name: str
    steps: int
    tools: frozenset[str]

    def __str__(self) -> str:
        return self.name


READERS = [
    Agent("explore", 15, frozenset({"file_read", "file_list", "glob", "grep"})),
    Agent(
        "planner",
        10,
        frozenset({"file_read", "file_list", "glob", "grep", "todo_read", "todo_write"}),
    ),
    Agent("researcher", 10, frozenset({"file_read", "web_fetch", "web_search"})),
    Agent("code-search", 8, frozenset({"file_read", "file_list", "glob", "grep"})),
    Agent("code-review", 6, frozenset({"file_read", "glob", "grep"})),
]
#: Where there is a sandbox it also has `shell`, which the story of its job uses.
GENERAL = Agent(
    "general",
    20,
    frozenset(
        {
            *("file_edit", "file_list", "file_read", "file_write", "glob", "grep"),
            *("current_time", "todo_read", "todo_write", "web_fetch", "web_search"),
        }
    ),
)


def offered(body: Json) -> set[str]:
    return {tool["name"] for tool in body["tools"]}


def never_done(work: Work) -> Reply:
    """Read one more line, without end, and say so."""
    line = len(work.results) + 1
    read = one_call("file_read", path="farm/barn.py", offset=line, limit=1)
    return Reply(text=f"Line {line} is next.", calls=read.calls)


@pytest.mark.parametrize("agent", [*READERS, GENERAL], ids=str)
async def test_a_model_that_never_stops_takes_its_steps_and_is_asked_for_what_it_has(
    sqlite_url: str, tmp_path: Path, agent: Agent
) -> None:
    # One line for each step, so that no reading fails.
    assert BARN.count("\n") + 5 > agent.steps
    async with farm(sqlite_url, tmp_path, Cast(never_done)) as it:
        run, told = await it.spawn(agent.name, "Read everything")

        free = [body for body in it.cast.of_runs if body.get("tool_choice") != {"type": "none"}]
        assert (run.status, run.max_steps) == (RunStatus.MAX_STEPS, agent.steps)
        assert (len(free), len(it.cast.of_runs)) == (agent.steps, agent.steps + 1)
        assert run.tool_call_count == agent.steps
        assert f"It took all its {agent.steps} steps" in told
        assert f"Line {agent.steps + 1} is next." in told


@pytest.mark.parametrize("agent", READERS, ids=str)
async def test_one_that_reads_has_just_the_tools_of_its_file_and_can_change_nothing(
    sqlite_url: str, tmp_path: Path, agent: Agent
) -> None:
    tries: dict[str, Json] = {
        "file_write": {"path": "farm/barn.py", "text": ""},
        "file_edit": {"path": "farm/barn.py", "old": "Barns", "new": "Bombs"},
        "shell": {"command": "rm -r /workspace/*"},
        "note_save": {"title": "a", "text": "b"},
        "sessions_spawn": {"task": "Write a file"},
        "code_search": {"query": "barns"},
    }
    cast = Cast(tries_once(tries))
    async with farm(sqlite_url, tmp_path, cast) as it:
        before = it.fingerprint()
        run, told = await it.spawn(agent.name, "Change what you can")

        assert run.status is RunStatus.COMPLETED
        assert offered(cast.of_runs[0]) == agent.tools | OWN
        assert run.degraded
        refusals = told.partition("\n\n")[2].split("\n")
        assert [line.partition(". Your tools: ")[0] for line in refusals] == [
            f"You have no tool '{name}'" for name in tries
        ]
        assert it.fingerprint() == before


def tries_once(tries: dict[str, Json]) -> Decide:
    """Return a model that makes all these calls in one answer, and reports what it was told."""

    def decide(work: Work) -> Reply:
        if not work.results:
            return calls(*tries.items())
        return Reply(text="\n".join(work.results))

    return decide


async def test_general_has_all_that_a_run_may_have_and_nothing_of_the_main_agents(
    sqlite_url: str, tmp_path: Path
) -> None:
    cast = Cast(lambda _: Reply(text="Done."))
    async with farm(sqlite_url, tmp_path, cast) as it:
        await it.spawn("general", "Look around")

        tools = offered(cast.of_runs[0])
        reserved = it.stage.bot.registry.main_agent_only
        assert GENERAL.tools | OWN <= tools
        assert (tools - OWN) & reserved == set()
        assert {"sessions_spawn", "delegate_to_subagent", "plan", "schedule_task"} <= reserved
        assert {"remember", "code_search", "code_review", "note_save"} <= reserved


# -- an agent that there is not --------------------------------------------------------------------


async def test_general_takes_what_is_for_an_agent_that_there_is_not_and_everyone_is_told(
    sqlite_url: str, tmp_path: Path
) -> None:
    sentence = "There is no agent “pirate”; `general` took it."
    cast = Cast(
        lambda work: Reply(text=f"Done: {work.task}"),
        main=[
            calls(
                ("sessions_spawn", {"task": "Find gold", "agent": "pirate"}),
                (
                    "delegate_to_subagent",
                    {"task": "Find rum", "agent": "pirate", "tools_needed": []},
                ),
            ),
            lambda work: Reply(text="\n".join(work.results)),
        ],
    )
    async with farm(sqlite_url, tmp_path, cast) as it:
        answer = await it.stage.command(ALICE, "/subagents spawn --agent planer Find ships")
        reply = await it.ask("Find gold and rum")

        assert "There is no agent “planer”. Did you mean `planner`" in answer.text
        assert reply.count(sentence) == 2, reply
        runs = [await it.stage.run_of(f"Find {what}") for what in ("gold", "rum")]
        assert {run.agent for run in runs} == {"general"}


# -- as tools of the main agent --------------------------------------------------------------------


UNFIT: list[tuple[str, Json, str]] = [
    ("code_search", {}, "`query` is required."),
    ("code_search", {"query": "a", "path": "b"}, "`path` is not an argument."),
    ("code_search", {"query": ["a"]}, "`query` must be of the type string."),
    ("code_review", {"focus": "bugs"}, "`target` is required."),
    (
        "code_review",
        {"target": "a", "focus": "taste"},
        "`focus` must be one of bugs, style, performance, security, all.",
    ),
    ("plan", {"task": ""}, "`task` is required."),
    ("plan", {"task": "a", "constraints": 7}, "`constraints` must be of the type string."),
]


async def test_input_that_does_not_fit_is_refused_in_a_sentence_and_nothing_runs(
    sqlite_url: str, tmp_path: Path
) -> None:
    cast = Cast(
        lambda _: Reply(text="never"),
        main=[
            calls(*((tool, given) for tool, given, _ in UNFIT)),
            lambda work: Reply(text="\n".join(work.results)),
        ],
    )
    async with farm(sqlite_url, tmp_path, cast) as it:
        told = await it.ask("Do it")

        assert told.split("\n") == [sentence for _, _, sentence in UNFIT]
        assert await count_runs(it) == 0


async def test_the_main_agent_sees_three_of_them_as_tools_with_these_inputs(
    sqlite_url: str, tmp_path: Path
) -> None:
    cast = Cast(lambda _: Reply(text="never"), main=[Reply(text="Hello.")])
    async with farm(sqlite_url, tmp_path, cast) as it:
        await it.ask("Hello")

        schemas = {tool["name"]: tool["input_schema"] for tool in cast.asked[0]["tools"]}
        inputs = {
            name: (tuple(schemas[name]["properties"]), schemas[name]["required"])
            for name in ("code_search", "code_review", "plan")
        }
        assert inputs == {
            "code_search": (("query", "scope"), ["query"]),
            "code_review": (("target", "focus"), ["target"]),
            "plan": (("task", "constraints"), ["task"]),
        }


async def count_runs(it: Farm) -> int:
    async with it.stage.bot.database.snapshot() as tx:
        return (await tx.execute(select(func.count()).select_from(subagent_runs))).scalar_one()
