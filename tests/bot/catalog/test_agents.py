"""Agents are Markdown files; one that is broken is named together with what is wrong in it."""

from pathlib import Path

import pytest

from bot.agent.permissions import Decision, PermissionRule, PermissionRules
from bot.catalog.agents import (
    GENERAL,
    AgentCatalog,
    AgentDefinition,
    described,
    find,
    read,
)
from bot.catalog.frontmatter import EFFORTS
from bot.errors import ConfigError
from tests.fakes.agents import FakeAgents

AGENTS = Path(__file__).parents[3] / "agents"

MAPPED = ("delegate_to_subagent", "skill_read", "file_edit", "ask_user")
WHOLE = """\
---
name: Explore
description: Reads code.
tools: [notes, clock]
disallowedTools: note_save, note_delete
maxTurns: 15
provider: openai
model: small
token_budget: 9000
timeout_minutes: 2.5
announce: summary
progress: worded
---
You explore.
---
Even below a line.
"""


def write(folder: Path, text: str, name: str = "explore.md") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def with_head(folder: Path, *lines: str) -> Path:
    head = "\n".join(("name: explore", "description: Reads code.", *lines))
    return write(folder, f"---\n{head}\n---\nYou explore.\n")


def test_everything_in_the_file_is_read(tmp_path: Path) -> None:
    assert read(write(tmp_path, WHOLE)).item == AgentDefinition(
        name="explore",
        description="Reads code.",
        prompt="You explore.\n---\nEven below a line.",
        tools=("notes", "clock"),
        disallowed=("note_save", "note_delete"),
        max_steps=15,
        provider="openai",
        model="small",
        token_budget=9000,
        timeout_minutes=2.5,
        announce="summary",
        progress="worded",
    )


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    found = read(with_head(tmp_path)).item

    assert (found.tools, found.disallowed, found.max_steps) == (None, (), 20)
    assert (found.provider, found.model, found.token_budget) == (None, None, None)
    assert (found.timeout_minutes, found.announce) == (None, "result")


@pytest.mark.parametrize("line", ["tools: []", 'tools: ""'])
def test_an_empty_list_of_tools_means_none(tmp_path: Path, line: str) -> None:
    assert read(with_head(tmp_path, line)).item.tools == ()


@pytest.mark.parametrize("line", ["tools: *", 'tools: "*"', 'tools: ["*"]'])
def test_a_star_means_all_tools(tmp_path: Path, line: str) -> None:
    assert read(with_head(tmp_path, line)).item.tools is None


@pytest.mark.parametrize("name", ["inherit", "Inherit", "default"])
def test_a_model_may_be_inherited(tmp_path: Path, name: str) -> None:
    assert read(with_head(tmp_path, f"model: {name}")).item.model is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("disallowedTools: 5", "`disallowedTools` must be a list of names"),
        ('token_budget: "9000"', "`token_budget` must be a number above 0"),
        ("token_budget: 2.5", "`token_budget` must be a whole number"),
        ("token_budget: lots", "`token_budget` must be a number above 0"),
        ("timeout_minutes: -1", "`timeout_minutes` must be a number above 0"),
        ("timeout_minutes: .nan", "`timeout_minutes` must be a number above 0"),
        ("announce: loudly", "`announce` must be one of result, summary, silent"),
        ("progress: loudly", "`progress` must be one of card, worded"),
        ("tools: 5", "`tools` must be a list of names"),
        ("tools: [1, 2]", "`tools` must be a list of names"),
        ("tools: [", "the front matter is no YAML"),
        *((f"tools: {sign * 10_000}", "nested too deeply") for sign in ("[", "{a: ", "[{a: [")),
        ("tools:\n " + "- " * 10_000, "nested too deeply"),
        ("approvals: maybe", "`approvals` must be one of deny, ask"),
        ("workspace: theirs", "`workspace` must be one of user, run"),
        ("permissions: {shell: never}", "must be allow, ask or deny"),
        ("input_schema: {type: string}", "`input_schema` must be a JSON Schema of an object"),
        ("input_schema: {type: object}", "`input_schema` must have `properties`"),
        (
            "input_schema: {properties: {a: {type: number, maximum: .inf}}}",
            "`input_schema` must be plain JSON",
        ),
        ("a: &x [1]\nb: *x", "aliases"),
        ("no: yaml: here\na: [&x [1], *x]", "aliases"),
        ("no: yaml: here\ntools: [", "the front matter is no YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(
    tmp_path: Path, line: str, said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        read(with_head(tmp_path, line))

    assert str(raised.value).startswith("explore.md: ")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("You explore.", "must begin with front matter"),
        ("Hi.\n---\nname: a\n---\n", "must begin with front matter"),
        ("---\n- a\n---\n", "must be `key: value` lines"),
        ("---\ndescription: a\n---\n", "`name` is missing"),
        ("---\nname: a\ndescription: ' '\n---\n", "`description` is missing"),
    ],
)
def test_a_file_that_is_no_agent_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"explore\.md") as raised:
        read(write(tmp_path, text))

    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("maxTurns: many", "`maxTurns` must be a number above 0; 20 is used instead."),
        ("maxTurns: 0", "`maxTurns` must be a number above 0; 20 is used instead."),
        ("maxTurns: yes", "`maxTurns` must be a number above 0; 20 is used instead."),
        ('maxTurns: "-5"', "`maxTurns` must be a number above 0; 20 is used instead."),
        ("maxTurns: 2.5", "`maxTurns` must be a whole number; 20 is used instead."),
        ("maxTurns: 10001", "`maxTurns` must be 10,000 at most; 20 is used instead."),
        (
            f"maxTurns: {'9' * 5000}",
            "`maxTurns` must be a number above 0; 20 is used instead.",
        ),
        ("background: perhaps", "`background` must be true or false; `false` is used instead."),
        ("background: 1", "`background` must be true or false; `false` is used instead."),
        (
            "effort: heroic",
            "`effort` must be one of low, medium, high, xhigh, max; "
            "the model's usual is used instead.",
        ),
        (
            "effort: [low]",
            "`effort` must be text; the model's usual is used instead.",
        ),
        ("model: [haiku]", "`model` must be text; the model of runs is used instead."),
        ("color: [red, blue]", "`color` must be text; none is used instead."),
        (
            "skills: [1]",
            "`skills` must be a list of names, `[]` for none; none is used instead.",
        ),
        (
            "skills: {pdf: true}",
            "`skills` must be a list of names, `[]` for none; none is used instead.",
        ),
        (
            "mcpServers: 5",
            "`mcpServers` must be a list of names, `[]` for none; none is used instead.",
        ),
        (
            "tools:",
            "nothing stands after `tools:`, which is as if it were left out: every tool that a run "
            "may have is there; write `[]` for none.",
        ),
    ],
)
def test_an_odd_value_in_a_key_of_the_convention_is_a_warning_and_the_default_is_used(
    tmp_path: Path, line: str, warning: str
) -> None:
    reading = read(with_head(tmp_path, line))

    assert reading.item == read(with_head(tmp_path)).item
    assert reading.warnings == (f"explore.md: {warning}",)


@pytest.mark.parametrize("line", ["maxTurns: 5", 'maxTurns: "5"', "maxTurns: ' 5 '"])
def test_steps_may_be_written_as_text(tmp_path: Path, line: str) -> None:
    reading = read(with_head(tmp_path, line))

    assert (reading.item.max_steps, reading.warnings) == (5, ())


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *((word, True) for word in ("true", "yes", '"true"', '"Yes"', "'on'")),
        *((word, False) for word in ("false", "no", '"false"', '"No"', "")),
    ],
)
def test_yes_and_no_may_be_written_in_any_of_the_usual_ways(
    tmp_path: Path, written: str, meant: bool
) -> None:
    reading = read(with_head(tmp_path, f"background: {written}"))

    assert (reading.item.background, reading.warnings) == (meant, ())


@pytest.mark.parametrize("effort", EFFORTS)
def test_every_effort_is_read(tmp_path: Path, effort: str) -> None:
    reading = read(with_head(tmp_path, f"effort: {effort}"))

    assert (reading.item.effort, reading.warnings) == (effort, ())


def test_a_pattern_in_a_tools_name_is_a_warning_and_the_tool_is_there(tmp_path: Path) -> None:
    reading = read(with_head(tmp_path, "tools: Read, Bash(git diff:*), Write(*)"))

    assert reading.item.tools == ("file_read", "shell", "file_write")
    assert reading.warnings == (
        "explore.md: the pattern in `Bash(git diff:*)` says nothing here; see `permissions`.",
    )


@pytest.mark.parametrize("value", ["2026-13-45", "!!int x", "!!bool perhaps", "!!timestamp x"])
def test_a_value_that_yaml_stumbles_over_loses_no_agent(tmp_path: Path, value: str) -> None:
    reading = read(with_head(tmp_path, f"version: {value}"))

    assert reading.item.name == "explore"
    assert reading.warnings == ("explore.md: `version` is not used.",)


def test_what_claude_code_knows_and_we_do_not_is_a_warning_and_the_rest_is_read(
    tmp_path: Path,
) -> None:
    reading = read(
        with_head(
            tmp_path,
            "tools: Read, Bash(git *, ls), mcp__files__find, Task, Skill(pdf), NotebookEdit, "
            "AskUserQuestion",
            "model: haiku",
            "permissionMode: plan",
            "hooks: {Stop: []}",
            "temperature: 1",
            "color: cyan",
            "skills: [pdf]",
            "mcpServers: [files]",
            "background: true",
            "effort: low",
        )
    )

    agent = reading.item
    assert agent.tools == ("file_read", "shell", "mcp__files__find", *MAPPED)
    assert (agent.model, agent.color, agent.background, agent.effort) == (
        "haiku",
        "cyan",
        True,
        "low",
    )
    assert (agent.skills, agent.mcp_servers) == (("pdf",), ("files",))
    assert reading.warnings == (
        "explore.md: the pattern in `Bash(git *, ls)` says nothing here; see `permissions`.",
        "explore.md: the pattern in `Skill(pdf)` says nothing here; see `permissions`.",
        "explore.md: `hooks` is not used: commands of the file's author are not run here.",
        "explore.md: `permissionMode` is not used: see `permissions` and `approvals`.",
        "explore.md: `temperature` is not used.",
    )


def test_keys_of_ours_are_read(tmp_path: Path) -> None:
    agent = read(
        with_head(
            tmp_path,
            "permissions:",
            "  Write: ask",
            '  "Bash:git push*": deny',
            "approvals: ask",
            "summarize: In three sentences.",
            "workspace: run",
            "tool: look",
            "input_schema:",
            "  type: object",
            "  properties: {what: {type: string}}",
            "  required: [what]",
        )
    ).item

    assert agent.permissions == PermissionRules(
        (
            PermissionRule("file_write", "*", Decision.ASK),
            PermissionRule("shell", "git push*", Decision.DENY),
        )
    )
    assert (agent.approvals, agent.workspace, agent.tool) == ("ask", "run", "look")
    assert agent.summarize == "In three sentences."
    assert agent.input_schema is not None
    assert agent.input_schema["required"] == ["what"]


def test_a_description_that_is_no_yaml_is_read_as_others_read_it(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '---\nname: Explore\ndescription: Use it when: somebody asks "where" - say so\n'
        "tools: Read, Grep\n---\nYou explore.\n",
    )

    agent = read(path).item
    assert agent.description == 'Use it when: somebody asks "where" - say so'
    assert agent.tools == ("file_read", "grep")


def test_examples_in_a_description_that_is_no_yaml_belong_to_it(tmp_path: Path) -> None:
    agent = read(
        with_head(
            tmp_path,
            "description: Use it when:",
            "  <example>",
            '  user: "Where: is it?"',
            "  </example>",
            "",
            "# A comment, and a list as YAML has it.",
            "tools:",
            "- Read",
            "  # and",
            "- Grep",
            "permissions:",
            "  shell: deny",
        )
    ).item

    assert agent.description == 'Use it when: <example> user: "Where: is it?" </example>'
    assert agent.tools == ("file_read", "grep")
    assert agent.permissions == PermissionRules((PermissionRule("shell", "*", Decision.DENY),))


def test_an_agent_is_found_by_name_and_an_unknown_one_falls_back_to_general() -> None:
    general = AgentDefinition(name="general", description="Does all.", prompt="")
    explore = AgentDefinition(name="explore", description="Reads.", prompt="")
    agents = FakeAgents({"general": general, "explore": explore})

    assert find(agents, " Explore ") == (explore, True)
    assert find(agents, "") == (general, True)
    assert find(agents, None) == (general, True)
    assert find(agents, "pirate") == (general, False)
    assert described(agents) == ["`general`: Does all.", "`explore`: Reads."]


def test_the_agents_that_we_ship_can_be_read_and_have_their_steps() -> None:
    catalog = AgentCatalog([AGENTS])

    steps = {name: agent.max_steps for name, agent in catalog.by_name.items()}
    assert catalog.problems == ()
    assert catalog.by_name[GENERAL].tools is None
    assert steps == {
        "general": 20,
        "explore": 15,
        "planner": 10,
        "researcher": 10,
        "code-search": 8,
        "code-review": 6,
    }
    tools = {agent.tool for agent in catalog.by_name.values() if agent.input_schema}
    assert tools == {"code_search", "code_review", "plan"}


@pytest.mark.parametrize(
    ("lines", "named", "brought"),
    [
        (["mcpServers: [time, files]"], ("time", "files"), []),
        (["mcpServers: time, files"], ("time", "files"), []),
        (["mcpServers: [time, {own: {command: npx}}]"], ("time",), ["own"]),
        (["mcpServers: {own: {command: npx}}"], (), ["own"]),
        (["mcpServers: []"], (), []),
    ],
)
def test_servers_are_named_and_those_that_a_file_brings_are_a_warning(
    tmp_path: Path, lines: list[str], named: tuple[str, ...], brought: list[str]
) -> None:
    reading = read(with_head(tmp_path, *lines))

    assert reading.item.mcp_servers == named
    assert list(reading.warnings) == [
        f"explore.md: the MCP server `{name}` is not used: name it in `mcp.servers`."
        for name in brought
    ]
