"""Tools of MCP servers and REST services, through the whole bot."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from bot.platforms.base import Confirmation
from bot.values import Json, RunStatus
from skills.mcp import servers
from skills.mcp.server import McpTimings
from skills.mcp.settings import McpSettings
from skills.rest.settings import RestSettings
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.fakes.rest_server import FakeRest, rest_server
from tests.skills.mcp.things import odd_server
from tests.stories.stage import ALICE, Play, Stage, call, is_run, said, stage


async def there(it: Stage, names: Iterable[str]) -> None:
    """Wait until the bot has these tools."""
    async with asyncio.timeout(20):
        while not set(names) <= set(it.bot.registry.tools):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def offered(body: Json) -> set[str]:
    """Return the tools of others that a request offers to the model."""
    names = {str(tool["name"]) for tool in body.get("tools", ())}
    return {name for name in names if name.startswith(("mcp__", "rest__"))}


def settings(fake: FakeRest, **mcp: object) -> dict[str, Any]:
    """Return the sections of a configuration with one server and one service."""
    rest = {
        "base": fake.base,
        "headers": {"Authorization": "canary-key-of-the-service"},
        "requests": {"ask": {"description": "Ask.", "path": "/ask"}},
        "confirm": ["ask"],
    }
    return {
        "mcp": McpSettings.model_validate({"servers": {"odd": odd_server("odd", **mcp)}}),
        "rest": RestSettings.model_validate({"services": {"api": rest}}),
    }


async def test_tools_that_come_late_are_offered_from_then_on_and_called(
    database_url: str,
) -> None:
    play = Play(
        main=[
            call("mcp__odd__fine", text="hi"),
            Reply(text="It said fine."),
        ]
    )
    async with rest_server() as fake, stage(database_url, play, **settings(fake)) as it:
        await there(it, ["mcp__odd__fine", "rest__api__ask"])

        await it.say(ALICE, "Ask the odd one")
        reply = await it.outlet.replied()

        assert reply.final == "It said fine."
        assert {"mcp__odd__fine", "rest__api__ask"} <= offered(play.asked[0])
        result = said(play.asked[1]["messages"][-1])
        assert "is untrusted data" in result
        assert result.endswith("fine")


async def test_a_run_has_only_what_is_named_for_runs_and_is_refused_the_rest(
    database_url: str,
) -> None:
    wanted = ["mcp__odd", "rest__api__ask", "current_time"]
    play = Play(
        main=[
            call("delegate_to_subagent", task="Snoop", tools_needed=wanted),
            Reply(text="Done."),
        ],
        runs={"Snoop": [call("mcp__odd__fine"), call("rest__api__ask"), Reply(text="No luck.")]},
    )
    async with rest_server() as fake, stage(database_url, play, **settings(fake)) as it:
        await there(it, ["mcp__odd__fine", "rest__api__ask"])

        await it.say(ALICE, "Let someone snoop")
        await it.outlet.replied()

        of_run = [body for body in play.asked if is_run(body)]
        assert offered(of_run[0]) == set()
        assert "You have no tool 'mcp__odd__fine'" in said(of_run[1]["messages"][-1])
        assert "You have no tool 'rest__api__ask'" in said(of_run[2]["messages"][-1])
        assert fake.asked == []


async def test_a_run_calls_what_is_named_for_runs(database_url: str) -> None:
    play = Play(
        main=[
            call("delegate_to_subagent", task="Look", tools_needed=["mcp__odd__fine"]),
            Reply(text="Done."),
        ],
        runs={"Look": [call("mcp__odd__fine"), Reply(text="It is fine.")]},
    )
    async with (
        rest_server() as fake,
        stage(database_url, play, **settings(fake, runs=["fine"])) as it,
    ):
        await there(it, ["mcp__odd__fine"])

        await it.say(ALICE, "Look")
        await it.outlet.replied()

        of_run = [body for body in play.asked if is_run(body)]
        assert offered(of_run[0]) == {"mcp__odd__fine"}
        assert said(of_run[1]["messages"][-1]).endswith("fine")


async def test_a_request_that_needs_a_yes_is_made_when_it_comes(database_url: str) -> None:
    play = Play(main=[call("rest__api__ask"), Reply(text="I have asked you.")])
    async with rest_server() as fake, stage(database_url, play, **settings(fake)) as it:
        await there(it, ["rest__api__ask"])
        await it.say(ALICE, "Ask the service")
        await it.outlet.replied()
        assert fake.asked == []

        question: Confirmation = it.outlet.questions[0]
        answer = await it.command(ALICE, f"yes {question.id[-6:]}")
        await it.outlet.replied(2)

        assert not answer.failed
        assert fake.asked == ["/ask"]
        assert "canary" not in answer.text + question.text


# -- right after a start ---------------------------------------------------------------------------


async def test_the_first_turn_after_a_start_has_the_tools_of_the_servers(sqlite_url: str) -> None:
    play = Play(main=[call("mcp__odd__fine", text="hi"), Reply(text="It said fine.")])
    mcp = McpSettings.model_validate({"servers": {"odd": odd_server("odd")}})
    async with stage(sqlite_url, play, mcp=mcp) as it:
        await it.say(ALICE, "Ask the odd one")
        await it.outlet.replied()

    assert "mcp__odd__fine" in offered(play.asked[0])
    assert said(play.asked[1]["messages"][-1]).endswith("fine")


async def test_a_run_that_begins_or_resumes_after_a_start_has_them_too(sqlite_url: str) -> None:
    play = Play(runs={"Look": [call("mcp__odd__fine"), Reply(text="It is fine.")]})
    mcp = McpSettings.model_validate({"servers": {"odd": odd_server("odd", runs=["fine"])}})
    async with stage(sqlite_url, play, mcp=mcp) as it:
        await it.command(ALICE, "/subagents spawn Look")
        run = await it.ended("Look", RunStatus.COMPLETED)

    assert offered(play.asked[0]) == {"mcp__odd__fine"}
    assert run.error is None


async def test_the_wait_for_a_server_takes_nothing_of_the_time_of_a_run(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "McpTimings", lambda: McpTimings(first_look=600.0))
    mcp = McpSettings.model_validate({"servers": {"odd": odd_server("deaf", runs=["fine"])}})
    play = Play()
    async with stage(sqlite_url, play, mcp=mcp) as it:
        await it.command(ALICE, "/subagents spawn Look")
        run = await it.run_of("Look")
        at_work = it.bot.upkeep.active.by_id

        async def stands_still() -> bool:
            return run.id in at_work and at_work[run.id].idle

        await eventually(stands_still, "the clock of the run stands still")

    assert play.asked == []


async def test_what_is_missing_is_told_to_the_model_and_to_the_user_whose_run_lacked_it(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "McpTimings", lambda: McpTimings(first_look=0.0))
    play = Play(
        main=[Reply(text="Hello.")],
        runs={
            "Look": [call("mcp__odd__fine"), Reply(text="I could not look.")],
            "Rest": [Reply(text="Rested.")],
        },
    )
    mcp = McpSettings.model_validate({"servers": {"odd": odd_server("quits", runs=["fine"])}})
    async with stage(sqlite_url, play, mcp=mcp) as it:
        await it.say(ALICE, "Hello")
        await it.outlet.replied()
        of_main = said(play.asked[-1]["messages"][-1])
        await it.command(ALICE, "/subagents spawn Look")
        looked = await it.ended("Look", RunStatus.COMPLETED)
        told = await it.outlet.announced(looked.id)
        await it.command(ALICE, "/subagents spawn Rest")
        rested = await it.ended("Rest", RunStatus.COMPLETED)

    missing = "These MCP servers are not connected now: odd. Their tools are missing."
    assert missing in of_main
    assert all(missing in said(body["messages"][0]) for body in play.asked if is_run(body))
    assert "It worked without these MCP servers, which were not connected: odd." in told.text
    assert rested.error is None
