"""Measures how soon others continue the work of a process that is killed while all are busy."""

import argparse
import asyncio
import os
import statistics
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

import aiohttp
from sqlalchemy import select

from bench import postgres
from bench.stage import ROOT, Server, open_server, open_stage
from bench.table import Row, Scale, percentile
from bench.work import PATIENCE_SECONDS
from db.database import Database
from db.settings import DatabaseSettings
from db.tables import subagent_runs

PROCESSES = 3
#: What one of the six answers of a run takes, and the pause between two runs that a process starts:
#: about 30 of its runs are going at a time.
LATENCY_SECONDS, PAUSE_SECONDS = 2.0, 0.4
#: Time until all are busy.
SETTLING_SECONDS = 15.0
LOOK_SECONDS = 0.05
REACH_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Busy:
    """A process that starts runs all the time."""

    process: asyncio.subprocess.Process
    worker_id: str

    @classmethod
    async def started(cls, server: Server, database_url: str, number: int) -> Self:
        """Start a process and wait until it is ready."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.takeover", server.url, database_url, str(number)),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        if not (line := await process.stdout.readline()):
            raise RuntimeError("A process of the measurement ended early; its reason stands above.")
        return cls(process, line.decode().strip())

    async def kill(self) -> None:
        """End it without a chance to do anything."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


async def rows(scale: Scale) -> list[Row]:
    """Return the figure."""
    if not scale.postgres:
        return []
    async with open_server() as server, postgres.opened() as url:
        if url is None:
            return [Row("take-over of a dead process", "", postgres.MISSING)]
        await server.latency(LATENCY_SECONDS)
        before = os.getloadavg()[0]
        found = await measure(server, url, scale.kills, settling=SETTLING_SECONDS)
    return [
        Row(
            f"kill → each of its runs is another's, {PROCESSES} busy processes on PostgreSQL, "
            f"{scale.kills} kills",
            f"p99 ≤ {REACH_SECONDS} s",
            f"p50 {statistics.median(found):.1f} s, p99 {percentile(found, 99):.1f} s of "
            f"{len(found)} runs; load {before:.1f} to {os.getloadavg()[0]:.1f}",
        )
    ]


async def measure(server: Server, database_url: str, kills: int, *, settling: float) -> list[float]:
    """Return the seconds for each run that a killed process was at work on."""
    found: list[float] = []
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            Database.open(DatabaseSettings(url=database_url))
        )

        async def start(number: int) -> Busy:
            busy = await Busy.started(server, database_url, number)
            stack.push_async_callback(busy.kill)
            return busy

        # The first makes the tables.
        alive = [await start(number) for number in range(PROCESSES)]
        for kill in range(kills):
            await asyncio.sleep(settling)
            victim = alive.pop(0)
            await victim.kill()
            found += await _taken_over(database, victim.worker_id)
            alive.append(await start(PROCESSES + kill))
    return found


async def _taken_over(database: Database, dead: str) -> list[float]:
    """Wait until every run of a process that is dead now has another, and return the seconds."""
    start = time.monotonic()
    rows = subagent_runs.c
    query = select(rows.id, rows.worker_id)
    mine = query.where(rows.worker_id == dead, rows.status == "running")
    async with database.snapshot() as tx:
        left = {row.id for row in await tx.execute(mine)}
    found: list[float] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while left:
            await asyncio.sleep(LOOK_SECONDS)
            async with database.snapshot() as tx:
                now = list(await tx.execute(query.where(rows.id.in_(left))))
            others = {row.id for row in now if row.worker_id not in (dead, None)}
            left -= others
            found += [time.monotonic() - start] * len(others)
    return found


async def work(server_url: str, database_url: str, number: int) -> None:
    """Be one of the processes: start runs until killed."""
    async with (
        aiohttp.ClientSession() as session,
        open_stage(Server(server_url, session), database_url, people=50, first=number) as stage,
    ):
        print(stage.bot.upkeep.worker_id, flush=True)
        while True:
            await stage.spawn()
            await asyncio.sleep(PAUSE_SECONDS)


def main() -> None:
    """Work as one of the processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("database")
    parser.add_argument("number", type=int)
    given = parser.parse_args()
    asyncio.run(work(given.server, given.database, given.number))


if __name__ == "__main__":
    main()
