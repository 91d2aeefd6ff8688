"""Describes the state of a bot for operators: queue, processes, providers, disk and database."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from shutil import disk_usage

from bot.disk import spoken
from bot.loop_watch import longest_block
from bot.run_texts import counted
from bot.subagents.limits import spoken as duration
from bot.values import WAITING, Clock, RunStatus
from bot.versions import release
from db import health, pauses
from db.database import Database

LATELY = timedelta(hours=24)
#: Processes with a heartbeat within this time are shown.
ALIVE_WITHIN = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Describes the state of a bot.

    Attributes:
        schema: The version of the tables that this bot knows.
        shown: The database as it may be shown.
        folders: Folders on the disks that matter; they need not exist.
        providers: Returns a line about each provider of language models.
    """

    database: Database
    schema: str
    shown: str
    folders: Sequence[Path]
    providers: Callable[[], Sequence[str]]
    now: Clock

    async def text(self) -> str:
        """Return the state, Markdown."""
        now, began = self.now(), time.monotonic()
        async with self.database.snapshot() as tx:
            found = await health.counts(tx, now - LATELY)
            processes = await health.processes(tx, ALIVE_WITHIN)
            server = await health.server_version(tx)
            paused = await pauses.listed(tx)
        took = (time.monotonic() - began) * 1_000
        runs = found.runs
        at_work = runs.get(RunStatus.RUNNING, 0) + runs.get(RunStatus.ACCEPTED, 0)
        waiting = sum(runs.get(status, 0) for status in WAITING)
        ended = {
            name: runs.get(status, 0)
            for name, status in (
                ("stalled", RunStatus.STALLED),
                ("lost", RunStatus.LOST),
                ("failed", RunStatus.FAILED),
            )
        }
        lines = [
            "**Health**",
            f"- Queue: {counted(found.queued_turns, 'message')} and "
            f"{counted(runs.get(RunStatus.QUEUED, 0), 'run')} wait",
            f"- At work: {counted(found.running_turns, 'answer')} and {counted(at_work, 'run')}"
            + (f"; {waiting} more wait for their users" if waiting else ""),
            "- Last 24 hours: " + ", ".join(f"{number} {name}" for name, number in ended.items()),
            f"- Deliveries: {found.pending} under way, {found.blocked} blocked",
            f"- Pauses: {len(paused)}",
            *(f"- Provider {line}" for line in self.providers()),
        ]
        for each in processes:
            running = duration(max(0.0, (now - each.started_at).total_seconds()))
            about = [*each.platforms, f"for {running}"]
            about += [each.version] if each.version else []
            about += [f"configuration {each.configuration[:8]}"] if each.configuration else []
            about += ["ending"] if each.leaving else []
            lines.append(f"- Process `{each.id}`: {', '.join(about)}")
        if not processes:
            lines.append("- Process: none is running")
        if (block := longest_block()) is not None:
            lines.append(f"- Event loop: blocked for at most `{block}` in the last minutes")
        lines.append(f"- Version: {release(self.schema)}")
        lines += [f"- Disk {line}" for line in disk_lines(self.folders)]
        lines.append(f"- Database: {server}, {self.shown}, answered in {took:.0f} ms")
        return "\n".join(lines)


def disk_lines(folders: Sequence[Path]) -> list[str]:
    """Return a line about each disk, by its first folder."""
    lines: dict[int, str] = {}
    for folder in folders:
        path = folder.absolute()
        there = next(each for each in (path, *path.parents) if each.exists())
        found = disk_usage(there)
        line = f"{there}: {spoken(found.free)} of {spoken(found.total)} free"
        lines.setdefault(there.stat().st_dev, line)
    return list(lines.values())
