"""Owns the MCP servers: one task for each."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager

from bot.tasks import Tasks
from bot.values import Identity, Json, Place
from db.mcp_pins import Pin
from skills.mcp.images import Save
from skills.mcp.pins import Pins
from skills.mcp.server import McpServer, McpTimings
from skills.mcp.settings import McpServerSettings, McpSettings
from skills.mcp.sign_ins import SignIns
from skills.mcp.signed_in import PersonalServer
from skills.mcp.starts import start_requests

CLOSE_SECONDS = 8.0


class McpServers:
    """All enabled servers of the configuration."""

    def __init__(
        self,
        settings: McpSettings,
        pins: Pins,
        *,
        tasks: Tasks,
        environ: Mapping[str, str],
        pace: McpTimings | None = None,
        save: Save | None = None,
        troubled: Callable[[str, str], None] = lambda *_: None,
        sign_ins: SignIns | None = None,
    ) -> None:
        self.pins = pins
        self._tasks = tasks
        self._pace = pace or McpTimings()
        to_start = start_requests(settings.servers, settings.written)

        def server(name: str, each: McpServerSettings) -> McpServer:
            common: Json = {
                "environ": environ,
                "pace": self._pace,
                "save": save,
                "request": to_start.get(name),
                "troubled": troubled,
            }
            if not each.oauth:
                return McpServer(name, each, pins, **common)
            assert sign_ins is not None, "Users sign in."
            return PersonalServer(name, each, pins, **common, sign_ins=sign_ins)

        self.servers: Mapping[str, McpServer] = {
            name: server(name, each) for name, each in settings.servers.items() if each.enabled
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator["McpServers"]:
        """Connect to all servers while the block runs; start-up waits for none."""
        owners = [
            self._tasks.start(server.run(), name=f"MCP server {name}", fresh_context=True)
            for name, server in self.servers.items()
        ]
        looks = [
            self._tasks.later(
                self._pace.first_look, server.looked.set, name=f"first look at {name}"
            )
            for name, server in self.servers.items()
        ]
        try:
            yield self
        finally:
            for task in (*owners, *looks):
                task.cancel()
            if owners:
                await asyncio.wait((*owners, *looks), timeout=CLOSE_SECONDS)

    @staticmethod
    async def away(needed: Collection[McpServer]) -> tuple[str, ...]:
        """Return the unavailable ones of the servers that some work needs, after a first look."""
        for server in needed:
            await server.looked.wait()
        return tuple(server.name for server in needed if not server.listed)

    async def look_as(self, name: str, user: Identity) -> None:
        """Compare what a server offers a user who has just signed in with what is approved."""
        server = self.servers[name]
        if isinstance(server, PersonalServer):
            await server.look_as(user)

    async def approve(
        self,
        server: str,
        *,
        by: str,
        place: Place,
        shown: Iterable[Pin] | None = None,
        command_id: str = "",
    ) -> tuple[str, ...]:
        """Approve waiting tools of a server (see `Pins.approve`), and use them at once."""
        done = await self.pins.approve(
            server, by=by, shown=shown, command_id=command_id, place=place
        )
        if server in self.servers:
            self.servers[server].look_again()
        return done
