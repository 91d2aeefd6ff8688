"""Ends a command that exceeds a limit which the kernel does not enforce."""

import asyncio
import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skills.shell.handles import Layer
from skills.shell.settings import MEGABYTE, ShellSettings

EVERY_SECONDS = 0.05

#: When the machine is short of memory, commands below this size are not ended.
INNOCENT_BYTES = 64 * MEGABYTE

#: Includes page tables: mapping much memory and touching little of it takes kernel memory alone.
_MEMORY = re.compile(rb"^(?:RssAnon|RssShmem|VmPTE):\s+(\d+) kB", re.MULTILINE)
_AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.MULTILINE)


#: Most bytes that a socket without a queue listed in /proc can hold: the kernel's charge for a
#: filled buffer of the default size (`net.core.wmem_default`). `skills.shell.seccomp` blocks larger
#: buffers.
BYTES_PER_SOCKET = 233_472
#: The kernel charges whole packets: about twice the bytes that are queued in TCP.
_TCP_OVERHEAD = 2
_QUEUES, _INODE = 4, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
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

    def exceeded(self, usage: ResourceUsage) -> str:
        """Return the limit that was exceeded, as a sentence for the agent; empty for none."""
        mine = self.settings
        if usage.seconds > self.seconds:
            return (
                f"it took longer than {self.seconds:g} s. Do less at a time, or name more "
                f"timeout_seconds (at most {mine.max_seconds:g})."
            )
        if usage.output > mine.output_mb * MEGABYTE:
            return (
                f"it printed more than {mine.output_mb} MB. Let it print less, or write to a file."
            )
        if usage.memory > mine.memory_mb * MEGABYTE:
            return (
                f"it took more than {mine.memory_mb} MB of memory, the files that it wrote "
                "included. Work on smaller pieces."
            )
        if usage.available < mine.free_memory_mb * MEGABYTE and usage.memory > INNOCENT_BYTES:
            return "this machine is short of memory. Try again later, or work on smaller pieces."
        if usage.temporary > mine.temporary_files:
            return f"it made more than {mine.temporary_files:,} files in /tmp. Make fewer."
        return ""


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
            late = self._allowance.exceeded(ResourceUsage(seconds=seconds, output=self._output()))
            if late:
                return late
            usage = await loop.run_in_executor(self._executor, self._usage)
            if exceeded := self._allowance.exceeded(usage):
                return exceeded
            await asyncio.sleep(EVERY_SECONDS)

    def _usage(self) -> ResourceUsage:
        # All processes of the sandbox, as folders in the sandbox's own /proc.
        inner, processes = self._root / "proc", []
        with suppress(FileNotFoundError, ProcessLookupError):
            # Before bubblewrap has changed its root, this is the /proc of the whole machine.
            if inner.stat().st_dev != Path("/proc").stat().st_dev:
                processes = [each for each in inner.iterdir() if each.name.isdigit()]
        memory = self._layer.used + socket_memory(processes, Path(f"/proc/{self._process}/net"))
        for process in processes:
            with suppress(OSError):
                found = _MEMORY.findall((process / "status").read_bytes())
                memory += sum(map(int, found)) * 1024
        temporary = 0
        for folder in ("tmp", "dev/shm") if processes else ():
            with suppress(OSError):
                counts = os.statvfs(self._root / folder)
                temporary += counts.f_files - counts.f_ffree
        left = _AVAILABLE.search(Path("/proc/meminfo").read_bytes())
        assert left is not None, "/proc/meminfo has no MemAvailable"
        return ResourceUsage(memory=memory, available=int(left[1]) * 1024, temporary=temporary)


def socket_memory(processes: Iterable[Path], network: Path) -> int:
    """Return an upper estimate of the bytes in the buffers of all sockets of a sandbox.

    TCP is counted by its queues, sockets of closed descriptors included; every other socket that
    some process has open is counted as full.

    Args:
        processes: Folders of the processes in a mounted /proc.
        network: The folder `net` of one of them, which lists the sockets of its network namespace.
    """
    queued, counted, opened = 0, {"0"}, set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (network / table).read_text().splitlines()[1:]:
                row = line.split()
                sending, _, receiving = row[_QUEUES].partition(":")
                queued += int(sending, 16) + int(receiving, 16)
                counted.add(row[_INODE])
    for process in processes:
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    opened.add(str(descriptor.readlink()))
    others = {target for target in opened if target.startswith("socket:[")}
    others -= {f"socket:[{inode}]" for inode in counted}
    return queued * _TCP_OVERHEAD + len(others) * BYTES_PER_SOCKET
