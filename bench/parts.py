"""The parts of the measurement, each for a process of its own."""

import asyncio
from collections.abc import Awaitable, Callable

from bench import cpu, idle, memory, size, start, statements, takeover, times, upkeep, workers
from bench.table import Row, Scale

#: Each part is measured in a process of its own, so that none leaves its memory to the next.
PARTS: dict[str, Callable[[Scale], Awaitable[list[Row]]]] = {
    "cpu": cpu.rows,
    "memory": memory.rows,
    "times": times.rows,
    "start": start.rows,
    "upkeep": upkeep.rows,
    "statements": statements.rows,
    "size": size.rows,
    "idle": idle.rows,
    "workers": workers.rows,
    "takeover": takeover.rows,
}


def measure(part: str, scale: Scale) -> list[Row]:
    """Return the rows of one part, measured in this process."""

    async def rows() -> list[Row]:
        return await PARTS[part](scale)

    return asyncio.run(rows())
