"""docs/agents.md tells the truth."""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from bot.agent import permissions
from bot.agent.permissions import PermissionRules, PermissionSettings
from bot.agent.subjects import commands_in, spelled
from bot.agent.toolbox import REQUIRED
from bot.catalog import frontmatter, schemas
from bot.catalog.agents import AGENTS as BUILT_IN
from bot.catalog.agents import AgentCatalog, AgentDefinition, read, tool_name
from bot.catalog.files import CHECK_SECONDS
from bot.catalog.tool_names import ours
from bot.config.model import Config
from bot.inventory import take
from bot.subagents import asking, settling, summaries
from bot.subagents.limits import SubagentSettings
from tests.docs.pages import AGENTS, code_in

EXAMPLES = AGENTS.fragments("markdown")

Save = Callable[[str], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Saves the text of an agent, as the reader of the page would."""

    def saved(text: str) -> Path:
        path = tmp_path / "reviewer.md"
        path.write_text(text, encoding="utf-8")
        return path

    return saved


def head(**keys: object) -> str:
    given = {"name": "reviewer", "description": "Reviews.", **keys}
    return f"---\n{yaml.safe_dump(given)}---\nYou review.\n"


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[1])
def test_every_example_is_an_agent_as_it_stands(save: Save, example: str) -> None:
    reading = read(save(example))

    assert reading.warnings == ()
    assert reading.item.prompt


def test_the_first_example_needs_nothing_but_its_folder(tmp_path: Path) -> None:
    example = AGENTS.saved_as("my-agents/release-notes.md", "markdown")
    (tmp_path / "release-notes.md").write_text(example, encoding="utf-8")

    shelf = AgentCatalog([BUILT_IN, tmp_path])

    assert "release-notes" in shelf.by_name
    assert shelf.problems == ()


def test_the_agents_that_come_with_the_bot_are_those_of_the_table() -> None:
    rows = AGENTS.table("| name | steps | tools | as a tool |")

    told = {code_in(name)[0]: (int(steps), code_in(tools)) for name, steps, tools, _ in rows}
    assert told == {
        name: (agent.max_steps, list(agent.tools or ())) for name, agent in shelf().items()
    }
    as_tools = {code_in(name)[0]: code_in(tool) for name, _, _, tool in rows}
    assert as_tools == {name: signature(agent) for name, agent in shelf().items()}
    assert shelf()["general"].tools is None


def shelf() -> dict[str, AgentDefinition]:
    return AgentCatalog([BUILT_IN]).by_name


def signature(agent: AgentDefinition) -> list[str]:
    if agent.input_schema is None:
        return []
    return [f"{tool_name(agent)}({', '.join(agent.input_schema['properties'])})"]


# -- keys ------------------------------------------------------------------------------------------

KEYS = AGENTS.table("| key | for example | if left out | |")


def test_the_table_has_every_key_and_its_examples_are_read(save: Save) -> None:
    lines = [f"{code_in(key)[0]}: {code_in(example)[0]}" for key, example, *_ in KEYS]

    reading = read(save("\n".join(["---", *lines, "---", "You work."])))

    assert reading.warnings == ()
    plain = AgentDefinition(name="", description="", prompt="")
    same = [
        each.name
        for each in fields(plain)
        if getattr(plain, each.name) == getattr(reading.item, each.name)
    ]
    assert same == [], "These keys are missing in the table, or their example is the default."


def test_what_is_left_out_is_as_the_table_says(save: Save) -> None:
    agent = read(save(head())).item

    defaults = {code_in(key)[0]: default for key, _, default, _ in KEYS}
    assert defaults["maxTurns"] == str(agent.max_steps)
    assert [code_in(defaults[key])[0] for key in ("approvals", "announce", "workspace")] == [
        *(SubagentSettings().approvals, agent.announce, agent.workspace)
    ]


def test_the_tools_of_others_are_ours_as_the_table_says() -> None:
    for theirs, here in AGENTS.table("| there | here |"):
        renamed = dict.fromkeys(ours(name) for name in code_in(theirs))

        assert list(renamed) == code_in(here)
    assert ours("Bash(git *)") == "shell"


def test_the_warnings_are_those_of_the_page(save: Save) -> None:
    lines = AGENTS.fragment("text", "is not used").splitlines()
    keys = re.findall(r"`(\w+)` is not used", "\n".join(lines))

    odd = {"tools": "Bash(git diff:*), ExitPlanMode", "disallowedTools": "KillShell"}
    path = save(head(**odd, maxTurns="many", **dict.fromkeys(keys, "x")))
    lacking = {"ExitPlanMode", "KillShell"}
    known = AgentCatalog([BUILT_IN, path.parent], known=lambda name: name not in lacking)

    assert sorted(known.problems) == sorted(lines)


def test_an_odd_value_of_a_key_that_the_page_names_loses_no_agent(save: Save) -> None:
    sentence = AGENTS.text.partition("An odd value of")[2].partition(" is a warning")[0]

    odd = {key: [7] for key in code_in(" ".join(sentence.split()))}
    reading = read(save(head(tools=None, **odd)))

    assert len(odd) == 7
    assert reading.item == read(save(head())).item
    assert len(reading.warnings) == 8


def test_a_model_that_is_not_allowed_is_told_of_as_the_page_says(save: Save) -> None:
    folder = save(head(model="opus", tools="*")).parent
    given = {"agents": {"folders": [str(folder)]}, "skills": {"entry_points": False}}

    found = take(Config.model_validate({**given, "models": {"provider": "offline"}}))

    assert list(found.problems) == AGENTS.fragment("text", "names the model").splitlines()


# -- permissions -----------------------------------------------------------------------------------


def test_the_rules_of_the_page_do_what_it_says() -> None:
    given = yaml.safe_load(AGENTS.fragment("yaml", "rules:"))
    allowed = PermissionSettings.model_validate(given["permissions"]).permissions

    for tool, on, said in AGENTS.table("| tool | on | |"):
        (name,), (text,) = code_in(tool), code_in(on)
        subjects = commands_in(text) if name == "shell" else (spelled(text),)
        verdict = allowed.decide(name, subjects, harmless=name == "file_read")
        assert str(verdict.decision) == said, (name, text)


def test_the_sentences_for_models_are_those_of_the_page() -> None:
    given = yaml.safe_load(AGENTS.fragment("yaml", "rules:"))
    allowed = PermissionSettings.model_validate(given["permissions"]).permissions
    denied, required = AGENTS.fragment("text", "Permission denied").splitlines()

    push = allowed.decide("shell", ("git push origin",), harmless=False)
    write = allowed.decide("file_write", ("accounts.md",), harmless=False)

    assert denied == f"Permission denied: {push.reason}."
    assert required == REQUIRED.format(reason=write.reason)


def test_allow_in_an_agents_file_opens_nothing() -> None:
    closed = PermissionSettings(rules={"shell": "deny"}).permissions
    opening = PermissionRules(permissions.read_rules({"shell": "allow"}).rules)

    assert str(closed.within(opening).decide("shell", ("ls",), harmless=False).decision) == "deny"


# -- figures ---------------------------------------------------------------------------------------


def test_the_figures_are_those_of_the_code() -> None:
    limits = Config().subagents
    text = " ".join(AGENTS.prose.split())

    for figure in (
        f"No answer within {asking.ANSWER_WITHIN.total_seconds() / 60:.0f} minutes",
        f"up to {asking.MAX_OPTIONS} answers to pick from",
        f"may ask {limits.max_questions_per_run} questions",
        f"more than {summaries.LONG:,} characters",
        f"at most {schemas.MOST_FIELDS} simple fields",
        f"Up to {permissions.MOST_RULES} rules",
        f"may have {frontmatter.MOST_BYTES // 1024} KB",
        " · ".join(f"**{choice.label}**" for choice in settling.PERMIT),
    ):
        assert figure in text
    assert (CHECK_SECONDS, "once a second at most" in text) == (1.0, True)
