"""Ends a command that exceeds a limit which the kernel does not enforce."""

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skills.shell.layer import Layer
from skills.shell.settings import MEGABYTE, ShellSettings
from skills.shell.sockets import socket_memory

EVERY_SECONDS = 0.05

#: When the machine is short of memory, commands below this size are not ended.
INNOCENT_BYTES = 64 * MEGABYTE

#: Includes page tables: mapping much memory and touching little of it takes kernel memory alone.
_MEMORY = re.compile(rb"^(?:RssAnon|RssShmem|VmPTE):\s+(\d+) kB", re.MULTILINE)
_AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resources that a command takes at one moment.

    Attributes:
        seconds: Time since it began.
        output: Bytes that it has printed.
        memory: Bytes of all its processes, of the kernel for them (page tables, sockets), and of
            the files that it wrote, which are in memory until it ends.
        available: Bytes of memory that the machine has left.
        temporary: Files in its /tmp and /dev/shm.
    """

    seconds: float = 0.0
    output: int = 0
    memory: int = 0
    available: int = 1 << 62
    temporary: int = 0


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of one command.

    Attributes:
        seconds: Its timeout.
    """

    settings: ShellSettings
    seconds: float

    def passed(self, usage: Usage) -> str:
        """Return the limit that was exceeded, as a sentence for the agent; empty for none."""
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
            f"it took more than {mine.memory_mb} MB of memory, the files that it wrote included. "
            "Work on smaller pieces.",
        )
        yield (
            usage.available < mine.free_memory_mb * MEGABYTE and usage.memory > INNOCENT_BYTES,
            "this machine is short of memory. Try again later, or work on smaller pieces.",
        )
        yield (
            usage.temporary > mine.temporary_files,
            f"it made more than {mine.temporary_files:,} files in /tmp. Make fewer.",
        )


class Watchdog:
    """Checks the resources of one command every 50 ms.

    Args:
        allowance: The command's limits.
        layer: The layer of its writes.
        process: Its first process, as this machine numbers it.
        output: Returns the number of bytes that it has printed.
        executor: Runs the blocking checks.
    """

    def __init__(
        self,
        allowance: Allowance,
        layer: Layer,
        process: int,
        output: Callable[[], int],
        executor: Executor,
    ) -> None:
        self._allowance, self._layer, self._process = allowance, layer, process
        self._output, self._executor = output, executor
        self._root = Path(f"/proc/{process}/root")

    async def watch(self) -> str:
        """Wait until a limit is exceeded, and return its sentence; else run until cancelled."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            seconds = loop.time() - began
            late = self._allowance.passed(Usage(seconds=seconds, output=self._output()))
            if late:
                return late
            usage = await loop.run_in_executor(self._executor, self._look)
            if passed := self._allowance.passed(usage):
                return passed
            await asyncio.sleep(EVERY_SECONDS)

    def _look(self) -> Usage:
        processes = self._processes()
        temporary = (self._root / "tmp", self._root / "dev" / "shm") if processes else ()
        return Usage(
            memory=self._layer.used
            + sum(_memory(process) for process in processes)
            + socket_memory(processes, Path(f"/proc/{self._process}/net")),
            available=available_memory(),
            temporary=sum(_files_in(folder) for folder in temporary),
        )

    def _processes(self) -> list[Path]:
        """Return all processes of the sandbox, as folders in the sandbox's own /proc."""
        inner = self._root / "proc"
        try:
            # Before bubblewrap has changed its root, this is the /proc of the whole machine.
            if inner.stat().st_dev == Path("/proc").stat().st_dev:
                return []
            return [inner / name for name in os.listdir(inner) if name.isdigit()]  # noqa: PTH208
        except (FileNotFoundError, ProcessLookupError):
            return []


def available_memory() -> int:
    """Return the bytes of memory that this machine has left."""
    found = _AVAILABLE.search(Path("/proc/meminfo").read_bytes())
    assert found is not None, "/proc/meminfo tells no MemAvailable"
    return int(found[1]) * 1024


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
