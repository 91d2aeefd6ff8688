"""`python -m bot mcp`, which works on the database beside a bot that runs."""

from pathlib import Path

import pytest

from bot.config.model import Config
from bot.errors import BadRequestError, ConfigError
from db.database import Database, DatabaseSettings
from skills.mcp.approvals import approve, listed
from skills.mcp.pins import Pins
from skills.mcp.settings import McpSettings
from skills.mcp.tools import Offer, offers
from tests.fakes.clock import FakeClock

SERVERS = {
    "mail": {"command": ["mail", "--key", "canary"]},
    "time": {"url": "https://host/canary", "enabled": False},
}


def configured(url: str) -> Config:
    return Config(
        database=DatabaseSettings(url=url), mcp=McpSettings.model_validate({"servers": SERVERS})
    )


def tools(**descriptions: str) -> dict[str, Offer]:
    given = [
        {"name": name, "description": text, "inputSchema": {"type": "object"}}
        for name, text in descriptions.items()
    ]
    return offers("mail", given)[0]


async def changed(database: Database, clock: FakeClock) -> Pins:
    pins = Pins(database, clock)
    await pins.review("mail", tools(send="Send it.", read="Read it.", wait="Wait."))
    await pins.review("mail", tools(send="Send it to me.", read="Read it.", wait="Wait. Really."))
    return pins


async def yes(config: Config, server: str, *names: str, everything: bool = False) -> str:
    return await approve(config, server, names, everything=everything, name="Ada L")


async def test_it_shows_what_is_approved_and_what_changed_of_what_is_not(
    database_url: str, clock: FakeClock
) -> None:
    config = configured(database_url)
    # As the bot does it that runs: on SQLite the file is its own.
    async with Database.open(config.database, exclusive=True) as database:
        await changed(database, clock)
        shown = await listed(config)

    assert "mail: mail\n" in shown
    assert "✓ read: approved (first connection, 2026-11-21 09:00 UTC)" in shown
    assert "✗ send@" in shown
    assert "      - Send it.\n      + Send it to me.\n" in shown
    assert "python -m bot mcp approve mail TOOL" in shown
    assert "time: https://host (off: `enabled` is false)\n  No tool is known" in shown
    assert "canary" not in shown


async def test_a_yes_beside_a_bot_that_runs_is_of_the_tools_that_were_named(
    database_url: str, clock: FakeClock
) -> None:
    config = configured(database_url)
    async with Database.open(config.database, exclusive=True) as database:
        pins = await changed(database, clock)

        said = await yes(config, "mail", "send")
        left = [pin.tool for pin in await pins.waiting("mail")]
        await yes(config, "mail", everything=True)

        assert left == ["wait"]
        assert await pins.waiting("mail") == []
        assert (await pins.known("mail"))[1].approved_by == "terminal::Ada%20L"
    assert "✓ send of mail is approved like this:\n" in said
    assert "+ Send it to me." in said
    assert "wait" not in said


@pytest.mark.parametrize(
    ("server", "names", "everything", "said"),
    [
        ("mial", ["send"], False, "There are: mail, time"),
        ("mail", ["sned"], False, "There are: send@"),
        ("mail", ["send@00000000"], False, "changed again since"),
        ("mail", ["read"], False, "No tool “read” of mail waits"),
        ("mail", [], False, "or write --all"),
        ("mail", ["send"], True, "or write --all"),
        ("time", [], True, "No tool of the MCP server time waits"),
    ],
)
async def test_what_cannot_be_approved_is_refused_with_what_would_work(
    sqlite_url: str, clock: FakeClock, server: str, names: list[str], everything: bool, said: str
) -> None:
    config = configured(sqlite_url)
    async with Database.open(config.database) as database:
        pins = await changed(database, clock)

        with pytest.raises(BadRequestError, match=said):
            await yes(config, server, *names, everything=everything)

        assert len(await pins.waiting("mail")) == 2


async def test_where_there_is_no_database_none_is_made(tmp_path: Path) -> None:
    config = configured(f"sqlite:///{tmp_path}/data/retinue.db")

    assert "No tool is known: no bot has been connected to it yet." in await listed(config)
    with pytest.raises(BadRequestError, match="No tool of the MCP server mail waits"):
        await yes(config, "mail", everything=True)
    assert not (tmp_path / "data").exists()


async def test_a_database_without_our_tables_is_told(empty_postgres_url: str) -> None:
    with pytest.raises(ConfigError, match="python -m bot migrate"):
        await listed(configured(empty_postgres_url))


async def test_without_servers_it_is_said_where_they_are_named(tmp_path: Path) -> None:
    config = Config(database=DatabaseSettings(url=f"sqlite:///{tmp_path}/retinue.db"))

    assert "`mcp.servers`" in await listed(config)
