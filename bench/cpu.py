"""CPU per model call of durable runs, beside the floor."""

import gc
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench import floor, postgres
from bench.server import CALLS
from bench.stage import RUNS_PER_PERSON, Server, Stage, open_server, open_stage
from bench.table import Row, Scale
from bot.values import Json

#: The ratios to reach by database and number of runs at once.
REACH = {("SQLite", 1): 2.5, ("SQLite", 100): 1.1, ("PostgreSQL", 100): 1.6}
KNOWN = (
    "at 100, most storing nothing: langgraph 3.5, pydantic-ai 4.4, openai-agents 4.4, nanobot 15, "
    "hermes-agent 38, openclaw 48"
)
WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of CPU per model call, all threads of the process.

    Attributes:
        spawning: The part until every run waits for its first answer.
    """

    whole: float
    spawning: float = 0.0


@dataclass(frozen=True, slots=True)
class Compared:
    """What the same runs cost as a bare loop on either transport, and as durable runs."""

    default: Cost
    aiohttp: Cost
    ours: Cost

    @property
    def ratio(self) -> float:
        """How many times the floor on the same transport as ours."""
        return self.ours.whole / self.aiohttp.whole


Kind = Callable[[int], Awaitable[Cost]]


async def rows(scale: Scale) -> list[Row]:
    """Return the figures on SQLite and, where there is one, on PostgreSQL."""
    found = [
        _row("SQLite", count, compared, reach=REACH.get(("SQLite", count), 0))
        for count, compared in (await measure(scale.at_once)).items()
    ]
    if not scale.postgres:
        return found
    async with postgres.opened() as url:
        if url is None:
            return [*found, Row("the same on PostgreSQL", "", postgres.MISSING)]
        measured = await measure(scale.postgres, url)
    for count, compared in measured.items():
        found.append(_row("PostgreSQL", count, compared, reach=REACH.get(("PostgreSQL", count), 0)))
    return found


def _row(database: str, count: int, found: Compared, *, reach: float = 0) -> Row:
    ours, floor_ms = found.ours, found.default.whole
    return Row(
        f"CPU per model call of a durable run ÷ SDK loop, {count} at once, {database}",
        f"≤ {reach}" if reach else "report",
        f"{ours.whole / floor_ms:.2f}: {ours.whole:.2f} ms (until the first call "
        f"{ours.spawning:.2f}), the loop {floor_ms:.2f}; {found.ratio:.2f} of the loop on "
        f"aiohttp, {found.aiohttp.whole:.2f}",
        KNOWN if reach else "",
    )


async def measure(counts: dict[int, int], database_url: str = "") -> dict[int, Compared]:
    """Return the costs at each number of runs at once: the median of so many repetitions."""
    most = max((WARM_UP, *counts))
    async with (
        open_server() as server,
        open_stage(server, database_url, people=most // RUNS_PER_PERSON + 1) as stage,
        _kinds(stage, server) as kinds,
    ):
        for kind in kinds:
            await kind(WARM_UP)
        return {count: await _compared(kinds, count, times) for count, times in counts.items()}


@asynccontextmanager
async def _kinds(stage: Stage, server: Server) -> AsyncIterator[tuple[Kind, Kind, Kind]]:
    default = floor.open_client(server, aiohttp=False)
    aiohttp = floor.open_client(server, aiohttp=True)
    async with default, aiohttp:

        async def ours(count: int) -> Cost:
            return await _ours(stage, server, count)

        # What a run of ours sends, the bare loop sends too.
        await ours(1)
        sent = await server.newest()

        async def bare(count: int) -> Cost:
            return await _bare(default, server, count, sent)

        async def bare_aiohttp(count: int) -> Cost:
            return await _bare(aiohttp, server, count, sent)

        yield bare, bare_aiohttp, ours


async def _compared(kinds: tuple[Kind, Kind, Kind], count: int, times: int) -> Compared:
    """Measure all kinds in turn, so that what else the machine does falls on all alike."""
    costs: list[list[Cost]] = [[] for _ in kinds]
    for _ in range(times):
        for kind, found in zip(kinds, costs, strict=True):
            gc.collect()
            found.append(await kind(count))
    return Compared(*(_median(found) for found in costs))


def _median(costs: list[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.whole for cost in costs),
        statistics.median(cost.spawning for cost in costs),
    )


async def _bare(client: floor.Client, server: Server, count: int, sent: Json) -> Cost:
    start = time.process_time()
    await floor.run_many(client, server, count, sent)
    return Cost(_per_call(time.process_time() - start, count))


async def _ours(stage: Stage, server: Server, count: int) -> Cost:
    """Measure from the first spawn until the last announcement is handed over."""
    start = time.process_time()
    await stage.spawn_held(server, count)
    spawned = time.process_time()
    await server.go()
    await stage.all_announced()
    end = time.process_time()
    return Cost(_per_call(end - start, count), _per_call(spawned - start, count))


def _per_call(seconds: float, runs: int) -> float:
    return seconds * 1000 / (runs * CALLS)
