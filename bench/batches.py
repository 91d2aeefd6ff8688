"""A process that does the work as the bare loop or a peer does: `serve` answers each batch.

It runs in environments that have nothing of ours: only the standard library here.
"""

import argparse
import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.server import CALLS
from bench.work import task

#: Does one run and returns its last text.
Run = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Given:
    """The prompt and the tools that every kind sends, as a request of the bot has them.

    Attributes:
        url: The address of the fake server.
        system: The system prompt.
        sent: The whole request, in Anthropic's form.
        aiohttp: Whether to use the transport on aiohttp, where there is a choice.
    """

    url: str
    system: str
    sent: dict[str, Any]
    aiohttp: bool = False

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools."""
        return list(self.sent["tools"])


def serve(opened: Callable[[Given], Run]) -> None:
    """Do a batch of runs for each line of standard input, and print its CPU for each model call.

    A line is the number of runs, and the seconds over which their starts are spread.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("sent", type=Path)
    parser.add_argument("--aiohttp", action="store_true")
    arguments = parser.parse_args()
    sent = json.loads(arguments.sent.read_text("utf-8"))
    system = "\n\n".join(each["text"] for each in sent["system"])
    asyncio.run(_batches(opened(Given(arguments.url, system, sent, arguments.aiohttp))))


async def _batches(run: Run) -> None:
    async def started(number: int, after: float) -> str:
        if after:
            await asyncio.sleep(after)
        return await run(task(number))

    while line := await asyncio.to_thread(sys.stdin.readline):
        count, seconds = int(line.split()[0]), float(line.split()[1])
        gc.collect()
        start = time.process_time()
        async with asyncio.TaskGroup() as group:
            runs = [
                group.create_task(started(number, number * seconds / count))
                for number in range(count)
            ]
        used = time.process_time() - start
        for each in runs:
            if "sent=" not in each.result():
                raise RuntimeError(f"A run ended otherwise: {each.result()[:300]}")
        print(used * 1000 / (count * CALLS), flush=True)
    # At once, without the warnings of libraries about open connections.
    os._exit(0)
