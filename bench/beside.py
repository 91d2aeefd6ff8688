"""Starts processes that do the same runs as ours, and lets them do one batch at a time."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.stage import ROOT, Server
from bot.values import Json


@dataclass(frozen=True, slots=True)
class Load:
    """A number of runs, and the way in which they are started.

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


#: Does one batch, and returns the milliseconds of CPU for each model call.
Batch = Callable[[Load], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class BatchProcess:
    """A process that does batches of runs.

    Attributes:
        module: Its program.
        process: The process.
        server: The server that it asks.
    """

    module: str
    process: asyncio.subprocess.Process
    server: Server

    async def __call__(self, load: Load) -> float:
        """Do one batch, and return the milliseconds of CPU for each model call."""
        taken, given, server = self.process.stdin, self.process.stdout, self.server
        assert taken is not None
        assert given is not None
        if not load.seconds:
            await server.hold()
        taken.write(f"{load.count} {load.seconds}\n".encode())
        reading = asyncio.ensure_future(given.readline())
        if not load.seconds:
            full = asyncio.ensure_future(server.full(load.count))
            # A process that ends early makes none of its calls.
            await asyncio.wait({reading, full}, return_when=asyncio.FIRST_COMPLETED)
            full.cancel()
            await server.go()
        if not (line := await reading):
            raise RuntimeError(f"{self.module} ended early; its reason stands above.")
        return float(line)


@contextmanager
def written(sent: Json) -> Iterator[Path]:
    """Write the request that all kinds send to a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sent.json"
        file.write_text(json.dumps(sent), "utf-8")
        yield file


@asynccontextmanager
async def open_process(
    module: str, server: Server, sent: Path, *options: str, python: str = sys.executable
) -> AsyncIterator[BatchProcess]:
    """Start a program of `bench.batches`.

    Args:
        module: The program.
        server: The server that it asks.
        sent: A file with the body of a request of the bot.
        options: Further arguments.
        python: The interpreter.
    """
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", module, server.url, str(sent), *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield BatchProcess(module, process, server)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
