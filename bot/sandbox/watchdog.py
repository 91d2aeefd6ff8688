"""Ends a command that takes more than it may: what no limit of the kernel covers."""

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bot.sandbox.folders import NOTHING, Contents, contents_of
from bot.sandbox.settings import MEGABYTE, Room, ShellSettings
from bot.sandbox.sockets import socket_memory

EVERY_SECONDS = 0.05

#: Counting a workspace takes longer than a glance at its disk, so it is done when that has changed,
#: and now and then, since the disk is told late what was written.
COUNT_EVERY_SECONDS = 1.0
COUNT_AFTER_BYTES, COUNT_AFTER_FILES = 16 * MEGABYTE, 500

#: When the machine runs out of memory, small commands are not to blame.
INNOCENT_BYTES = 64 * MEGABYTE

#: Page tables among them: mapping much and touching little of it takes memory of the kernel alone.
_MEMORY = re.compile(rb"^(?:RssAnon|RssShmem|VmPTE):\s+(\d+) kB", re.MULTILINE)
_AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a command takes at one moment.

    Attributes:
        seconds: Since it began.
        output: Bytes that it has printed.
        memory: Bytes of all its processes and of the kernel for them (page tables, sockets).
        available: Bytes of memory that the machine has left.
        temporary: Files in its /tmp and /dev/shm.
        workspaces: What is in all workspaces of the person.
        disk_left: Bytes that their disk has left.
    """

    seconds: float = 0.0
    output: int = 0
    memory: int = 0
    available: int = 1 << 62
    temporary: int = 0
    workspaces: Contents = NOTHING
    disk_left: int = 1 << 62


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one command may take.

    Attributes:
        room: What one person's files may take.
        seconds: Its time.
        before: What they took before: a command that only removes may always run.
        disk_left: What the disk had left then.
    """

    settings: ShellSettings
    room: Room
    seconds: float
    before: Contents = NOTHING
    disk_left: int = 1 << 62

    @property
    def most_files(self) -> int:
        """Files and folders that the person may have now."""
        return max(self.room.count, self.before.count)

    @property
    def most_bytes(self) -> int:
        """Bytes that the person's files may take now."""
        return max(self.room.size, self.before.size)

    def passed(self, usage: Usage) -> str:
        """Return which limit was passed, as a sentence for the agent; empty for none."""
        return next((text for broken, text in self._rules(usage) if broken), "")

    def _rules(self, usage: Usage) -> Iterator[tuple[bool, str]]:
        mine = self.settings
        yield (
            usage.seconds > self.seconds,
            f"it took longer than {self.seconds:g} s. Do less at a time, or name more "
            f"timeout_seconds (at most {mine.max_seconds:g}).",
        )
        yield (
            usage.output > mine.output_mb * MEGABYTE,
            f"it printed more than {mine.output_mb} MB. Let it print less, or write to a file.",
        )
        yield (
            usage.memory > mine.memory_mb * MEGABYTE,
            f"its processes took more than {mine.memory_mb} MB of memory. Work on smaller pieces.",
        )
        yield (
            usage.available < mine.free_memory_mb * MEGABYTE and usage.memory > INNOCENT_BYTES,
            "this machine is short of memory. Try again later, or work on smaller pieces.",
        )
        yield (
            usage.temporary > mine.temporary_files,
            f"it made more than {mine.temporary_files:,} files in /tmp. Make fewer.",
        )
        yield (
            usage.workspaces.size > self.most_bytes,
            "this person's files, those of their runs included, take more than "
            f"{self.room.size // 1_000_000:,} MB. Remove what is not needed.",
        )
        yield (
            usage.workspaces.count > self.most_files,
            "this person, with their runs, has more than "
            f"{self.room.count:,} files and folders. Remove what is not needed.",
        )
        yield (
            usage.workspaces.too_deep and not self.before.too_deep,
            "it nested folders too deep. Keep them flatter.",
        )
        taken = self.disk_left - usage.disk_left
        yield (
            usage.disk_left < self.most_bytes < taken,
            "the disk of this machine is nearly full. Write less.",
        )


class Watchdog:
    """Looks at one command every 50 ms.

    Args:
        allowance: What it may take.
        folder: What is counted: all workspaces of its person.
        process: Its first process, as this machine numbers it.
        output: Tells how many bytes it has printed.
        executor: Does the looking, beside the event loop.
    """

    def __init__(
        self,
        allowance: Allowance,
        folder: Path,
        process: int,
        output: Callable[[], int],
        executor: Executor,
    ) -> None:
        self._allowance, self._folder, self._process = allowance, folder, process
        self._output, self._executor = output, executor
        self._root = Path(f"/proc/{process}/root")
        self._workspaces = allowance.before
        self._counted_at = 0.0
        self._counted_with = _room(folder)

    async def watch(self) -> str:
        """Return once a limit was passed, with which. Ends otherwise only by being cancelled."""
        loop = asyncio.get_running_loop()
        began = self._counted_at = loop.time()
        while True:
            seconds = loop.time() - began
            late = self._allowance.passed(Usage(seconds=seconds, output=self._output()))
            if late:
                return late
            usage = await loop.run_in_executor(self._executor, self._look, loop.time())
            if passed := self._allowance.passed(usage):
                return passed
            await asyncio.sleep(EVERY_SECONDS)

    def _look(self, now: float) -> Usage:
        processes = self._processes()
        room = _room(self._folder)
        if self._due(now, room):
            self._counted_at, self._counted_with = now, room
            found = contents_of(self._folder, self._allowance.most_files)
            hidden = _removed_but_open(self._folder, processes)
            self._workspaces = Contents(found.size + hidden, found.count, found.too_deep)
        temporary = (self._root / "tmp", self._root / "dev" / "shm") if processes else ()
        return Usage(
            memory=sum(_memory(process) for process in processes)
            + socket_memory(processes, Path(f"/proc/{self._process}/net")),
            available=available_memory(),
            temporary=sum(_files_in(folder) for folder in temporary),
            workspaces=self._workspaces,
            disk_left=room[0],
        )

    def _due(self, now: float, room: tuple[int, int]) -> bool:
        return (
            now - self._counted_at >= COUNT_EVERY_SECONDS
            or self._counted_with[0] - room[0] >= COUNT_AFTER_BYTES
            or self._counted_with[1] - room[1] >= COUNT_AFTER_FILES
        )

    def _processes(self) -> list[Path]:
        """Return all processes of the sandbox, each by its folder in the sandbox's own /proc."""
        inner = self._root / "proc"
        try:
            # Before bubblewrap has changed its root, this is the /proc of the whole machine.
            if inner.stat().st_dev == Path("/proc").stat().st_dev:
                return []
            return [inner / name for name in os.listdir(inner) if name.isdigit()]  # noqa: PTH208
        except (FileNotFoundError, ProcessLookupError):
            return []


def disk_left(folder: Path) -> int:
    """Return the bytes that the disk of a folder has left."""
    return _room(folder)[0]


def available_memory() -> int:
    """Return the bytes of memory that this machine has left."""
    found = _AVAILABLE.search(Path("/proc/meminfo").read_bytes())
    assert found is not None, "/proc/meminfo tells no MemAvailable"
    return int(found[1]) * 1024


def _room(folder: Path) -> tuple[int, int]:
    """Return the bytes and the files that still fit on the disk of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_ffree


def _files_in(folder: Path) -> int:
    with suppress(OSError):
        found = os.statvfs(folder)
        return found.f_files - found.f_ffree
    return 0


def _memory(process: Path) -> int:
    try:
        status = (process / "status").read_bytes()
    except OSError:
        return 0
    return sum(int(kilobytes) for kilobytes in _MEMORY.findall(status)) * 1024


def _removed_but_open(folder: Path, processes: list[Path]) -> int:
    """Return the bytes of files that are in no folder any more, but still take the disk."""
    disk = folder.stat().st_dev
    sizes: dict[int, int] = {}
    for process in processes:
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    found = descriptor.stat()
                    if found.st_dev == disk and found.st_nlink == 0:
                        sizes[found.st_ino] = found.st_blocks * 512
    return sum(sizes.values())
