"""Agents are Markdown files; one that is broken is named together with what is wrong in it."""

from pathlib import Path

import pytest

from bot.agent.definition import GENERAL, AgentDefinition, Agents, read, read_folder
from bot.errors import ConfigError

AGENTS = Path(__file__).parents[3] / "agents"

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
    assert read(write(tmp_path, WHOLE)) == AgentDefinition(
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
    )


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    found = read(with_head(tmp_path))

    assert (found.tools, found.disallowed, found.max_steps) == (None, (), 20)
    assert (found.provider, found.model, found.token_budget) == (None, None, None)
    assert (found.timeout_minutes, found.announce) == (None, "result")


@pytest.mark.parametrize("line", ["tools: []", 'tools: ""'])
def test_an_empty_list_of_tools_means_none(tmp_path: Path, line: str) -> None:
    assert read(with_head(tmp_path, line)).tools == ()


def test_a_model_may_be_inherited(tmp_path: Path) -> None:
    assert read(with_head(tmp_path, "model: inherit")).model is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("maxTurns: many", "`maxTurns` must be a number above 0"),
        ("maxTurns: 0", "`maxTurns` must be a number above 0"),
        ("maxTurns: yes", "`maxTurns` must be a number above 0"),
        ("maxTurns: 2.5", "`maxTurns` must be a whole number"),
        ("token_budget: lots", "`token_budget` must be a number above 0"),
        ("timeout_minutes: -1", "`timeout_minutes` must be a number above 0"),
        ("timeout_minutes: .nan", "`timeout_minutes` must be a number above 0"),
        ("announce: loudly", "`announce` must be one of result, summary, silent"),
        ("tools: 5", "tools must be a list of names"),
        ("tools:", "tools must be a list of names, `[]` for none"),
        ("tools: [1, 2]", "tools must be a list of names"),
        ("temperature: 1", "unknown key 'temperature'"),
        ("tools: [", "the front matter is no YAML"),
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


def test_a_folder_needs_the_general_agent(tmp_path: Path) -> None:
    write(tmp_path, WHOLE)

    with pytest.raises(ConfigError, match="no agent `general`"):
        read_folder(tmp_path)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    general = WHOLE.replace("Explore", "General")
    write(tmp_path, general, "general.md")
    write(tmp_path, general, "other.md")

    with pytest.raises(ConfigError, match=r"other\.md"):
        read_folder(tmp_path)


def test_an_agent_is_found_by_name_and_an_unknown_one_falls_back_to_general() -> None:
    general = AgentDefinition(name="general", description="Does all.", prompt="")
    explore = AgentDefinition(name="explore", description="Reads.", prompt="")
    agents = Agents({"general": general, "explore": explore})

    assert agents.find(" Explore ") == (explore, True)
    assert agents.find("") == (general, True)
    assert agents.find(None) == (general, True)
    assert agents.find("pirate") == (general, False)
    assert agents.lines() == ["`general`: Does all.", "`explore`: Reads."]


def test_the_agents_that_we_ship_can_be_read() -> None:
    agents = read_folder(AGENTS)

    assert GENERAL in agents.by_name
    assert agents.by_name[GENERAL].max_steps == 20
    assert all(agent.prompt for agent in agents.by_name.values())
