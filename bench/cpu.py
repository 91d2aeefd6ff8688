"""CPU per model call of durable runs, beside the floor, started together or spread over time."""

import asyncio
import gc
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench import postgres
from bench.beside import Batch, Load, open_process, written
from bench.server import CALLS
from bench.stage import RUNS_PER_PERSON, Server, Stage, open_server, open_stage
from bench.table import Row, Scale

WARM_UP = 20
#: The ratios to reach by database, number of runs, and whether their starts are spread.
REACH = {
    ("SQLite", 1, False): 2.5,
    ("SQLite", 100, False): 1.1,
    ("SQLite", 100, True): 1.3,
    ("PostgreSQL", 100, False): 1.6,
    ("PostgreSQL", 100, True): 1.8,
}


@dataclass(frozen=True, slots=True)
class Compared:
    """Milliseconds of CPU per model call of the same runs, for each repetition.

    Attributes:
        floor: Of a bare loop on the SDK's own transport.
        aiohttp: Of a bare loop on the transport of the bot; not measured when starts are spread.
        ours: Of durable runs, all threads of the process.
        busy: The load of the machine before and after.
    """

    floor: Sequence[float]
    aiohttp: Sequence[float]
    ours: Sequence[float]
    busy: tuple[float, float]


def ratios_of(these: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return the ratio of two measures in each repetition."""
    return [each / other for each, other in zip(these, others, strict=True)]


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
    ours, bare = statistics.median(found.ours), statistics.median(found.floor)
    aiohttp = ""
    if found.aiohttp:
        ratio = statistics.median(ratios_of(found.ours, found.aiohttp))
        aiohttp = f"; {ratio:.2f} of the loop on aiohttp, {statistics.median(found.aiohttp):.2f}"
    before, after = found.busy
    return Row(
        f"CPU per model call of a durable run ÷ SDK loop, {load}, {database}",
        f"≤ {reach}" if reach else "report",
        f"{spread_of(ratios_of(found.ours, found.floor))}: {ours:.2f} ms, the loop {bare:.2f}"
        f"{aiohttp}; load {before:.1f} to {after:.1f}",
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
    ):

        async def ours(load: Load) -> float:
            return await measure_ours(stage, server, load)

        # What a run of ours sends, the bare loop sends too.
        await ours(Load(1, 1))
        with written(await server.newest()) as sent:
            async with (
                open_process("bench.floor", server, sent) as bare,
                open_process("bench.floor", server, sent, "--aiohttp") as aiohttp,
            ):
                for kind in (bare, aiohttp, ours):
                    await kind(Load(WARM_UP, 1))
                return [
                    (load, await _compared(server, (bare, aiohttp, ours), load)) for load in loads
                ]


async def _compared(server: Server, kinds: tuple[Batch, Batch, Batch], load: Load) -> Compared:
    """Measure all kinds in turn, so that what else the machine does falls on all alike."""
    before = os.getloadavg()[0]
    bare: list[float] = []
    aiohttp: list[float] = []
    ours: list[float] = []
    await server.latency(load.seconds)
    for _ in range(load.repetitions):
        for kind, costs in zip(kinds, (bare, aiohttp, ours), strict=True):
            if not (costs is aiohttp and load.seconds):
                costs.append(await kind(load))
    await server.latency(0)
    return Compared(bare, aiohttp, ours, (before, os.getloadavg()[0]))


async def measure_ours(stage: Stage, server: Server, load: Load) -> float:
    """Measure from the first spawn until the last announcement is handed over."""
    gc.collect()
    start = time.process_time()
    if load.seconds:
        await _spread(stage, load)
    else:
        await stage.spawn_held(server, load.count)
        await server.go()
    await stage.all_announced()
    return (time.process_time() - start) * 1000 / (load.count * CALLS)


async def _spread(stage: Stage, load: Load) -> None:
    async def spawn(after: float) -> None:
        await asyncio.sleep(after)
        await stage.spawn()

    async with asyncio.TaskGroup() as group:
        for number in range(load.count):
            group.create_task(spawn(number * load.seconds / load.count))
