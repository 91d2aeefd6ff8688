"""CPU per model call of durable runs, beside the floor."""

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench import floor
from bench.server import CALLS
from bench.stage import Server, Stage, open_server, open_stage


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of CPU per model call.

    Attributes:
        spawning: The part of it until every run waits for its first answer.
    """

    whole: float
    spawning: float = 0.0


async def _ours(stage: Stage, server: Server, count: int) -> Cost:
    before = len(stage.outlet.announced)
    await server.hold()
    start = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(stage.spawn())
    await server.full(count)
    spawned = time.process_time()
    await server.go()
    await stage.outlet.until(announced=before + count)
    end = time.process_time()
    per_call = 1000 / (count * CALLS)
    return Cost((end - start) * per_call, (spawned - start) * per_call)


async def _one_by_one(work: Callable[[], Awaitable[Cost]], times: int) -> Cost:
    costs = [await work() for _ in range(times)]
    return Cost(
        statistics.mean(cost.whole for cost in costs),
        statistics.mean(cost.spawning for cost in costs),
    )


async def _floor(client: object, server: Server, count: int) -> Cost:
    start = time.process_time()
    await floor.run_many(client, server, count)  # type: ignore[arg-type]
    return Cost((time.process_time() - start) * 1000 / (count * CALLS))


async def measure(counts: dict[int, int], database_url: str = "") -> dict[int, dict[str, Cost]]:
    """Return the cost of each kind at each number of runs at once, the median of repetitions."""
    found: dict[int, dict[str, Cost]] = {}
    async with open_server() as server, open_stage(server, database_url, people=50) as stage:
        default = floor.open_client(server, aiohttp=False)
        fast = floor.open_client(server, aiohttp=True)
        kinds: dict[str, Callable[[int], Awaitable[Cost]]] = {
            "default": lambda count: _floor(default, server, count),
            "aiohttp": lambda count: _floor(fast, server, count),
            "ours": lambda count: _ours(stage, server, count),
        }
        for kind in kinds.values():
            await kind(20)
        for count, times in counts.items():
            costs: dict[str, list[Cost]] = {name: [] for name in kinds}
            for _ in range(times):
                for name, kind in kinds.items():
                    gc.collect()
                    costs[name].append(await kind(count))
            found[count] = {
                name: Cost(
                    statistics.median(cost.whole for cost in each),
                    statistics.median(cost.spawning for cost in each),
                )
                for name, each in costs.items()
            }
        await default.close()
        await fast.close()
    return found


if __name__ == "__main__":
    for count, costs in asyncio.run(measure({1: 15, 100: 5, 500: 3})).items():
        ours, fast, default = costs["ours"], costs["aiohttp"], costs["default"]
        print(
            f"{count:5} ours {ours.whole:.2f} (spawn {ours.spawning:.2f}) "
            f"floor aiohttp {fast.whole:.2f} default {default.whole:.2f} "
            f"ratio {ours.whole / fast.whole:.2f} / {ours.whole / default.whole:.2f}"
        )
