"""Serves health checks and metrics of one process: `/healthz`, `/readyz`, `/metrics`."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot.errors import BotError
from bot.events import EventBus
from bot.loop_watch import LoopBlock, longest_block
from bot.monitoring.metrics import Metrics
from bot.monitoring.settings import MonitoringSettings
from bot.platforms.messaging.intake import Deduplicator
from bot.tasks import Tasks
from bot.values import Clock
from bot.web_server import WebLimits, listen, serve
from db import health
from db.database import Database

log = logging.getLogger(__name__)

REFRESH_SECONDS = 10.0
LAG_SECONDS = 0.5
#: Timeout of the database's answer to a health check.
ANSWER_SECONDS = 2.0
#: A result of a check is used again for this time, so that requests cannot load the database.
FRESH_SECONDS = 1.0
STARTING = "the bot is starting"
LIMITS = WebLimits(connections=20, stop_seconds=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The parts of an open bot that a monitor looks at.

    Attributes:
        is_tool: Returns True for the name of a tool that exists.
        problems: Returns the problem of each further part, empty for none.
    """

    database: Database
    events: EventBus
    is_tool: Callable[[str], bool]
    problems: Callable[[], Mapping[str, str]]
    now: Clock


@dataclass(slots=True)
class Monitor:
    """Answers whether a process lives and is ready, and exports its metrics."""

    metrics: Metrics
    tasks: Tasks
    _watched: Watched | None = None
    _found: dict[str, str] = field(default_factory=dict)
    _found_at: float = float("-inf")
    _checking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def attach(self, watched: Watched) -> None:
        """Watch a bot that is open now."""
        self._watched = watched
        watched.database.observed = self.metrics.on_database
        self.metrics.subscribe(watched.events, watched.is_tool)
        self.tasks.start(self._refresh(watched), name="refresh the metrics", fresh_context=True)

    async def problems(self) -> dict[str, str]:
        """Return the problem of each part, empty for a part that is ready."""
        if self._watched is None:
            return {"start": STARTING}
        async with self._checking:
            if time.monotonic() - self._found_at > FRESH_SECONDS:
                self._found = {
                    "start": "",
                    "database": await _database_problem(self._watched.database),
                    **self._watched.problems(),
                }
                self._found_at = time.monotonic()
        return self._found

    def app(self) -> Starlette:
        """Return the web application."""
        routes = [
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
        ]
        return Starlette(routes=routes)

    async def _healthz(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, _: Request) -> Response:
        problems = await self.problems()
        ready = not any(problems.values())
        parts = {part: problem or "ok" for part, problem in problems.items()}
        block = (longest_block() or LoopBlock()).seconds
        found = {"ready": ready, "parts": parts, "longest_block_ms": round(block * 1000, 1)}
        return JSONResponse(found, 200 if ready else 503)

    async def _metrics(self, _: Request) -> Response:
        self.metrics.show_ready(await self.problems())
        self.metrics.show_block((longest_block() or LoopBlock()).seconds)
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def measure_lag(self) -> None:
        """Measure the delay of the event loop until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(LAG_SECONDS)
            self.metrics.lag.observe(max(0.0, loop.time() - began - LAG_SECONDS))

    async def _refresh(self, watched: Watched) -> None:
        while True:
            try:
                self.metrics.show(await watched.database.read(health.backlog, watched.now()))
            except (BotError, DBAPIError, OSError) as error:
                log.debug("The metrics of the database are old", exc_info=error)
            await asyncio.sleep(REFRESH_SECONDS)


@asynccontextmanager
async def open_monitor(
    settings: MonitoringSettings, *, release: str, whole: bool
) -> AsyncIterator[Monitor]:
    """Serve health checks and metrics until the end of the block.

    Args:
        settings: Selects the address.
        release: The version of the program and of its tables.
        whole: Whether to export the state of the whole system as well.

    Raises:
        ConfigError: The address or the port is not available.
    """
    assert settings.port is not None, "There is a port."
    listener = listen(settings.host, settings.port, section="monitoring")
    async with Tasks() as tasks:
        monitor = Monitor(Metrics(release=release, whole=whole), tasks)
        tasks.start(monitor.measure_lag(), name="measure the event loop", fresh_context=True)
        async with serve(monitor.app(), listener, LIMITS, Deduplicator()) as address:
            log.info("Health checks and metrics: %s", address)
            yield monitor


async def _database_problem(database: Database) -> str:
    try:
        async with asyncio.timeout(ANSWER_SECONDS), database.snapshot() as tx:
            await tx.execute(text("SELECT 1"))
    except TimeoutError:
        return f"no answer within {ANSWER_SECONDS:g} seconds"
    except (BotError, DBAPIError, OSError):
        return "the database is unavailable; the log has the reason"
    return ""
