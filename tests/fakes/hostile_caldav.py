"""A CalDAV server that wants the password to go elsewhere, or misbehaves as it is told."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

Manner = Literal[
    "elsewhere",
    "lures",
    "slow",
    "drop",
    "bomb",
    "big",
    "no xml",
    "entities",
    "odd xml",
    "comments",
    "junk",
    "busy",
]

_SPACES = 'xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"'
EVENT = (
    "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nBEGIN:VEVENT\nUID:1\nDTSTART:20261123T090000Z\n"
    "SUMMARY:Tea\nURL:{elsewhere}\nATTACH:{elsewhere}\nEND:VEVENT\nEND:VCALENDAR\n"
)


@dataclass
class HostileCaldav:
    """The server.

    Attributes:
        base: Where it is.
        manner: What it does.
        elsewhere: Where it wants us to go.
        asked: What it was asked: the method, the path and the authorization.
    """

    manner: Manner = "lures"
    base: str = ""
    elsewhere: str = ""
    status: int = 207
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        known = request.headers.get("Authorization", "")
        self.asked.append((request.method, request.path, known))
        headers = {"Location": self.elsewhere, "Content-Location": self.elsewhere}
        match self.manner:
            case "elsewhere":
                return web.Response(status=self.status, headers=headers)
            case "slow":
                await asyncio.sleep(60)
            case "drop":
                assert request.transport is not None
                request.transport.abort()
            case "bomb":
                packed = gzip.compress(b" " * 50_000_000)
                return web.Response(status=207, body=packed, headers={"Content-Encoding": "gzip"})
            case "busy":
                return web.Response(status=503, headers={"Retry-After": "1"})
        return web.Response(
            status=207, text=self._body(), content_type="application/xml", headers=headers
        )

    def _body(self) -> str:
        event = EVENT.format(elsewhere=self.elsewhere)
        href = f"<href>{self.elsewhere}</href>"
        match self.manner:
            case "big":
                return _multistatus(f"{href}{'<propstat/>' * 500_000}")
            case "no xml":
                return "It works!"
            case "entities":
                lots = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
                doctype = f'<!DOCTYPE d [<!ENTITY l0 "ha">{lots}]>'
                return _multistatus(f"{href}{_data('&l9;')}", doctype)
            case "odd xml":
                return _multistatus("<status>HTTP/1.1 500 No</status>")
            case "junk":
                return _multistatus(f"{href}{_data('no calendar')}")
            case "comments":
                return _multistatus(f"{href}<!-- {self.elsewhere} -->{_data(event)}")
        return _multistatus(f"{href}{_data(event)}")


def _multistatus(response: str, doctype: str = "") -> str:
    inner = f"<response>{response}</response>"
    return f'<?xml version="1.0"?>{doctype}<multistatus {_SPACES}>{inner}</multistatus>'


def _data(event: str) -> str:
    return f"<propstat><prop><C:calendar-data>{event}</C:calendar-data></prop></propstat>"


@asynccontextmanager
async def hostile_caldav(
    manner: Manner = "lures", elsewhere: str = ""
) -> AsyncIterator[HostileCaldav]:
    """Run the server on a port of its own."""
    fake = HostileCaldav(manner, elsewhere=elsewhere)
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", fake.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    fake.base = f"http://{host}:{port}"
    try:
        yield fake
    finally:
        await runner.cleanup()
