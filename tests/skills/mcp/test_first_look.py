"""Work that begins after a start waits for the tools of each MCP server, once and not for ever."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bot.tasks import Tasks
from bot.values import utc_now
from db.database import Database
from skills.mcp.pins import Pins
from skills.mcp.servers import McpServers
from skills.mcp.settings import McpSettings
from tests.skills.mcp.things import QUICK, odd_server


class Timers(Tasks):
    """Tasks whose timers a test fires.

    Attributes:
        timers: The seconds and the action of each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, action: Callable[[], None], *, name: str) -> asyncio.Task[Any]:
        self.timers.append((seconds, action))
        return self.start(asyncio.sleep(0), name=name)


@pytest.fixture
async def timers() -> AsyncIterator[Timers]:
    owner = Timers()
    yield owner
    await owner.close()


def servers_of(database: Database, tasks: Tasks, **modes: str) -> McpServers:
    servers = {name: odd_server(mode) for name, mode in modes.items()}
    return McpServers(
        McpSettings.model_validate({"servers": servers}),
        Pins(database, utc_now),
        tasks=tasks,
        environ=dict(os.environ),
        pace=QUICK,
    )


async def test_work_waits_until_a_server_has_given_its_tools(
    sqlite: Database, timers: Timers
) -> None:
    servers = servers_of(sqlite, timers, odd="odd")
    waiting = timers.start(servers.away(servers.servers.values()), name="work")
    async with servers.running():
        async with asyncio.timeout(30):
            assert await waiting == ()

        assert servers.servers["odd"].tools


async def test_work_waits_ten_seconds_for_a_server_that_does_not_come_and_only_once(
    sqlite: Database, timers: Timers
) -> None:
    servers = servers_of(sqlite, timers, deaf="deaf", odd="odd")
    async with servers.running():
        (seconds, give_up), (_, _) = timers.timers
        first = timers.start(servers.away(servers.servers.values()), name="work")
        async with asyncio.timeout(30):
            assert await servers.away([servers.servers["odd"]]) == ()
        assert not first.done()
        give_up()

        async with asyncio.timeout(30):
            assert await first == ("deaf",)
            assert await servers.away(servers.servers.values()) == ("deaf",)
    assert seconds == 10
