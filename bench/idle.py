"""Measures the CPU of a process with nothing to do: heartbeats and sweeps."""

import asyncio
import time

from bench import postgres
from bench.stage import open_server, open_stage
from bench.table import Row, Scale


async def rows(scale: Scale) -> list[Row]:
    """Return the figures, without the time in which the bot settles."""
    found = [_row("SQLite", "≤ 0.5 %", await measure(scale, ""))]
    if not scale.postgres:
        return found
    async with postgres.opened() as url:
        if url is None:
            return [*found, Row("the same on PostgreSQL", "", postgres.MISSING)]
        return [*found, _row("PostgreSQL", "≤ 1 %", await measure(scale, url))]


def _row(database: str, reach: str, share: float) -> Row:
    return Row(f"CPU of an idle process, {database}", reach, f"{share:.2%} of a core")


async def measure(scale: Scale, database_url: str) -> float:
    """Return the share of a core that an idle bot takes."""
    async with open_server() as server, open_stage(server, database_url):
        await asyncio.sleep(scale.settling)
        begun, used = time.monotonic(), time.process_time()
        await asyncio.sleep(scale.idle)
        return (time.process_time() - used) / (time.monotonic() - begun)
