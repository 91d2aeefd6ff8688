"""The lists of agents (feature P5) and of usage that users read."""

from bot.catalog.agents import AgentDefinition
from bot.conversations.run_lines import AGENTS_PER_PAGE, MOST_TOOLS, agents_text, usage_text
from bot.subagents.limits import SubagentSettings
from bot.subagents.requests import UsageReport
from bot.values import RunUsage
from tests.fakes.agents import FakeAgents


def agent(name: str = "general", **more: object) -> AgentDefinition:
    values: dict[str, object] = {"name": name, "description": f"Does {name} things.", "prompt": "x"}
    return AgentDefinition(**(values | more))  # type: ignore[arg-type]


def text_of(*agents: AgentDefinition) -> list[str]:
    return agents_text(FakeAgents({a.name: a for a in agents}), SubagentSettings()).split("\n")


def test_each_agent_is_told_with_what_it_does_its_tools_and_its_limits() -> None:
    explore = agent("explore", tools=("glob", "grep"), max_steps=15)

    assert text_of(agent(), explore) == [
        "**Agents** (2)",
        "- **explore**: Does explore things.",
        "  - Tools: `glob`, `grep`",
        "  - Limits: 15 steps, 5 min (2 min when an answer waits for it), 50,000 tokens",
        "- **general**: Does general things.",
        "  - Tools: all that runs may have",
        "  - Limits: 20 steps, 5 min (2 min when an answer waits for it), 50,000 tokens",
        "",
        "`/subagents spawn --agent NAME TASK` starts one.",
    ]


def test_an_agents_own_limits_count_within_the_caps() -> None:
    own = agent(timeout_minutes=2.5, token_budget=1_000)
    wide = agent("wide", timeout_minutes=600, token_budget=10_000_000)

    limits = [line for line in text_of(own, wide) if "Limits" in line]

    assert limits == [
        "  - Limits: 20 steps, 2 min 30 s (2 min when an answer waits for it), 1,000 tokens",
        "  - Limits: 20 steps, 10 min (2 min when an answer waits for it), 200,000 tokens",
    ]


def test_no_tools_and_forbidden_ones_are_said() -> None:
    found = text_of(agent(tools=()), agent("safe", disallowed=("shell",)))

    assert found[2] == "  - Tools: none"
    assert found[5] == "  - Tools: all that runs may have, but not `shell`"


def test_agents_are_shown_a_page_at_a_time_and_filtered_by_words() -> None:
    many = [agent(f"a{number:02}") for number in range(AGENTS_PER_PAGE + 1)]
    found = FakeAgents({each.name: each for each in (*many, agent("tester"))})

    def page(words: str = "", number: int = 1) -> list[str]:
        return agents_text(found, SubagentSettings(), words=words, page=number).split("\n")

    first, second = page(), page(number=99)
    assert first[0] == f"**Agents** ({AGENTS_PER_PAGE + 2}, page 1 of 2)"
    assert first[-1].endswith("`/subagents agents 2` shows the next page.")
    assert second[0].endswith("page 2 of 2)")
    assert [line for line in second if line.startswith("- **")] == [
        "- **a15**: Does a15 things.",
        "- **tester**: Does tester things.",
    ]
    assert page("Does TESTER")[:2] == [
        "**Agents** with “Does TESTER” (1)",
        "- **tester**: Does tester things.",
    ]
    assert page("does a")[-1].endswith("`/subagents agents does a 2` shows the next page.")
    assert page("cook") == [
        "No agent has “cook” in its name or description. `/subagents agents` shows all."
    ]


def test_long_lists_and_descriptions_are_cut() -> None:
    many = tuple(f"tool{number}" for number in range(MOST_TOOLS + 5))

    found = text_of(agent(tools=many, description="x" * 5_000))

    assert found[2].endswith("`tool19` and 5 more")
    assert len(found[1]) < 400


def report(people: int | None = None) -> UsageReport:
    return UsageReport(
        settings=SubagentSettings(),
        runs=RunUsage(started_in_window=4, running=2, queued=1, running_global=7),
        delegated=0,
        tokens_today=123_456,
        weighted_today=0,
        runs_today=9,
        people=people,
    )


def test_usage_tells_what_is_used_of_what_there_is() -> None:
    text = usage_text(report())

    assert "Runs started in the last 1 h: 4 of 10" in text
    assert "Running: 2 of 3" in text
    assert "Waiting: 1 of 5" in text
    assert "Last 24 hours: 9 runs, 123,456 tokens" in text
    assert "One run: 50,000 tokens (at most 200,000), 5 min (at most 10)" in text
    assert "Everyone" not in text


def test_only_an_admins_usage_tells_of_everyone() -> None:
    assert "Everyone: 7 of 10 slots taken, 12 users" in usage_text(report(people=12))
