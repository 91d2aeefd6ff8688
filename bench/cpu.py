"""CPU per model call of durable runs, beside the floor, started together or spread over time."""

import asyncio
import gc
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench import floor, postgres
from bench.server import CALLS
from bench.stage import RUNS_PER_PERSON, Server, Stage, open_server, open_stage
from bench.table import Row, Scale
from bot.values import Json

WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Load:
    """How runs are started.

    Attributes:
        count: Their number.
        repetitions: How often all of them are, by each kind in turn.
        seconds: The starts are spread over this time, which is also the latency of the model;
            without it they are together, and no model call is answered before all are made.
    """

    count: int
    repetitions: int
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.seconds:
            return f"{self.count} at once"
        return f"{self.count} started over {self.seconds:g} s, {self.seconds:g} s model latency"


#: The ratios to reach by database, number of runs, and whether their starts are spread.
REACH = {
    ("SQLite", 1, False): 2.5,
    ("SQLite", 100, False): 1.1,
    ("SQLite", 100, True): 1.3,
    ("PostgreSQL", 100, False): 1.6,
    ("PostgreSQL", 100, True): 1.8,
}


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
    """The costs of the same runs in each repetition.

    Attributes:
        floor: As a bare loop on the SDK's own transport.
        aiohttp: As a bare loop on the transport of the bot; not measured when starts are spread.
        ours: As durable runs.
        busy: The load of the machine before and after.
    """

    floor: Sequence[Cost]
    aiohttp: Sequence[Cost]
    ours: Sequence[Cost]
    busy: tuple[float, float]

    @property
    def ratios(self) -> list[float]:
        """How many times the floor ours is, in each repetition."""
        return _ratios(self.ours, self.floor)


def _ratios(ours: Sequence[Cost], floor: Sequence[Cost]) -> list[float]:
    return [each.whole / other.whole for each, other in zip(ours, floor, strict=True)]


Kind = Callable[[Load], Awaitable[Cost]]


async def rows(scale: Scale) -> list[Row]:
    """Return the figures on SQLite and, where there is one, on PostgreSQL."""
    spread = [Load(count, times, scale.spread_seconds) for count, times in scale.spread.items()]
    loads = [Load(count, times) for count, times in scale.at_once.items()] + spread
    found = await _rows("SQLite", loads)
    if not scale.postgres:
        return found
    loads = [Load(count, times) for count, times in scale.postgres.items()] + spread
    async with postgres.opened() as url:
        if url is None:
            return [*found, Row("the same on PostgreSQL", "", postgres.MISSING)]
        return found + await _rows("PostgreSQL", loads, url)


async def _rows(database: str, loads: Sequence[Load], url: str = "") -> list[Row]:
    return [_row(database, load, found) for load, found in await measure(loads, url)]


def _row(database: str, load: Load, found: Compared) -> Row:
    reach = REACH.get((database, load.count, bool(load.seconds)))
    ours, bare = _median(found.ours), _median(found.floor)
    held = "" if load.seconds else f" ({ours.spawning:.2f} until the first call)"
    aiohttp = ""
    if found.aiohttp:
        ratio = statistics.median(_ratios(found.ours, found.aiohttp))
        aiohttp = f"; {ratio:.2f} of the loop on aiohttp, {_median(found.aiohttp).whole:.2f} ms"
    before, after = found.busy
    each = f"{ours.whole:.2f} ms{held}, the loop {bare.whole:.2f}{aiohttp}"
    return Row(
        f"CPU per model call of a durable run ÷ SDK loop, {load}, {database}",
        f"≤ {reach}" if reach else "report",
        f"{spread_of(found.ratios)}: {each}; load {before:.1f} to {after:.1f}",
        "`make bench-peers`" if reach else "",
    )


def spread_of(ratios: Sequence[float]) -> str:
    """Return the median of ratios, with the least and the greatest."""
    median, count = statistics.median(ratios), len(ratios)
    return f"{median:.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {count} times)"


async def measure(loads: Sequence[Load], database_url: str = "") -> list[tuple[Load, Compared]]:
    """Return the costs of each load."""
    most = max(WARM_UP, *(load.count for load in loads))
    async with (
        open_server() as server,
        open_stage(server, database_url, people=most // RUNS_PER_PERSON + 1) as stage,
        _kinds(stage, server) as kinds,
    ):
        for kind in kinds:
            await kind(Load(WARM_UP, 1))
        return [(load, await _compared(server, kinds, load)) for load in loads]


@asynccontextmanager
async def _kinds(stage: Stage, server: Server) -> AsyncIterator[tuple[Kind, Kind, Kind]]:
    default = floor.open_client(server, aiohttp=False)
    aiohttp = floor.open_client(server, aiohttp=True)
    async with default, aiohttp:

        async def ours(load: Load) -> Cost:
            return await _ours(stage, server, load)

        # What a run of ours sends, the bare loop sends too.
        await ours(Load(1, 1))
        sent = await server.newest()

        async def bare(load: Load) -> Cost:
            return await _bare(default, server, load, sent)

        async def bare_aiohttp(load: Load) -> Cost:
            return await _bare(aiohttp, server, load, sent)

        yield bare, bare_aiohttp, ours


async def _compared(server: Server, kinds: tuple[Kind, Kind, Kind], load: Load) -> Compared:
    """Measure all kinds in turn, so that what else the machine does falls on all alike."""
    bare, bare_aiohttp, ours = kinds
    before = os.getloadavg()[0]
    found: tuple[list[Cost], list[Cost], list[Cost]] = ([], [], [])
    await server.latency(load.seconds)
    for _ in range(load.repetitions):
        for kind, costs in zip((bare, bare_aiohttp, ours), found, strict=True):
            if kind is bare_aiohttp and load.seconds:
                continue
            gc.collect()
            costs.append(await kind(load))
    await server.latency(0)
    return Compared(*found, (before, os.getloadavg()[0]))


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.whole for cost in costs),
        statistics.median(cost.spawning for cost in costs),
    )


async def _bare(client: floor.Client, server: Server, load: Load, sent: Json) -> Cost:
    start = time.process_time()
    if load.seconds:
        await started_over(load, lambda number: floor.run(client, number, sent))
    else:
        await floor.run_many(client, server, load.count, sent)
    return Cost(_per_call(time.process_time() - start, load))


async def _ours(stage: Stage, server: Server, load: Load) -> Cost:
    """Measure from the first spawn until the last announcement is handed over."""
    start = time.process_time()
    if load.seconds:
        await started_over(load, lambda _: stage.spawn())
    else:
        await stage.spawn_held(server, load.count)
    spawned = time.process_time()
    await server.go()
    await stage.all_announced()
    end = time.process_time()
    return Cost(_per_call(end - start, load), _per_call(spawned - start, load))


async def started_over(load: Load, start: Callable[[int], Awaitable[object]]) -> None:
    """Start as many as there are, one after another at equal intervals, and wait for all."""

    async def started(number: int) -> None:
        await asyncio.sleep(number * load.seconds / load.count)
        await start(number)

    async with asyncio.TaskGroup() as group:
        for number in range(load.count):
            group.create_task(started(number))


def _per_call(seconds: float, load: Load) -> float:
    return seconds * 1000 / (load.count * CALLS)
