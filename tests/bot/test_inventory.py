"""Agents and skills as `check` looks at them, and as a bot then has them."""

import logging
from pathlib import Path

import pytest

from bot.agent.settings import AgentSkillsSettings, AgentsSettings
from bot.app import open_bot
from bot.config.model import Config
from bot.errors import ConfigError
from bot.inventory import take
from bot.report import report
from bot.values import Json
from db.settings import DatabaseSettings
from skills.discovery import names as names_in_sources
from skills.mcp.settings import McpServerSettings, McpSettings
from skills.rest.settings import RestSettings
from skills.settings import OwnSkillsSettings
from skills.web.settings import SearchSettings
from tests.fakes.outlet import FakeOutlet

SKILL = """
from skills.base import Skill, tool

@tool({options})
async def roll(context) -> str:
    \"\"\"Roll a die.\"\"\"
    return "4"

def build():
    return Skill(name="dice", description="Rolls dice.", tools=(roll,), guide="Roll with care.")
"""
#: What only some machines, or some configurations, have, and what only runs do.
NOT_EVERYWHERE = {
    "shell",
    *("calendar", "calendar_create", "calendar_list"),
    *("ask_user", "report_progress", "scratch_get", "scratch_list", "scratch_set"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("agents", "python", "skills"):
        (tmp_path / name).mkdir(mode=0o755)
    return tmp_path


def configured(folder: Path, url: str = "", **more: object) -> Config:
    return Config.model_validate(
        {
            "database": DatabaseSettings(url=url) if url else DatabaseSettings(),
            "agents": AgentsSettings(folders=(str(folder / "agents"),)),
            "agent_skills": AgentSkillsSettings(folders=(str(folder / "skills"),)),
            "skills": OwnSkillsSettings(folders=(str(folder / "python"),), entry_points=False),
            **more,
        }
    )


def put_agent(folder: Path, name: str, head: str = "") -> None:
    text = f"---\nname: {name}\ndescription: Works.\n{head}\n---\nYou work.\n"
    (folder / "agents" / f"{name}.md").write_text(text)


def put_skill(folder: Path, name: str, head: str = "description: Works.") -> None:
    (folder / "skills" / name).mkdir()
    text = f"---\nname: {name}\n{head}\n---\nDo it well.\n"
    (folder / "skills" / name / "SKILL.md").write_text(text)


def put_python(folder: Path, name: str, options: str = "") -> Path:
    path = folder / "python" / name
    path.write_text(SKILL.replace("{options}", options))
    return path


def test_the_defaults_have_six_agents_and_nothing_is_wrong() -> None:
    found = take(Config(skills=OwnSkillsSettings(entry_points=False)))

    assert found.agents == (
        *("code-review", "code-search", "explore", "general", "planner", "researcher"),
    )
    assert (found.agent_skills, found.skills, found.problems) == ((), (), ())


def test_everything_that_is_wrong_is_a_warning_and_what_is_right_is_there(folder: Path) -> None:
    put_agent(folder, "broken", "tools: 5")
    put_agent(folder, "writer", "tools: [Read, Teleport, roll, skill_read]\nskills: [pdf, zip]")
    put_skill(folder, "pdf")
    put_skill(folder, "csv", "")
    put_python(folder, "dice.py")
    (folder / "python" / "bad.py").write_text("import nothing_of_this_name")

    found = take(configured(folder))

    assert "writer" in found.agents
    assert (found.agent_skills, found.skills) == (("pdf",), ("dice",))
    assert found.problems == (
        "broken.md: `tools` must be a list of names, `[]` for none.",
        "writer.md: there is no tool `Teleport` here.",
        "csv/SKILL.md: `description` is missing in the front matter.",
        "The agent writer names the skill `zip`, which is not there.",
        f"{folder / 'python' / 'bad.py'} is left out: ModuleNotFoundError: "
        "No module named 'nothing_of_this_name' (bad.py, line 1).",
    )


def test_names_in_roles_that_denote_nothing_are_told_with_what_was_meant(folder: Path) -> None:
    put_agent(folder, "writer", "")
    put_skill(folder, "pdf")
    named = {
        "guest": {
            "agents": ["writter", "general", "re*", "zz*"],
            "denied_models": ["claude-haiku-*", "sonet"],
            "tools": ["web", "web_serch", "mcp__prod__*", "mcp__time__now"],
            "skills": ["pdf", "pfd"],
            "permissions": {"shell:git push*": "ask:leed", "shel": "deny"},
        },
        "lead": {},
    }
    right = {"lead": {"tools": ["web_search"], "permissions": {"shell": {"ask": "lead"}}}}
    server = {"time": {"command": ["mcp-server-time"]}}
    given: Json = {
        "models": {"anthropic": {"api_key": "k" * 20}},
        "mcp": McpSettings.model_validate({"servers": server}),
    }

    wrong = take(configured(folder, roles={"named": named}, **given)).problems
    good = take(configured(folder, roles={"named": right}, **given)).problems

    key = "roles.named.guest"
    assert wrong == (
        f"{key}.permissions asks the role `leed`, which `roles.named` does not have: did you mean "
        "`lead`?",
        f"{key}.permissions has the rule “shel: deny”, and there is no tool `shel` here.",
        f"{key}.agents names `writter`, and there is no such agent: did you mean `writer`?",
        f"{key}.agents names `zz*`, and there is no such agent.",
        f"{key}.denied_models names `sonet`, and there is no such model: did you mean `sonnet`?",
        f"{key}.tools names `web_serch`, and there is no such tool: did you mean `web_search`?",
        f"{key}.skills names `pfd`, and there is no such skill: did you mean `pdf`?",
    )
    assert good == ()


def test_models_that_may_not_be_asked_for_are_told(folder: Path) -> None:
    put_agent(folder, "a", "model: sonnet")
    put_agent(folder, "b", "model: opus")
    put_agent(folder, "c", "model: inherit")
    put_agent(folder, "d", "provider: openai")
    put_agent(folder, "e", "model: opus")

    found = take(configured(folder, models={"anthropic": {"api_key": "k" * 20}}))

    assert found.problems == (
        "The agent d cannot run: The model openai may not be asked for here. Ask for one of "
        "these: anthropic/claude-sonnet-5-5, anthropic/claude-haiku-5-5; or for none, and "
        "anthropic/claude-haiku-5-5 answers.",
        "The agents b and e name the model `opus`, which `models` does not allow; "
        "anthropic/claude-haiku-5-5 answers instead.",
    )


def test_tools_of_servers_that_the_configuration_names_may_come(folder: Path) -> None:
    put_agent(folder, "clerk", "tools: [mcp__time__now, mcp__other__now, rest__crm__list]")
    server = McpServerSettings(command=("mcp-server-time",))
    rest = RestSettings.model_validate(
        {"services": {"crm": {"base": "https://crm.example", "requests": {}, "document": "x.json"}}}
    )

    found = take(configured(folder, mcp=McpSettings(servers={"time": server}), rest=rest))

    assert found.problems == ("clerk.md: there is no tool `mcp__other__now` here.",)


def test_the_report_tells_what_there_is_and_what_is_wrong(folder: Path) -> None:
    put_skill(folder, "pdf", "description: Works.\nmodel: opus")
    put_python(folder, "dice.py")
    config = configured(folder)

    told = report(config, None, {}, take(config))
    calm = report(Config(), None, {}, take(Config(skills=OwnSkillsSettings(entry_points=False))))

    assert "Agents         code-review, code-search, explore" in told
    assert "Agent Skills   pdf" in told
    assert "Skills         dice" in told
    assert "Warnings       pdf/SKILL.md: `model` is not used." in told
    assert "Warnings" not in calm
    assert "none: see `agent_skills.folders`" in calm


@pytest.mark.parametrize("taken", ["roll", "dice"])
def test_a_name_of_ours_is_not_given_away(folder: Path, taken: str) -> None:
    path = put_python(folder, "dice.py")
    ours = "note_save" if taken == "roll" else "notes"
    path.write_text(
        path.read_text()
        .replace(f'name="{taken}"', f'name="{ours}"')
        .replace(f"async def {taken}(", f"async def {ours}(")
        .replace(f"({taken},)", f"({ours},)")
    )

    found = take(configured(folder))

    assert found.skills == ()
    assert f"is left out: the name {ours!r} is taken" in found.problems[0]


# -- the bot itself --------------------------------------------------------------------------------


async def test_a_bot_starts_without_what_is_broken_and_says_so(
    folder: Path, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    put_agent(folder, "broken", "tools: 5")
    put_skill(folder, "pdf")
    put_skill(folder, "csv", "")
    put_python(folder, "dice.py")
    put_python(folder, "other_dice.py")
    (folder / "python" / "bad.py").write_text("x = (")

    async with open_bot(configured(folder, sqlite_url), {"fake": FakeOutlet("fake")}) as bot:
        names = {tool.name for tool in bot.registry.tools_for(is_subagent=True)}
        guides = "\n".join(skill.guide_now for skill in bot.registry.skills)

    assert {"roll", "skill_read"} <= names
    assert "Roll with care." in guides
    assert "- pdf: Works." in guides
    warned = "\n".join(
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    )
    for problem in ("broken.md", "csv/SKILL.md", "bad.py is left out", "other_dice.py is left out"):
        assert warned.count(problem) == 1


async def test_without_folders_there_is_no_tool_for_skills(sqlite_url: str) -> None:
    config = Config(database=DatabaseSettings(url=sqlite_url))

    async with open_bot(config, {"fake": FakeOutlet("fake")}) as bot:
        assert not bot.registry.has("skill_read")


async def test_neither_bot_nor_check_starts_when_a_tool_may_ask_where_nobody_is(
    folder: Path, sqlite_url: str
) -> None:
    path = put_python(folder, "dice.py", "needs_confirmation=True")
    config = configured(folder, sqlite_url)

    with pytest.raises(ConfigError, match=rf"{path}: the tool 'roll' needs a confirmation"):
        take(config)
    with pytest.raises(ConfigError, match=rf"{path}: the tool 'roll' needs a confirmation"):
        async with open_bot(config, {"fake": FakeOutlet("fake")}):
            pass


async def test_the_names_that_check_knows_are_those_that_a_bot_has(
    folder: Path, sqlite_url: str
) -> None:
    search = SearchSettings(provider="searxng", base_url="https://search.example")
    config = configured(folder, sqlite_url, search=search)

    async with open_bot(config, {"fake": FakeOutlet("fake")}) as bot:
        names = {skill.name for skill in bot.registry.skills} | set(bot.registry.tools)

    assert names - names_in_sources() == {"code_review", "code_search", "plan"}
    assert names_in_sources() - names <= NOT_EVERYWHERE


def test_a_rule_about_no_tool_is_told_since_somebody_believes_that_it_holds(folder: Path) -> None:
    put_agent(folder, "careful", "permissions: {shel: deny, file_write: ask, 'mcp__*': deny}")
    rules = {"rules": {"file_wirte": "deny", "Bash": "ask", "shell:git *": "allow"}}

    found = take(configured(folder, permissions=rules)).problems

    assert found == (
        "permissions.rules has the rule “file_wirte: deny”, and there is no tool `file_wirte` "
        "here.",
        "permissions.rules has the rule “Bash: ask”, and there is no tool `Bash` here.",
        "The agent careful has the rule “shel: deny”, and there is no tool `shel` here.",
    )


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        ({}, "Web search     off: set"),
        ({"search": {"provider": None}}, "Web search     off: set"),
        (
            {"search": {"provider": "searxng", "base_url": "https://s.example"}},
            "Web search     on, with searxng",
        ),
        ({"models": {"anthropic": {"api_key": "k" * 20}}}, "Web search     Claude searches"),
        ({}, "Permissions    what no rule is about: allow; no rules"),
        (
            {"permissions": {"default": "ask", "rules": {"shell": "deny"}}},
            "Permissions    what no rule is about: ask; 1 rule",
        ),
    ],
)
def test_what_searches_and_what_may_be_done_is_told(
    folder: Path, sections: Json, line: str
) -> None:
    config = configured(folder, **sections)

    assert line in report(config, None, {}, take(config))


SCHEMA = "input_schema: {properties: {what: {type: string}}}"


async def test_an_agent_whose_tool_cannot_be_called_so_is_told_and_stops_nobody(
    folder: Path, sqlite_url: str
) -> None:
    put_agent(folder, "grabber", f"tool: grep\n{SCHEMA}")
    put_agent(folder, "second", f"tool: plan\n{SCHEMA}")
    put_agent(folder, "odd", f'tool: "do it!"\n{SCHEMA}')
    put_agent(folder, "fine", SCHEMA)

    found = take(configured(folder)).problems
    outlets = {"fake": FakeOutlet("fake")}
    async with open_bot(configured(folder, sqlite_url), outlets) as bot:
        tools = {tool.name: tool for tool in bot.registry.tools_for(is_subagent=False)}

    assert [line[:60] for line in found] == [
        "The agent grabber is no tool: the name `grep` is taken. Give",
        "The agent odd is no tool: 'do it!' has other signs than lett",
        "The agent second is no tool: the name `plan` is taken. Give ",
    ]
    assert {"fine", "plan", "grep"} <= set(tools)
    assert "do it!" not in tools


def test_folders_that_others_could_write_to_are_told(folder: Path) -> None:
    put_agent(folder, "fine")
    (folder / "agents" / "fine.md").chmod(0o666)
    workspaces = {"folder": str(folder / "skills" / "files")}

    found = "\n".join(take(configured(folder, workspaces=workspaces)).problems)

    assert "fine.md can be written by everyone on this machine, and what is in it tells" in found
    assert f"{folder / 'skills'} and `workspaces.folder` overlap" in found
    assert take(configured(folder)).problems != ()
    (folder / "agents" / "fine.md").chmod(0o644)
    assert take(configured(folder)).problems == ()
