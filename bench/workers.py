"""Compares one process with several: runs a minute, on SQLite and on PostgreSQL."""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
from sqlalchemy import func, select

from bench import postgres
from bench.stage import (
    ROOT,
    RUNS_PER_PERSON,
    Server,
    Stage,
    open_server,
    open_stage,
)
from bench.table import Row, Scale
from bench.work import PATIENCE_SECONDS
from db.tables import outbox

WARM_UP = 20
#: Time that the model takes for an answer.
LATENCY_SECONDS = 0.2
PROCESSES = (1, 2, 3)
#: Spawns that wait for their admission at a time, in each process.
AT_ONCE = 10
LOOK_SECONDS = 0.05


async def rows(scale: Scale) -> list[Row]:
    """Return the figures."""
    found: list[Row] = []
    async with open_server() as server:
        await server.latency(LATENCY_SECONDS)
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'retinue.db'}"
            found.append(_row("SQLite", 1, await measure(server, url, 1, scale.shared)))
        if not scale.postgres:
            return found
        for count in PROCESSES:
            async with postgres.opened() as address:
                if address is None:
                    return [*found, Row("runs a minute on PostgreSQL", "", postgres.MISSING)]
                seconds = await measure(server, address, count, scale.shared)
            found.append(_row("PostgreSQL", count, seconds))
    return found


def _row(database: str, processes: int, each: float) -> Row:
    word = "process" if processes == 1 else "processes"
    return Row(
        f"runs a minute, {processes} {word} on {database}, {os.cpu_count()} cores for all, "
        f"{LATENCY_SECONDS * 1000:.0f} ms model latency",
        "report",
        f"{60 / each:,.0f}",
    )


async def measure(server: Server, database_url: str, processes: int, runs: int) -> float:
    """Let processes share so many runs, started at once; return the seconds for each run."""
    async with AsyncExitStack() as stack:
        started = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bench.workers", server.url, database_url),
                *(str(number), str(processes), str(runs // processes)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            for number in range(processes)
        ]
        for each in started:
            stack.push_async_callback(each.wait)
            assert each.stdin is not None
            stack.callback(each.stdin.close)
        for each in started:
            await _line(each)
        begun = time.monotonic()
        for each in started:
            assert each.stdin is not None
            each.stdin.write(b"go\n")
        for each in started:
            await _line(each)
        return (time.monotonic() - begun) / (runs // processes * processes)


async def _line(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    if not await process.stdout.readline():
        raise RuntimeError("A process of the measurement ended early; its reason stands above.")


async def work(server_url: str, database_url: str, number: int, processes: int, runs: int) -> None:
    """Be one of the processes: open a bot, and do so many runs once a line has come."""
    people = (WARM_UP + runs) // RUNS_PER_PERSON + 2
    async with (
        aiohttp.ClientSession() as session,
        open_stage(Server(server_url, session), database_url, people=people, first=number) as stage,
    ):
        await _do(stage, WARM_UP, until=WARM_UP * processes)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await _do(stage, runs, until=(WARM_UP + runs) * processes)
        print("done", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def _do(stage: Stage, runs: int, *, until: int) -> None:
    """Start runs, and wait until so many of all processes are announced, by whichever of them."""
    room = asyncio.Semaphore(AT_ONCE)

    async def spawn() -> None:
        async with room:
            await stage.spawn()

    async with asyncio.TaskGroup() as group:
        for _ in range(runs):
            group.create_task(spawn())
    delivered = select(func.count()).select_from(outbox).where(outbox.c.status == "delivered")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            async with stage.bot.database.snapshot() as tx:
                if (await tx.scalar(delivered) or 0) >= until:
                    return
            await asyncio.sleep(LOOK_SECONDS)


def main() -> None:
    """Work as one of the processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("database")
    parser.add_argument("number", type=int)
    parser.add_argument("processes", type=int)
    parser.add_argument("runs", type=int)
    given = parser.parse_args()
    asyncio.run(work(given.server, given.database, given.number, given.processes, given.runs))


if __name__ == "__main__":
    main()
