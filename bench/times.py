"""Measures how long users wait for a spawn, an announcement, and the request to the model."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.stage import RUNS_PER_PERSON, Server, Stage, marks, open_server, open_stage
from bench.table import Row, Scale, spread
from bot.counted_events import TurnEnded
from bot.platforms.base import Incoming

#: What the model takes for an answer while other runs are going.
LATENCY_SECONDS = 1.0
WARM_UP = 10


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, each measured several times.

    Attributes:
        heard: Message in → model called, on an idle bot.
        ended: Last answer of the model → announcement handed over, on an idle bot.
        spawned: Spawn → accepted, one after another while others are going.
        ended_busy: As `ended`, of the runs that were going then.
        burst: Spawn → accepted, all at once.
    """

    heard: Sequence[float]
    ended: Sequence[float]
    spawned: Sequence[float]
    ended_busy: Sequence[float]
    burst: Sequence[float]


async def rows(scale: Scale) -> list[Row]:
    """Return the figures."""
    found = await measure(scale.going, scale.samples)
    going, count = scale.going, scale.samples
    return [
        Row(
            f"spawn → accepted, {count} one after another while {going} runs are going",
            "p50 ≤ 5 ms, p99 ≤ 50 ms",
            spread(found.spawned),
        ),
        Row(
            f"spawn → accepted, a burst of {count} at once",
            "report",
            f"{spread(found.burst)}, which is {max(found.burst) * 1000 / count:.1f} ms a spawn",
        ),
        Row(
            "end of a run (last answer sent by the server) → announcement handed to the platform",
            "p50 ≤ 100 ms",
            f"{spread(found.ended)}; while {going} are going "
            f"p50 {statistics.median(found.ended_busy) * 1000:.0f} ms",
        ),
        Row(
            "message in → model call out (received by the server), idle conversation",
            "p50 ≤ 10 ms, p99 ≤ 25 ms",
            spread(found.heard),
        ),
    ]


async def measure(going: int, samples: int) -> Times:
    """Measure all of it on one bot."""
    people = (2 * samples + going) // RUNS_PER_PERSON + 2
    async with open_server() as server, open_stage(server, people=people) as stage:
        await say(stage, WARM_UP)
        heard = await say(stage, samples)
        await _runs(stage, WARM_UP)
        ended = await _runs(stage, samples // 4 + 1)
        spawned, ended_busy = await _beside_others(stage, server, going, samples)
        burst = await _burst(stage, server, samples)
        return Times(heard, ended, spawned, ended_busy, burst)


async def say(stage: Stage, count: int, person: int = 0) -> list[float]:
    """Let a person say one thing after another, each once the last was answered."""
    found = []
    speaker, over = stage.callers[person], asyncio.Event()
    for number in range(count):
        before = len(stage.outlet.replies)
        incoming = Incoming(
            event_id=f"{before} {number}",
            user=speaker.user,
            user_name="person",
            place=speaker.place,
            text="How are you?",
        )
        over.clear()
        # A turn ends after its reply; until then its conversation is not idle.
        with stage.bot.events.listening(TurnEnded, lambda _: over.set()):
            start = time.monotonic()
            await stage.bot.orchestrator.receive(incoming)
            await stage.outlet.until(replies=before + 1)
            found.append(marks(stage.outlet.replies[-1]).received - start)
            await over.wait()
    return found


async def _runs(stage: Stage, count: int) -> list[float]:
    """Do one run after another."""
    ids = []
    for _ in range(count):
        ids.append(await stage.spawn())
        await stage.all_announced()
    return _ends(stage, ids)


def _ends(stage: Stage, ids: Sequence[str]) -> list[float]:
    announced = (stage.outlet.announced[run_id] for run_id in ids)
    return [moment - marks(text).sent for moment, text in announced]


async def _beside_others(
    stage: Stage, server: Server, going: int, samples: int
) -> tuple[list[float], list[float]]:
    """Spawn one run after another while others are going, spread over time as they would be."""
    await server.latency(LATENCY_SECONDS)
    ids = []
    for _ in range(going):
        ids.append(await stage.spawn())
        await asyncio.sleep(LATENCY_SECONDS / going)
    spawned = [await _timed_spawn(stage) for _ in range(samples)]
    await stage.all_announced()
    await server.latency(0)
    return spawned, _ends(stage, ids)


async def _timed_spawn(stage: Stage) -> float:
    start = time.monotonic()
    await stage.spawn()
    return time.monotonic() - start


async def _burst(stage: Stage, server: Server, count: int) -> list[float]:
    """Spawn many at once; none gets an answer before all are there."""
    await server.hold()
    async with asyncio.TaskGroup() as group:
        spawning = [group.create_task(_timed_spawn(stage)) for _ in range(count)]
    await server.full(count)
    await server.go()
    await stage.all_announced()
    return [task.result() for task in spawning]
