"""What `check` says about a configuration that is right."""

import base64
import re
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.config.model import Config
from bot.conversations.access import AccessSettings
from bot.models.anthropic import AnthropicSettings
from bot.models.catalog import ModelSettings
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.slack import oauth
from bot.platforms.slack.settings import SlackSettings
from bot.report import report
from bot.subagents.limits import SubagentSettings
from db.settings import DatabaseSettings
from skills.calendar.settings import CalendarsSettings
from skills.files.settings import WorkspaceSettings
from skills.mcp.settings import McpSettings
from skills.rest.settings import RestSettings
from skills.shell.settings import ShellSettings


def test_the_model_is_named_with_the_reason_why_it_answers() -> None:
    anthropic = AnthropicSettings(api_key=SecretStr("word-one"), main_model="claude-x")
    automatic = Config(models=ModelSettings(anthropic=anthropic))
    wanted = Config(models=ModelSettings(anthropic=anthropic, provider="offline"))

    told = report(automatic, None, {})

    assert "main agent: anthropic/claude-x" in told
    assert "why: it is the first that is set up with a main model" in told
    assert "why: `models.provider` says offline" in report(wanted, None, {})
    assert "why: no ANTHROPIC_API_KEY" in report(Config(), None, {})


def test_it_says_where_every_value_came_from() -> None:
    told = report(Config(), Path("some.yaml"), {"RETINUE__AGENT__NAME": "x", "OTHER": "y"})

    assert "Configuration  some.yaml" in told
    assert "and from the environment: RETINUE__AGENT__NAME" in told
    assert "OTHER" not in told


def test_a_server_is_shown_without_its_password() -> None:
    url = "postgresql://bot:word-two@host/name"

    told = report(Config(database=DatabaseSettings(url=url)), None, {})

    assert "PostgreSQL: postgresql://bot:[secret]@host/name" in told
    assert "word-two" not in told


def test_what_is_switched_off_or_unusual_is_said() -> None:
    access = AccessSettings(admins=("discord:1", "discord:2"), blocked=("discord:3",))
    deep = Config(access=access, subagents=SubagentSettings(max_depth=2))
    off = Config(subagents=SubagentSettings(enabled=False))

    assert "2 operators" in report(deep, None, {})
    assert "blocked: 1 user" in report(deep, None, {})
    assert "nested 2 deep" in report(deep, None, {})
    assert "off: `subagents.enabled` is false" in report(off, None, {})


def test_what_discord_is_set_to_is_said_without_its_token() -> None:
    plain = DiscordSettings(token=SecretStr("word-three"))
    strict = DiscordSettings(
        token=SecretStr("word-three"),
        threads=False,
        direct_messages=False,
        guilds=("10001", "10002"),
        channels=("20001",),
        users=("30001", "30002"),
        admin_roles=("40001",),
        commands="guilds",
        shard_count=4,
        shard_ids=(0, 1),
    )

    open_to_all, closed = (report(Config(discord=each), None, {}) for each in (plain, strict))

    assert "on: a mention opens a thread; direct messages are answered" in open_to_all
    assert "where: all servers, all channels" in open_to_all
    assert "who: everyone there" in open_to_all
    assert "on: answers stay in the channel; direct messages are not answered" in closed
    assert "where: 2 servers, 1 channel" in closed
    assert "who: no role, 2 users" in closed
    assert "admins: 1 role, each of its server" in closed
    assert "slash commands: in the servers of `discord.guilds`" in closed
    assert "shards: 2 of 4" in closed
    assert "word-three" not in open_to_all + closed


def test_what_a_command_may_use_is_told_or_why_there_is_no_shell() -> None:
    on = " ".join(report(Config(), None, {}).split())
    off = report(Config(shell=ShellSettings(enabled=False)), None, {})
    without = report(Config(workspaces=WorkspaceSettings(enabled=False)), None, {})

    assert "Shell tool on, where its sandbox passes a self-test" in on
    assert "each command: 60 s (at most 600), 512 MB of memory, 64 processes, no network" in on
    assert "off: `shell.enabled` is false" in off
    assert "off: `workspaces.enabled` is false" in without


def test_without_bubblewrap_it_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [])

    told = " ".join(report(Config(), None, {}).split())

    assert "Shell tool off: The sandbox needs bubblewrap: install it (`apt install" in told


def test_slack_that_is_off_is_told_with_what_switches_it_on() -> None:
    told = " ".join(report(Config(), None, {}).split())

    assert "Slack off: no SLACK_BOT_TOKEN, and no `slack.bot_token`; docs/slack.md" in told


def test_what_slack_is_set_to_is_said_without_its_secrets() -> None:
    plain = SlackSettings(
        bot_token=SecretStr("xoxb-word-four"), app_token=SecretStr("xapp-word-five")
    )
    strict = SlackSettings(
        mode="http",
        port=3456,
        signing_secret=SecretStr("word-six"),
        client_id="1.2",
        client_secret=SecretStr("word-seven"),
        encryption_key=SecretStr(base64.urlsafe_b64encode(b"word-eight" * 3 + b"!!").decode()),
        public_url="https://bot.example",
        direct_messages=False,
        workspaces=("T10001", "E10002"),
        channels=("C20001",),
        users=("T10001:U30001", "T10001:U30002"),
        command="/valet",
    )

    open_to_all, closed = (report(Config(slack=each), None, {}) for each in (plain, strict))

    assert "on: over connections that it opens itself; direct messages are answered" in open_to_all
    assert "where: all workspaces, all channels" in open_to_all
    assert "who: everyone there" in open_to_all
    assert "slash commands: /retinue, /subagents" in open_to_all
    assert "on: at 127.0.0.1:3456; direct messages are not answered" in closed
    assert f"each workspace, from https://bot.example{oauth.INSTALL_PATH}" in closed
    assert "where: 2 workspaces, 1 channel" in closed
    assert "who: 2 users" in closed
    assert "slash commands: /valet, /subagents" in closed
    assert "installed:" not in open_to_all
    assert not re.search(r"word-\w", open_to_all + closed)


def test_of_servers_and_services_it_is_told_what_is_known_without_asking_them(
    tmp_path: Path,
) -> None:
    servers = {
        "here": {"command": [sys.executable, "word-eleven"], "tools": ["a", "b"], "runs": ["a"]},
        "gone": {"command": ["no-such-program"]},
        "web": {"url": "https://host/word-twelve", "headers": {"X-Key": "word-thirteen"}},
        "off": {"command": ["no-such-program"], "enabled": False},
    }
    services = {
        "broken": {"document": str(tmp_path / "none.json")},
        "off": {"document": str(tmp_path / "none.json"), "enabled": False},
    }
    config = Config(
        mcp=McpSettings.model_validate({"servers": servers}),
        rest=RestSettings.model_validate({"services": services}),
    )

    told = report(config, None, {"PATH": str(tmp_path)})
    words, nothing = (" ".join(each.split()) for each in (told, report(Config(), None, {})))

    assert f"here: {sys.executable}; 2 tools, of which subagents may use 1 tool" in words
    assert "gone: NOT USED: there is no program no-such-program" in words
    assert "web: https://host; all its tools, of which subagents may use none" in words
    assert "broken: NOT USED: " in words
    assert words.count("off: off, `enabled` is false") == 2
    assert "word-" not in told
    assert "MCP servers none: `mcp.servers` names them" in nothing
    assert "REST services none: `rest.services` names them" in nothing


@pytest.mark.parametrize(
    ("people", "whose"),
    [(None, "everyone's"), ([], "nobody's"), (["discord:1", "discord:2"], "of 2 users")],
)
def test_it_is_said_whose_a_calendar_is(people: list[str] | None, whose: str) -> None:
    team = {"url": "https://host/team/", "people": people}
    calendar = CalendarsSettings.model_validate({"calendars": {"team": team}})

    assert f"team: {whose}, read only" in report(Config(calendar=calendar), None, {})


def test_no_line_is_wider_than_a_page() -> None:
    assert all(len(line) <= 100 for line in report(Config(), None, {}).splitlines())
