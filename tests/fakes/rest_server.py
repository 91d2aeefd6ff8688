"""A REST service that tells what it was asked, or misbehaves when asked for that."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import BodyPartReader, web

from bot.values import Json


@dataclass
class FakeRest:
    """The service.

    Attributes:
        base: Where it is.
        asked: The paths with their queries, as they came.
        document: What it describes itself as; `None` for nothing.
        elsewhere: Where it redirects to.
    """

    base: str = ""
    asked: list[str] = field(default_factory=list)
    document: Json | None = None
    elsewhere: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        self.asked.append(request.raw_path)
        match request.path.rpartition("/")[2]:
            case "openapi.json":
                if self.document is None:
                    return web.Response(status=503)
                return web.json_response(self.document)
            case "redirect":
                return web.Response(status=302, headers={"Location": self.elsewhere})
            case "slow":
                await asyncio.sleep(60)
            case "bomb":
                packed = gzip.compress(b"0" * 20_000_000)
                return web.Response(body=packed, headers={"Content-Encoding": "gzip"})
            case "big":
                return web.Response(text="word " * 1_000_000)
            case "picture":
                return web.Response(body=b"\x89PNG" * 10, content_type="image/png")
            case "missing":
                return web.json_response({"error": "<no such thing>"}, status=404)
            case "drop":
                assert request.transport is not None
                request.transport.abort()
        if request.content_type == "multipart/form-data":
            return web.json_response(await _parts_of(request))
        return web.json_response(
            {
                "method": request.method,
                "path": request.raw_path,
                "query": [list(pair) for pair in request.query.items()],
                "headers": dict(request.headers),
                "body": (await request.read()).decode("utf-8", "replace"),
            }
        )


async def _parts_of(request: web.Request) -> list[Json]:
    """Return the parts of a form: name, name of the file, type and content."""
    found = []
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        kind, content = part.headers.get("Content-Type", ""), bytes(await part.read())
        text = (
            content.decode("utf-8", "replace") if len(content) < 1_000 else f"{len(content)} bytes"
        )
        found.append({"name": part.name, "file": part.filename, "type": kind, "text": text})
    return found


@asynccontextmanager
async def rest_server() -> AsyncIterator[FakeRest]:
    """Run the service on a port of its own."""
    fake = FakeRest()
    app = web.Application(client_max_size=100_000_000)
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
