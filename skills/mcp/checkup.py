"""Checks the MCP servers: connects to each, lists its tools, and disconnects."""

import asyncio
import os
from collections.abc import Collection, Mapping
from contextlib import suppress

from bot.agent.sanitizer import one_line
from bot.checks import Check, all_of, fails, is_off, works
from bot.run_texts import counted
from bot.values import Sections
from db.settings import DatabaseSettings
from skills.mcp.approvals import opened_pins
from skills.mcp.server import link_problem, load_connect, offered_by
from skills.mcp.settings import McpServerSettings, McpSettings
from skills.mcp.starts import start_requests

MOST_CHARACTERS = 600


SUBJECT = "MCP"

PATIENCE_SECONDS = 10


async def checks(config: Sections) -> list[Check]:
    """Check the servers of a configuration, and the tools that wait for an admin."""
    settings, database = config.section(McpSettings), config.section(DatabaseSettings)
    if not settings.servers:
        return []
    waiting: dict[str, int] = {}
    unstarted = start_requests(settings.servers, settings.written)
    # The check of the database reports its failures.
    with suppress(Exception):
        async with asyncio.timeout(PATIENCE_SECONDS), opened_pins(database) as pins:
            if pins is not None:
                waiting = {name: len(await pins.waiting(name)) for name in settings.servers}
                starts = {name: await pins.start_of(name) for name in unstarted}
                unstarted = {
                    name: request
                    for name, request in unstarted.items()
                    if (pin := starts[name]) is None or pin.approved_hash != request.hash
                }
    found = await look(settings, os.environ, unstarted)
    found += [
        is_off(f"{name}: {count} waiting for a yes: `python -m bot mcp list`.")
        for name, count in waiting.items()
        if count
    ]
    return found


async def look(
    settings: McpSettings, environ: Mapping[str, str], unstarted: Collection[str] = ()
) -> list[Check]:
    """Check all servers concurrently, each within its connection timeout.

    Args:
        settings: The servers.
        environ: The environment of the bot.
        unstarted: The servers that no admin has approved, which are neither started nor connected.
    """
    found = [
        is_off(f"{name} is not started: an admin approves it: `python -m bot mcp list`.")
        for name in unstarted
    ]
    others = {name: each for name, each in settings.servers.items() if name not in unstarted}
    return found + await all_of(_look(name, each, environ) for name, each in others.items())


async def _look(name: str, settings: McpServerSettings, environ: Mapping[str, str]) -> Check:
    if not settings.enabled:
        return is_off(f"{name} is off: `mcp.servers.{name}.enabled` is false.")
    if settings.oauth:
        return is_off(f"{name} ({settings.shown}) is not tried: each user signs in there.")
    connect = await asyncio.to_thread(load_connect)
    seconds = settings.connect_seconds
    try:
        async with (
            asyncio.timeout(seconds),
            connect(name, settings, environ, lambda: None) as link,
        ):
            found, problems = await offered_by(name, settings, link)
    except Exception as error:  # noqa: BLE001 - whatever a server does is the finding
        late = f"it did not answer within {seconds:g} s"
        reason = late if isinstance(error, TimeoutError) else link_problem(error)
        return fails(
            f"{name} ({settings.shown}) cannot be used: {one_line(reason, MOST_CHARACTERS)}. Check "
            f"`mcp.servers.{name}`."
        )
    text = f"{name} ({settings.shown}) answers: {counted(len(found), 'tool')}"
    if problems:
        return is_off(one_line(f"{text}; {'; '.join(problems)}", MOST_CHARACTERS))
    return works(f"{text}.")
