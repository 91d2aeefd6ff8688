"""`make soak MINUTES=60`: the bot under load and faults for a long time; is anything lost or stuck?

Two bots work on fake Discords at the same time: one process on SQLite, on a small disk of its own,
and a `serve` with a `worker` on PostgreSQL. Users send messages and wait for what they asked for.
Processes are killed, the disk is filled, the model provider refuses, and PostgreSQL is restarted.
The time is divided into chapters. After each the bots come to rest, everything is counted, and the
counts are stored: a soak that was interrupted continues with the next chapter.
"""

import argparse
import asyncio
import json
import random
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from sqlalchemy import text

from bot.values import UNFINISHED, Json
from db.database import Database
from db.settings import DatabaseSettings
from tests.fakes.anthropic_server import KEY, FakeAnthropic
from tests.fakes.discord.server import FakeDiscord
from tests.soak.bots import Bot, Outage, Postgres, full, new_bot, postgres, small_disk
from tests.soak.script import Script
from tests.soak.talk import Talk, Tally
from tests.stories.on_discord import MESSAGE_CONTENT

CHAPTER_SECONDS = 300.0
#: Whole numbers of messages in each chapter, and at least 1,000 in an hour.
MESSAGES_PER_HOUR = 1008
USERS = 12
SAMPLE_SECONDS = 5.0
#: No fault begins so shortly before the end of a chapter.
QUIET_SECONDS = 45.0
IDLE_SECONDS = 180.0
#: A process that has just started has not loaded everything yet.
WARM_SECONDS = 30.0
MOST_EXIT_SECONDS = 8.0
MOST_GROWTH = 1.05
#: In a shorter soak the second quarter belongs to the start, after which memory still grows.
JUDGED_MINUTES = 30.0

_STUCK = {
    "runs": "SELECT count(*) FROM subagent_runs WHERE status IN ({unfinished})",
    "turns": "SELECT count(*) FROM turns WHERE status IN ('queued', 'running')",
    "deliveries": "SELECT count(*) FROM outbox WHERE status IN ('held', 'pending', 'sending')",
}


@dataclass
class Progress:
    """The counts so far, stored after each chapter.

    Attributes:
        exits: Seconds from each SIGTERM to the end of the process.
        memory: Per process: the elapsed part of the whole (0 to 1), and resident memory in KB.
    """

    minutes: float
    seed: int
    done_seconds: float = 0.0
    messages: int = 0
    tallies: dict[str, list[Json]] = field(default_factory=dict)
    stuck: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    not_done: list[str] = field(default_factory=list)
    ended_by_itself: list[str] = field(default_factory=list)
    exits: list[float] = field(default_factory=list)
    memory: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, minutes: float, seed: int) -> "Progress":
        """Return what an interrupted soak of the same length has stored, or a new one."""
        if path.exists():
            stored = cls(**json.loads(path.read_text()))
            if stored.minutes == minutes and stored.done_seconds < minutes * 60:
                return stored
        return cls(minutes, seed)

    def store(self, path: Path) -> None:
        """Write the counts to a file."""
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(self)))
        temporary.replace(path)


@dataclass
class Side:
    """One bot: its users, its processes and its database."""

    talk: Talk
    bots: list[Bot]
    database_url: str

    @property
    def name(self) -> str:
        """Which of the two it is."""
        return self.talk.name

    async def unfinished(self) -> dict[str, int]:
        """Return how much is still under way, by kind."""
        states = ", ".join(f"'{status}'" for status in UNFINISHED)
        settings = DatabaseSettings(url=self.database_url)
        async with Database.open(settings) as database, database.snapshot() as tx:
            counts = {
                kind: await tx.scalar(text(statement.format(unfinished=states))) or 0
                for kind, statement in _STUCK.items()
            }
        return {kind: count for kind, count in counts.items() if count}


@dataclass
class Soak:
    """Everything that runs, and what goes wrong with it."""

    progress: Progress
    path: Path
    sides: list[Side]
    script: Script
    disk: Path | None
    server: Postgres
    outages: dict[str, Outage]
    random: random.Random
    without: list[str]

    async def run(self) -> None:
        """Work through the chapters that are left."""
        total = self.progress.minutes * 60
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(bot.run()) for side in self.sides for bot in side.bots]
            sampling = group.create_task(self._sample(total))
            for side in self.sides:
                await side.talk.discord.ready(seconds=120)
                await side.talk.greet()
            while self.progress.done_seconds < total:
                seconds = min(CHAPTER_SECONDS, total - self.progress.done_seconds)
                await self._chapter(seconds)
                self.progress.done_seconds += seconds
                self._note_ends()
                self.progress.store(self.path)
                say(self._line())
            for task in (sampling, *running):
                task.cancel()
        self._note_ends()

    async def _chapter(self, seconds: float) -> None:
        messages = round(MESSAGES_PER_HOUR * seconds / 3600)
        async with asyncio.TaskGroup() as group:
            for kind, fault in self._plan(seconds):
                delay = self.random.uniform(5, max(6, seconds - QUIET_SECONDS))
                group.create_task(self._later(delay, kind, fault))
            for number in range(messages):
                side = self.sides[number % len(self.sides)]
                self.progress.messages += 1
                token = f"m{self.progress.messages:05}"
                delay = seconds * number / messages
                group.create_task(self._later(delay, "", partial(side.talk.send, token)))
        for side in self.sides:
            await self._wait_idle(side)
            tallies = self.progress.tallies.setdefault(side.name, [])
            tallies.append(asdict(side.talk.close()))

    def _plan(self, seconds: float) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """Return the faults of a chapter: all kinds in each, some more than once in a long one."""
        alone, shared = self.sides
        kills = max(1, round(seconds / 150))
        plan: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            *[("kills of serve on SQLite", lambda: self._send(alone.bots[0].kill))] * kills,
            *[("kills of the worker on PostgreSQL", lambda: self._send(shared.bots[1].kill))]
            * kills,
            ("times the provider refused", self._refuse),
            ("restarts of PostgreSQL", self._restart),
            ("ends of serve on PostgreSQL", lambda: self._send(shared.bots[0].end)),
        ]
        if self.disk is not None:
            plan.append(("full disks", self._fill))
        return [each for each in plan if not any(word in each[0] for word in self.without)]

    async def _later(self, delay: float, kind: str, work: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(delay)
        if kind:
            self.progress.faults[kind] = self.progress.faults.get(kind, 0) + 1
        await work()

    async def _send(self, send: Callable[[], None]) -> None:
        send()

    async def _refuse(self) -> None:
        self.script.down = True
        await asyncio.sleep(self.random.uniform(15, 60))
        self.script.down = False

    async def _restart(self) -> None:
        async with self.outages["PostgreSQL"].lasting():
            await self.server.restart()

    async def _fill(self) -> None:
        assert self.disk is not None
        async with self.outages["SQLite"].lasting():
            with full(self.disk):
                await asyncio.sleep(20)

    async def _wait_idle(self, side: Side) -> None:
        """Wait until nothing is under way; what is then still there is stuck."""
        deadline = time.monotonic() + IDLE_SECONDS
        while left := await side.unfinished():
            if time.monotonic() > deadline:
                self.progress.stuck.append(f"{side.name}: {left}")
                return
            await asyncio.sleep(2)

    async def _sample(self, total: float) -> None:
        began, before = time.monotonic(), self.progress.done_seconds
        started: dict[tuple[str, int], float] = {}
        while True:
            now = time.monotonic()
            part = min(1.0, (before + now - began) / total)
            for bot in (bot for side in self.sides for bot in side.bots):
                since = started.setdefault((bot.name, bot.starts), now)
                if bot.memory_kb and now - since > WARM_SECONDS:
                    self.progress.memory.setdefault(bot.name, []).append((part, bot.memory_kb))
            await asyncio.sleep(SAMPLE_SECONDS)

    def _note_ends(self) -> None:
        for side in self.sides:
            for bot in side.bots:
                self.progress.ended_by_itself += [f"{bot.name}: {c}" for c in bot.ended_by_itself]
                bot.ended_by_itself.clear()
                self.progress.exits += bot.exits
                bot.exits.clear()

    def _line(self) -> str:
        sums = {side.name: summed(self.progress.tallies[side.name]) for side in self.sides}
        told = "; ".join(
            f"{name} {each.answered} of {each.sent} answered, {each.refused} refused, "
            f"{len(each.lost)} lost, {len(each.repeated)} repeated"
            for name, each in sums.items()
        )
        return f"{self.progress.done_seconds / 60:5.1f} min: {told}"


def summed(tallies: list[Json]) -> Tally:
    """Return the sum of the tallies of all chapters."""
    total = Tally()
    for each in (Tally(**tally) for tally in tallies):
        total.sent += each.sent
        total.answered += each.answered
        total.refused += each.refused
        total.marked += each.marked
        total.lost += each.lost
        total.repeated += each.repeated
    return total


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def report(progress: Progress) -> bool:
    """Print what was found, and return whether all is well."""
    problems = [f"stuck at the end of a chapter: {each}" for each in progress.stuck]
    problems += [f"ended by itself, with exit code {each}" for each in progress.ended_by_itself]
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(progress.faults.items()))
    say(f"\n{progress.messages} messages in {progress.minutes:g} minutes; faults: {faults}")
    for each in progress.not_done:
        say(f"not done here: {each}")
    for name, tallies in progress.tallies.items():
        total = summed(tallies)
        say(
            f"{name}: {total.sent} sent, {total.answered} answered, {total.refused} refused in an "
            f"outage, {len(total.lost)} lost, {len(total.repeated)} repeated unmarked, "
            f"{total.marked} marked as possible repetitions"
        )
        problems += [f"{name}: lost: {each}" for each in total.lost]
        problems += [f"{name}: repeated: {each}" for each in total.repeated]
    if progress.exits:
        longest, times = max(progress.exits), len(progress.exits)
        say(f"ended at most {longest:.1f} s after SIGTERM ({times} times)")
        if progress.minutes >= JUDGED_MINUTES and longest > MOST_EXIT_SECONDS:
            problems.append(f"a process ended only {longest:.1f} s after SIGTERM")
    for name, samples in progress.memory.items():
        second = [kb for part, kb in samples if 0.25 <= part < 0.5]
        last = [kb for part, kb in samples if part >= 0.75]
        if not second or not last:
            say(f"{name}: too few samples of its memory")
            continue
        before, after = statistics.median(second), statistics.median(last)
        say(
            f"{name}: median memory {before / 1024:.1f} MB in the second quarter, "
            f"{after / 1024:.1f} MB in the last: × {after / before:.3f}"
        )
        if progress.minutes >= JUDGED_MINUTES and after > before * MOST_GROWTH:
            problems.append(f"{name}: memory grew by more than a factor of {MOST_GROWTH}")
    for each in problems:
        say(f"✗ {each}")
    say("Nothing lost, nothing stuck." if not problems else f"{len(problems)} problems.")
    return not problems


async def soak(folder: Path, minutes: float, seed: int, without: list[str]) -> bool:
    """Run what is left of a soak, and return whether all is well."""
    task = asyncio.current_task()
    assert task is not None
    for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Its processes and its disk are put away too.
        asyncio.get_running_loop().add_signal_handler(ending, task.cancel)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    path = folder / "progress.json"
    progress = Progress.load(path, minutes, seed)
    script = Script()
    outages = {"SQLite": Outage(), "PostgreSQL": Outage()}
    chance = random.Random(progress.seed + int(progress.done_seconds))
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        model = await enter(FakeAnthropic(script, record=False))
        server = await enter(postgres(folder / "postgres"))
        disk = folder / "sqlite"
        has_disk = stack.enter_context(small_disk(disk))
        progress.not_done = []
        if not has_disk:
            progress.not_done += ["a full disk: no disk of its own can be mounted by this account"]
        progress.not_done += [f"{word}, as was asked for" for word in without]
        sides = []
        for name, commands, url in (
            ("SQLite", ("serve",), f"sqlite:///{disk / 'retinue.db'}"),
            ("PostgreSQL", ("serve", "worker"), server.url),
        ):
            discord = await enter(FakeDiscord.open())
            discord.application_flags = MESSAGE_CONTENT
            talk = Talk(name, discord, USERS, chance, outages[name].last)
            bots = [
                new_bot(
                    f"{command} on {name}",
                    command,
                    disk if name == "SQLite" else folder / name.lower() / command,
                    folder / f"{name}-{command}.log",
                    discord,
                    model.url,
                    url,
                    KEY,
                )
                for command in commands
            ]
            sides.append(Side(talk, bots, url))
        own = disk if has_disk else None
        it = Soak(progress, path, sides, script, own, server, outages, chance, without)
        await it.run()
    return report(progress)


def main() -> int:
    """Read the options, run the soak, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("data/soak"))
    parser.add_argument("--without", action="append", default=[], help="a fault's word: provider")
    parser.add_argument("--fresh", action="store_true", help="continue no interrupted soak")
    given = parser.parse_args()
    # The bots run in folders of their own.
    given.folder = given.folder.resolve()
    if given.fresh:
        shutil.rmtree(given.folder, ignore_errors=True)
    try:
        well = asyncio.run(soak(given.folder, given.minutes, given.seed, given.without))
    except asyncio.CancelledError:
        say("Interrupted: the same command goes on with the chapter that was not finished.")
        return 130
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
