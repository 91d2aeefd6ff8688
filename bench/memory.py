"""A thousand runs at once in one process: none lost, and what each takes of the memory."""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from bench.beside import Load, open_process, written
from bench.server import CALLS
from bench.stage import RUNS_PER_PERSON, Server, Stage, open_server, open_stage
from bench.table import Row, Scale
from db.tables import steps, subagent_runs

REACH_KB = 80
WARM_UP = 50
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Found:
    """What came of the runs.

    Attributes:
        completed: Runs that completed, were announced, and whose steps are all stored.
        kilobytes: Growth of the process per run, at its greatest.
        bare: The same of a bare loop on the SDK, with the transport of the bot.
        seconds: From the moment all waited for their first answer to the last announcement.
    """

    runs: int
    completed: int
    kilobytes: float
    bare: float
    seconds: float


async def rows(scale: Scale) -> list[Row]:
    """Return the figure."""
    found = await measure(scale.many, scale.latency_seconds)
    lost = found.runs - found.completed
    return [
        Row(
            f"{found.runs:,} concurrent runs in one process, "
            f"{scale.latency_seconds * 1000:.0f} ms model latency",
            f"none lost, ≤ {REACH_KB} KB of memory each",
            f"{lost or 'none'} lost, {found.kilobytes:.0f} KB each, all done after "
            f"{found.seconds:.1f} s; {found.bare:.0f} KB each in a bare loop that stores nothing",
            "langgraph 110 KB, nanobot 211 KB",
        )
    ]


async def measure(runs: int, latency_seconds: float) -> Found:
    """Let so many runs go on together, and look at the memory all the while."""
    people = runs // RUNS_PER_PERSON + 1
    async with open_server() as server, open_stage(server, people=people) as stage:
        await _do(stage, server, min(runs, WARM_UP))
        await server.latency(latency_seconds)
        gc.collect()
        async with _grown() as grown:
            seconds = await _do(stage, server, runs)
        return Found(
            runs=runs,
            completed=await _completed(stage) - min(runs, WARM_UP),
            kilobytes=grown[0] / runs / 1000,
            bare=await _bare(server, runs) / runs / 1000,
            seconds=seconds,
        )


async def _bare(server: Server, runs: int) -> int:
    """Return the bytes by which a bare loop grows that does as many runs."""
    with written(await server.newest()) as sent:
        async with open_process("bench.floor", server, sent, "--aiohttp") as bare:
            await bare(Load(WARM_UP, 1))
            async with _grown(bare.process.pid) as grown:
                await bare(Load(runs, 1))
            return grown[0]


async def _do(stage: Stage, server: Server, count: int) -> float:
    await stage.spawn_held(server, count)
    start = time.monotonic()
    await server.go()
    await stage.all_announced()
    return time.monotonic() - start


async def _completed(stage: Stage) -> int:
    """Count the runs that are what they should be, in the database and at the outlet."""
    answers = (
        select(steps.c.work_id)
        .where(steps.c.kind == "answer")
        .group_by(steps.c.work_id)
        .having(func.count() == CALLS)
    )
    ended = select(subagent_runs.c.id).where(subagent_runs.c.status == "completed")
    # Not joined in the database: the two columns spell an id differently on SQLite.
    async with stage.bot.database.snapshot() as tx:
        whole, good = set(await tx.scalars(answers)), set(await tx.scalars(ended))
    return len(whole & good & set(stage.outlet.announced))


@asynccontextmanager
async def _grown(pid: int | str = "self") -> AsyncIterator[list[int]]:
    """Give the bytes by which a process grew at most, up to date when the block ends."""
    before, greatest = _resident(pid), [0]

    async def look() -> None:
        while True:
            greatest[0] = max(greatest[0], _resident(pid) - before)
            await asyncio.sleep(LOOK_SECONDS)

    async with asyncio.TaskGroup() as group:
        looking = group.create_task(look())
        yield greatest
        looking.cancel()
    greatest[0] = max(greatest[0], _resident(pid) - before)


def _resident(pid: int | str) -> int:
    """Return the bytes of a process that are in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
