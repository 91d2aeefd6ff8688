"""What `check` says about a configuration that is right."""

from pathlib import Path

from pydantic import SecretStr

from bot.config import Config
from bot.conversations.access import AccessSettings
from bot.models.anthropic import AnthropicSettings
from bot.models.catalog import ModelSettings
from bot.platforms.discord.settings import DiscordSettings
from bot.report import report
from bot.subagents.limits import SubagentSettings
from db.settings import DatabaseSettings


def test_the_model_is_named_with_the_reason_why_it_answers() -> None:
    anthropic = AnthropicSettings(api_key=SecretStr("word-one"), main_model="claude-x")
    automatic = Config(models=ModelSettings(anthropic=anthropic))
    wanted = Config(models=ModelSettings(anthropic=anthropic, provider="offline"))

    told = report(automatic, None, {})

    assert "main agent: anthropic/claude-x" in told
    assert "why: it is the first that is set up" in told
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

    assert "2 admins" in report(deep, None, {})
    assert "1 person is blocked" in report(deep, None, {})
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
    assert "who: no role, 2 people" in closed
    assert "admins: 1 role, beside `access.admins`" in closed
    assert "slash commands: in the servers of `discord.guilds`" in closed
    assert "shards: 2 of 4" in closed
    assert "word-three" not in open_to_all + closed


def test_no_line_is_wider_than_a_page() -> None:
    assert all(len(line) <= 100 for line in report(Config(), None, {}).splitlines())
