"""The fake Discord on a port of this machine."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Self

from aiohttp import web

from tests.fakes.discord import routes, routes_application, routes_interactions
from tests.fakes.discord.faults import Fault, Sent, Window
from tests.fakes.discord.interactions import Interactions
from tests.fakes.discord.rest import Rest

ROUTES = [*routes.ROUTES, *routes_application.ROUTES, *routes_interactions.ROUTES]


class FakeDiscord(Interactions):
    """Discord, as far as a bot can tell: REST, gateway, files, and people who use it."""

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """Serve on a free port until the block ends."""
        discord = cls()
        app = web.Application(client_max_size=64 * 1024 * 1024)
        Rest(discord, ROUTES).add_to(app)
        app.router.add_get("/gateway", discord.gateway.handle)
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        discord.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield discord
        finally:
            discord.gateway.refused = True
            discord.gateway.drop(1001)
            await runner.cleanup()
        assert not discord.broken, f"The fake cannot answer: {discord.broken}"

    # -- the gateway -----------------------------------------------------------------------------

    async def ready(self, clients: int = 1, *, seconds: float | None = None) -> None:
        """Wait until clients are connected to the gateway and were told what there is."""
        await self.until(
            lambda: len(self.gateway.connected) >= clients,
            f"{clients} client(s) connected to the gateway",
            seconds=seconds,
        )

    async def drop_gateway(self, code: int | None = 4000) -> None:
        """Close all connections with this code; `None` tears them down. Wait until it is done."""
        lost = list(self.gateway.connections)
        self.gateway.drop(code)
        await self.until(
            lambda: not any(each in self.gateway.connections for each in lost),
            "the connections to the gateway closed",
        )

    def reconnect(self) -> None:
        """Ask all clients to connect anew (op 7)."""
        self.gateway.reconnect()

    def invalidate(self, *, resumable: bool = False) -> None:
        """End all sessions (op 9)."""
        self.gateway.invalidate(resumable=resumable)

    def refuse_gateway(self, refuse: bool = True) -> None:
        """Let nobody connect to the gateway any more, or again."""
        self.gateway.refused = refuse

    def stop_acks(self, stop: bool = True) -> None:
        """Answer no heartbeats any more, or again."""
        self.gateway.acks = not stop

    @contextmanager
    def gateway_down(self) -> Iterator[None]:
        """Have no gateway while the block lasts; what happens meanwhile can be resumed."""
        with self.gateway.down():
            yield

    # -- what goes wrong -------------------------------------------------------------------------

    def fail(
        self,
        method: str,
        path: str,
        *,
        times: int | None = 1,
        status: int = 0,
        code: int = 0,
        text: str = "",
        retry_after: float | None = None,
        everywhere: bool = False,
        cut: bool = False,
        refuse: bool = False,
        hold: asyncio.Event | None = None,
        cloudflare: bool = False,
    ) -> Fault:
        """Let the next requests go wrong (see `Fault`); `{…}` in the path stands for anything."""
        fault = Fault(
            method,
            path,
            times=times,
            status=status,
            code=code,
            text=text,
            retry_after=retry_after,
            everywhere=everywhere,
            cut=cut,
            refuse=refuse,
            hold=hold,
            cloudflare=cloudflare,
        )
        self.faults.ordered.append(fault)
        return fault

    def limit(self, method: str, path: str, *, limit: int, seconds: float) -> Window:
        """Let so many of the next requests pass in a window that lasts so long."""
        window = Window(method, path, limit, seconds)
        self.faults.windows.append(window)
        return window

    def requests(self, method: str, path: str) -> list[Sent]:
        """Return the requests of one kind so far; `{…}` in the path stands for anything."""
        kind = Fault(method, path)
        return [sent for sent in self.sent if kind.fits(sent.method, sent.path)]
