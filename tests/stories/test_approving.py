"""A tool that changes is dropped, and comes back when an admin has seen it and says yes."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from bot.conversations.access import AccessSettings
from bot.values import Json
from skills.mcp.settings import McpSettings
from tests.fakes.anthropic_server import Reply
from tests.fakes.children import Child
from tests.skills.mcp.things import sdk_server
from tests.stories.stage import ADMIN, ALICE, Play, Stage, call, stage

SERVERS = {"fake": sdk_server()}
ECHO = "mcp__fake__echo"


def settings() -> dict[str, Any]:
    return {
        "mcp": McpSettings.model_validate({"servers": SERVERS}),
        "access": AccessSettings(admins=("fake:root",)),
    }


def play() -> Play:
    return Play(
        main=[
            call("mcp__fake__become", words="Say it twice."),
            Reply(text="Done."),
            Reply(text="!"),
        ]
    )


async def has_echo(it: Stage, expected: bool) -> None:
    """Wait until the bot has the tool, or has it no more."""
    async with asyncio.timeout(45):
        while (ECHO in it.bot.registry.tools) is not expected:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def changed(it: Stage) -> None:
    """Let the server change what it says of a tool."""
    await has_echo(it, True)
    await it.say(ALICE, "Change it")
    await it.outlet.replied()
    await has_echo(it, False)


def offered(body: Json) -> Json | None:
    return next((tool for tool in body["tools"] if tool["name"] == ECHO), None)


async def test_an_admin_looks_at_what_changed_says_yes_and_the_model_has_it_as_it_is_now(
    database_url: str,
) -> None:
    lines = play()
    async with stage(database_url, lines, **settings()) as it:
        await changed(it)

        refused = await it.command(ALICE, "/retinue mcp approve fake")
        shown = await it.command(ADMIN, "/retinue mcp")
        still = ECHO in it.bot.registry.tools
        done = await it.command(ADMIN, "/retinue mcp approve fake echo")
        await has_echo(it, True)
        await it.say(ALICE, "And now?")
        await it.outlet.replied(2)

        assert "There is no command /mcp" in refused.text
        assert "- Say it again.\n+ Say it twice." in shown.text
        assert not still
        assert "`echo` of fake" in done.text
        now = offered(lines.asked[-1])
        assert now is not None
        assert now["description"].startswith("Say it twice.")


async def test_a_yes_on_the_command_line_reaches_the_bot_that_runs(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"database": {"url": database_url}, "mcp": {"servers": SERVERS}}))

    async def type_in(*words: str) -> str:
        process = await Child.start(
            *("bot", "mcp", *words, "--config", str(file)),
            folder=tmp_path,
            environ={"PATH": os.environ["PATH"]},
        )
        try:
            said = await process.stdout.read()
            assert await process.wait() == 0, await process.stderr.read()
        finally:
            await process.close()
        return said.decode()

    async with stage(database_url, play(), **settings()) as it:
        await changed(it)

        shown = await type_in("list")
        marked = next(word for word in shown.split() if word.startswith("echo@"))
        await type_in("approve", "fake", marked.rstrip(":"), "--as", "ada")
        await has_echo(it, True)

        assert it.bot.registry.tools[ECHO].description.startswith("Say it twice.")
