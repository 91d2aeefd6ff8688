"""Limits memory and processes of a command with a cgroup of its own, where the system allows it.

The rules are those of the kernel's page on cgroup v2: a group with processes of its own cannot give
controllers to its children, so the bot first moves itself to a child of its group.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bot.errors import BotError
from bot.files.opener import opened_path

_CONTROLLERS = ("memory", "pids")
#: The child group that the bot and its other processes move to.
_MAIN = "retinue-main"
_COMMAND = "retinue-command-"
#: Longest wait for the killed processes of a group to end, and its poll interval.
_END_SECONDS, _LOOK_SECONDS = 5.0, 0.01


class CgroupsUnavailableError(BotError):
    """This process may not make cgroups with limits; the text has the reason."""


class KernelFiles:
    """Reads and writes the kernel's cgroup files. Each method raises `OSError` on failure."""

    def read(self, path: Path) -> str:
        """Return the text of a file."""
        return path.read_text()

    def write(self, path: Path, text: str) -> None:
        """Write to a file that exists."""
        with opened_path(path, os.O_WRONLY) as descriptor:
            os.write(descriptor, text.encode())

    def make(self, folder: Path) -> None:
        """Make a group unless it exists."""
        folder.mkdir(exist_ok=True)

    def remove(self, folder: Path) -> None:
        """Remove a group."""
        folder.rmdir()

    def is_delegated(self, folder: Path) -> bool:
        """Return True if systemd has delegated a group to the processes in it."""
        with suppress(OSError):
            return os.getxattr(folder, "user.delegate") == b"1"
        return False


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Makes groups for commands below the group of this process.

    Attributes:
        folder: The process's group, as a folder below the mount of cgroup v2.
    """

    folder: Path
    files: KernelFiles

    @classmethod
    def open(cls, files: KernelFiles | None = None) -> "Cgroups":
        """Return the groups of this process, after moving the process to a child of its group.

        Raises:
            CgroupsUnavailableError: The system does not allow it; nothing was changed.
        """
        files = files or KernelFiles()
        try:
            folder = _usable_group(files)
            enabled = files.read(folder / "cgroup.subtree_control").split()
            if not set(_CONTROLLERS).issubset(enabled):
                # A group with processes of its own cannot give controllers to its children.
                for process in files.read(folder / "cgroup.procs").split():
                    files.make(folder / _MAIN)
                    with suppress(ProcessLookupError):
                        files.write(folder / _MAIN / "cgroup.procs", process)
                given = " ".join(f"+{name}" for name in _CONTROLLERS)
                files.write(folder / "cgroup.subtree_control", given)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise CgroupsUnavailableError(
                f"the bot's cgroup cannot be changed ({reason})"
            ) from None
        return cls(folder, files)

    @asynccontextmanager
    async def command(self, memory_bytes: int, processes: int) -> AsyncIterator[Path]:
        """Make a group with these limits; its processes are killed at the end of the block.

        Args:
            memory_bytes: Limit of everything that the kernel counts: processes, page tables, socket
                buffers, files on a tmpfs.
            processes: Limit of processes and threads.

        Yields:
            The folder of the group: a process that writes `0` to its `cgroup.procs` joins it.

        Raises:
            OSError: The group could not be made.
        """
        folder = self.folder / f"{_COMMAND}{secrets.token_hex(8)}"
        self.files.make(folder)
        try:
            limits = {
                "memory.max": memory_bytes,
                "memory.swap.max": 0,
                "memory.oom.group": 1,
                "pids.max": processes,
            }
            for name, limit in limits.items():
                # Kernels without swap accounting lack the file of the swap limit.
                with suppress(FileNotFoundError):
                    self.files.write(folder / name, str(limit))
            yield folder
        finally:
            with suppress(OSError):
                self.files.write(folder / "cgroup.kill", "1")
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    events = folder / "cgroup.events"
                    while _field(self.files.read(events), "populated") != "0":  # noqa: ASYNC110
                        await asyncio.sleep(_LOOK_SECONDS)
            with suppress(OSError):
                self.files.remove(folder)

    def killed_for_memory(self, folder: Path) -> bool:
        """Return True if the kernel killed processes of a group because of its memory limit."""
        with suppress(OSError):
            return _field(self.files.read(folder / "memory.events"), "oom_kill") != "0"
        return False


def _usable_group(files: KernelFiles) -> Path:
    """Return the group whose children may get limits: ours, or the unit that was delegated to us.

    Raises:
        CgroupsUnavailableError: No group is usable.
        OSError: A file of the kernel cannot be read.
    """
    path, folder = _own_group(files)
    if folder.name == _MAIN:
        folder = folder.parent  # an earlier start in this group has moved this process
    if _has_controllers(files, folder):
        # Processes that are neither this one nor its children.
        others = set(files.read(folder / "cgroup.procs").split()) if path != "/" else set()
        own = str(os.getpid())
        for process in others.copy():
            with suppress(FileNotFoundError, ProcessLookupError):
                status = files.read(Path("/proc", process, "status"))
                if own in {process, _field(status, "PPid:")}:
                    others.discard(process)
        if others:
            raise CgroupsUnavailableError(
                f"{len(others)} other programs are in the bot's cgroup: start it as a service of "
                "its own"
            )
        return folder
    # `DelegateSubgroup=` of systemd puts a service one level below what it delegates.
    if path != "/" and files.is_delegated(folder.parent) and _has_controllers(files, folder.parent):
        return folder.parent
    raise CgroupsUnavailableError("the bot's cgroup has no memory and pids controllers")


def _has_controllers(files: KernelFiles, folder: Path) -> bool:
    return set(_CONTROLLERS).issubset(files.read(folder / "cgroup.controllers").split())


def _own_group(files: KernelFiles) -> tuple[str, Path]:
    """Return the group of this process: its path in the hierarchy, and its folder."""
    lines = files.read(Path("/proc/self/cgroup")).splitlines()
    if any("memory" in line.split(":")[1].split(",") for line in lines):
        raise CgroupsUnavailableError("memory is controlled by cgroup v1 here")
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    if path is None:
        raise CgroupsUnavailableError("cgroup v2 is not in use here")
    mounts = (line.split() for line in files.read(Path("/proc/self/mountinfo")).splitlines())
    for mount in mounts:
        if "cgroup2" in mount[mount.index("-") :]:
            root, point = mount[3], mount[4]
            return path, Path(point) / Path(path).relative_to(root)
    raise CgroupsUnavailableError("cgroup v2 is not mounted here")


def _field(text: str, name: str) -> str:
    return next((line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")), "")
