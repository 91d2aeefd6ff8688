"""Serve an ASGI application on a port of this machine, as a web server does for HTTP events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from bot.tasks import Tasks

#: Whatever a web server calls with a scope and two ends of a conversation.
AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]


@asynccontextmanager
async def serve(app: AsgiApp) -> AsyncIterator[str]:
    """Serve for as long as the block lasts; gives the address, without a path."""
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        log_config=None,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server, tasks = uvicorn.Server(config), Tasks()
    # `serve` would take the signals of the whole process.
    serving = tasks.start(server._serve(), name="a web server")
    try:
        while not server.started:
            assert not serving.done(), "The server did not start."
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await tasks.wait_idle(5.0)
        await tasks.close()
