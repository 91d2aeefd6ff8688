"""A turn without the tools of an MCP server says so to its user, once per outage."""

from typing import Any

import pytest

from bot.agent.permissions import PermissionSettings
from bot.values import Json
from skills.mcp import servers
from skills.mcp.server import McpTimings
from skills.mcp.settings import McpSettings
from tests.fakes.anthropic_server import Reply
from tests.skills.mcp.things import odd_server
from tests.stories.on_discord import new_server, on_discord
from tests.stories.on_slack import Way, new_office, on_slack
from tests.stories.stage import said

LINE = "⚠️ Not reachable now: calendar-server. Its tools were missing."


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "McpTimings", lambda: McpTimings(first_look=0.0))


def sections() -> dict[str, Any]:
    """Return a configuration with a server that is away, and one that nobody may use."""
    return {
        "mcp": McpSettings.model_validate(
            {"servers": {"calendar-server": odd_server("quits"), "secret": odd_server("quits")}}
        ),
        "permissions": PermissionSettings.model_validate({"rules": {"mcp__secret__*": "deny"}}),
    }


def echo(body: Json) -> Reply:
    return Reply(text="Answer to " + said(body["messages"][-1]).strip().splitlines()[-1])


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_on_discord_the_first_answer_of_a_conversation_names_the_server(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, echo, **sections()) as it:
        alice = server.discord.dm(server.alice)
        await it.discord.say(server.alice, alice, "one")
        first = await it.reads(alice, "Answer to one")
        await it.discord.until(lambda: LINE in first.text(), "the line")
        await it.discord.say(server.alice, alice, "two")
        second = await it.reads(alice, "Answer to two")
        bob = server.discord.dm(server.bob)
        await it.discord.say(server.bob, bob, "three")
        other = await it.reads(bob, "Answer to three")
        await it.discord.until(lambda: LINE in other.text(), "the line")

        assert first.text() == f"Answer to one\n\n{LINE}"
        assert second.text() == "Answer to two"
        assert other.text() == f"Answer to three\n\n{LINE}"


async def test_on_slack_the_first_answer_of_a_conversation_names_the_server(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, echo, **sections()) as it:
        private = office.slack.dm(office.alice)
        asked = await it.slack.say(office.alice, private, "one")
        first = await it.reads(asked, LINE.removeprefix("⚠️ "))
        await it.slack.say(office.alice, private, "two", thread=asked)
        second = await it.reads(asked, "Answer to two")

        assert "Answer to one" in first.readable()
        assert "secret" not in first.readable()
        assert second.readable() == "Answer to two"
