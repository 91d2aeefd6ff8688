"""Runs a web server in the event loop, with limits against exhaustion and log flooding."""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from bot.errors import ConfigError
from bot.platforms.messaging.intake import Deduplicator
from bot.tasks import Tasks

#: The least time between two equal log messages about requests, in seconds.
LOG_SECONDS = 60.0
_HEAD_BYTES = 16 * 1024
_UVICORN = logging.getLogger("uvicorn.error")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLimits:
    """The limits of one request and of all requests together.

    Attributes:
        body_bytes: The largest body.
        bodies_bytes: The total size of all bodies that are being received.
        body_seconds: Timeout for a whole body.
        idle_seconds: Timeout for the head of a request, and between two requests.
        connections: Most open connections. Above, the answer is 503; above twice as many,
            connections are aborted.
        stop_seconds: Grace period for requests in flight at shutdown.
    """

    body_bytes: int = 1024 * 1024
    bodies_bytes: int = 16 * 1024 * 1024
    body_seconds: float = 5.0
    idle_seconds: float = 10.0
    connections: int = 200
    stop_seconds: float = 3.0


def listen(host: str, port: int, *, section: str) -> socket.socket:
    """Return a listening socket.

    Args:
        host: The address.
        port: The port.
        section: The section of the configuration with the keys `host` and `port`.

    Raises:
        ConfigError: This computer does not have the address, or the port is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        match getattr(error, "errno", None):
            case errno.EADDRINUSE:
                text = (
                    f"The port {port} of {host} is taken: end the program that has it, or set "
                    f"`{section}.port` to another one."
                )
            case errno.EACCES:
                text = (
                    f"The system reserves the port {port}: set `{section}.port` to one above 1023."
                )
            case _:
                text = (
                    f"This computer has no address {host}: set `{section}.host` to one of its own, "
                    "such as 127.0.0.1 for programs on it, or 0.0.0.0 for all."
                )
        raise ConfigError(text) from error


@asynccontextmanager
async def serve(
    app: ASGIApp, listener: socket.socket, limits: WebLimits, logged: Deduplicator
) -> AsyncIterator[str]:
    """Serve until the end of the block; yields the address, without a path."""
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        limit_concurrency=limits.connections,
        # Annotated as int; uvicorn passes them to asyncio, which accepts floats.
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=limits.stop_seconds,  # type: ignore[arg-type]
        # Context variables of the task that starts the server do not belong to a request.
        reset_contextvars=True,
    )
    server, tasks = _Server(config), Tasks()

    def admits(record: logging.LogRecord) -> bool:
        # uvicorn warns of each invalid and each excess request.
        return logged.first(f"uvicorn: {record.msg}", again_after=LOG_SECONDS)

    _UVICORN.addFilter(admits)
    host, port = listener.getsockname()[:2]
    tasks.start(server.serve(sockets=[listener]), name="the web server")
    try:
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        server.should_exit = True
        await tasks.wait_idle(limits.stop_seconds + 1.0)
        await tasks.close()
        if pending := set(server.server_state.tasks):  # cancelled requests
            await asyncio.wait(pending, timeout=1.0)
        for connection in list(server.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        listener.close()
        _UVICORN.removeFilter(admits)


class _Server(uvicorn.Server):
    """A server that installs no signal handlers: the signals are for the whole bot."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(H11Protocol):
    """A connection with a timeout for idle clients, slow heads and answers that are not read.

    uvicorn limits only the idle time after an answer, not the time before the first request, and
    a single byte now and then resets its timeout.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > 2 * (self.limit_concurrency or 0):
            transport.abort()
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_request()

    def _expect_request(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.timeout_keep_alive, self._abort_idle)

    def _abort_idle(self) -> None:
        working = self.cycle is not None and not self.cycle.response_complete
        if not working or self.flow.write_paused:
            self.transport.abort()
