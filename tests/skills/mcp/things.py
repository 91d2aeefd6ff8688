"""MCP servers as processes of their own, connected as the bot does it."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from bot.tasks import Tasks
from bot.values import Json, utc_now
from db.database import Database
from skills.base import Tool
from skills.mcp import skill as mcp
from skills.mcp.pins import Pins
from skills.mcp.server import McpServer, McpTimings
from skills.mcp.servers import McpServers
from skills.mcp.settings import McpSettings
from skills.registry import SkillRegistry
from tests.fakes.around import caller

ROOT = Path(__file__).parents[3]
QUICK = McpTimings(
    first_wait=0.05, longest_wait=0.2, list_pause=0.01, list_every=300, pins_every=0.05
)
BEFORE = "themselves.\n\n"


def sdk_server(*arguments: str, **settings: object) -> Json:
    """The settings of the server that is made with the SDK."""
    command = [sys.executable, "-m", "tests.fakes.mcp_server", *(arguments or ("stdio",))]
    return {"command": command, "folder": str(ROOT), **settings}


def odd_server(mode: str, **settings: object) -> Json:
    """The settings of the server that behaves badly."""
    command = [sys.executable, "-m", "tests.fakes.odd_mcp_server", mode]
    return {"command": command, "folder": str(ROOT), **settings}


class Bench:
    """Servers, and how a model would use them."""

    def __init__(self, database: Database, tasks: Tasks, stack: AsyncExitStack) -> None:
        self.database = database
        self.tasks = tasks
        self.stack = stack
        self.environ: dict[str, str] = dict(os.environ)
        self.servers: McpServers
        self.registry: SkillRegistry

    async def open(self, **servers: Json) -> McpServer:
        """Connect to servers, and return the first once something came of it."""
        return await self.open_settings(McpSettings.model_validate({"servers": servers}))

    async def open_settings(self, settings: McpSettings) -> McpServer:
        """Open the servers of settings, and return the first once something came of it."""
        self.servers = McpServers(
            settings,
            Pins(self.database, utc_now),
            tasks=self.tasks,
            environ=self.environ,
            pace=QUICK,
        )
        self.registry = SkillRegistry(mcp.build(self.servers))
        await self.stack.enter_async_context(self.servers.running())
        first = next(iter(self.servers.servers.values()))
        await self.until(first, lambda server: server.problem != "it is not connected yet")
        return first

    async def until(self, server: McpServer, holds: Callable[[McpServer], bool]) -> None:
        """Wait until something is so of a server."""
        async with asyncio.timeout(30):
            await server.until(holds)

    def tool(self, name: str) -> Tool:
        """Return a tool as the main agent has it."""
        tools = {tool.name: tool for tool in self.registry.tools_for(is_subagent=False)}
        return tools[name]

    async def call(self, name: str, /, **arguments: object) -> str:
        """Call a tool and return what the server said."""
        text = await self.tool(name).run(caller(), arguments)
        return text.partition(BEFORE)[2]
