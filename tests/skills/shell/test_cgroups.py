"""Cgroups of commands, on a kernel that is a fake: it keeps the rules that the real one keeps."""

import asyncio
import errno
import os
from pathlib import Path, PurePosixPath

import pytest

from skills.shell.cgroups import Cgroups, CgroupsUnavailableError, KernelFiles

MOUNT = Path("/sys/fs/cgroup")
OWN = str(os.getpid())


class FakeKernel(KernelFiles):
    """Cgroup v2 in memory: who is in which group, and which controllers a group has.

    Args:
        group: The group that this process is in, as `/proc/self/cgroup` names it.
        others: Processes beside it.
        controllers: What each group from the top has for its children.
        v1: Controllers that cgroup v1 holds.
    """

    def __init__(
        self,
        group: str,
        *,
        others: tuple[str, ...] = (),
        controllers: str = "cpu memory pids",
        v1: str = "",
        writable: bool = True,
        delegated: str = "",
    ) -> None:
        self.group, self.v1, self.writable, self.delegated = group, v1, writable, delegated
        self.processes = {MOUNT / group.strip("/"): [OWN, *others]}
        self.given = {MOUNT: controllers}
        self.limits: dict[str, str] = {}
        self.removed: list[Path] = []
        for folder in reversed(self._parents(MOUNT / group.strip("/"))):
            self.processes.setdefault(folder, [])
            self.given.setdefault(folder, "")
            if folder != MOUNT / group.strip("/"):
                self.given[folder] = controllers
        self.given.setdefault(MOUNT / group.strip("/"), "")

    @staticmethod
    def _parents(folder: Path) -> list[Path]:
        return [each for each in (folder, *folder.parents) if each.is_relative_to(MOUNT)]

    def read(self, path: Path) -> str:
        if path == Path("/proc/self/cgroup"):
            hierarchy = f"4:{self.v1}:/\n" if self.v1 else ""
            return f"{hierarchy}0::{self.group}\n"
        if path == Path("/proc/self/mountinfo"):
            return f"30 23 0:26 / {MOUNT} rw - cgroup2 cgroup2 rw\n"
        if path.is_relative_to("/proc"):
            return "Name:\tother\nPPid:\t1\n"
        folder, name = path.parent, path.name
        match name:
            case "cgroup.controllers":
                return self.given[MOUNT] if folder == MOUNT else self.given[folder.parent]
            case "cgroup.subtree_control":
                return self.given[folder]
            case "cgroup.procs":
                return "\n".join(self.processes[folder])
            case "cgroup.events":
                return f"populated {int(bool(self.processes[folder]))}\nfrozen 0\n"
            case "memory.events":
                return "low 0\noom 1\noom_kill 1\n"
        raise FileNotFoundError(path)

    def write(self, path: Path, text: str) -> None:
        if not self.writable:
            raise PermissionError(errno.EACCES, "Permission denied")
        folder, name = path.parent, path.name
        match name:
            case "cgroup.procs":
                for processes in self.processes.values():
                    if text in processes:
                        processes.remove(text)
                self.processes[folder].append(text)
            case "cgroup.subtree_control":
                if self.processes[folder] and folder != MOUNT:
                    raise OSError(errno.EBUSY, "Device or resource busy")
                self.given[folder] = text.replace("+", "")
            case "cgroup.kill":
                self.processes[folder].clear()
            case "memory.swap.max":
                raise FileNotFoundError(path)
            case _:
                assert folder in self.processes, f"{folder} was not made"
                self.limits[name] = text

    def make(self, folder: Path) -> None:
        if not self.writable:
            raise PermissionError(errno.EACCES, "Permission denied")
        self.processes.setdefault(folder, [])
        self.given.setdefault(folder, "")

    def remove(self, folder: Path) -> None:
        assert not self.processes[folder], "the kernel removes no group with processes"
        self.removed.append(folder)

    def is_delegated(self, folder: Path) -> bool:
        return str(PurePosixPath("/") / folder.relative_to(MOUNT)) == self.delegated


async def test_a_command_gets_a_group_with_its_limits_which_is_gone_afterwards() -> None:
    kernel = FakeKernel("/system.slice/retinue.service")
    groups = Cgroups.open(kernel)

    async with groups.command(512_000_000, 64) as folder:
        kernel.write(folder / "cgroup.procs", "4711")
        limits = dict(kernel.limits)

    assert limits == {"memory.max": "512000000", "memory.oom.group": "1", "pids.max": "64"}
    assert folder.parent == MOUNT / "system.slice/retinue.service"
    assert kernel.removed == [folder]
    assert groups.killed_for_memory(folder)


async def test_processes_of_a_cancelled_command_are_killed_before_its_group_is_removed() -> None:
    kernel = FakeKernel("/")
    groups = Cgroups.open(kernel)
    joined = asyncio.Event()

    async def command() -> None:
        async with groups.command(1, 1) as folder:
            kernel.write(folder / "cgroup.procs", "4711")
            joined.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(command())
        await joined.wait()
        task.cancel()

    assert len(kernel.removed) == 1


def test_the_bot_moves_to_a_child_since_a_group_with_processes_gives_no_controllers() -> None:
    kernel = FakeKernel("/system.slice/retinue.service")

    groups = Cgroups.open(kernel)

    assert kernel.processes[groups.folder] == []
    assert kernel.given[groups.folder] == "memory pids"
    assert sum(OWN in processes for processes in kernel.processes.values()) == 1


def test_a_second_start_in_the_moved_group_uses_the_same_groups() -> None:
    kernel = FakeKernel("/system.slice/retinue.service")
    first = Cgroups.open(kernel)
    kernel.group = "/system.slice/retinue.service/retinue-main"

    assert Cgroups.open(kernel).folder == first.folder


def test_a_unit_that_is_delegated_to_its_subgroup_is_used() -> None:
    kernel = FakeKernel(
        "/system.slice/retinue.service/main", delegated="/system.slice/retinue.service"
    )
    kernel.given[MOUNT / "system.slice/retinue.service"] = ""

    groups = Cgroups.open(kernel)

    assert groups.folder == MOUNT / "system.slice/retinue.service"


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (FakeKernel("/a", v1="memory"), "memory is controlled by cgroup v1 here"),
        (FakeKernel("/a", controllers="cpu"), "has no memory and pids controllers"),
        (FakeKernel("/a", writable=False), r"cannot be changed \(Permission denied\)"),
        (FakeKernel("/user.slice/session-1.scope", others=("7", "8")), "2 other programs are in"),
    ],
)
def test_a_system_that_does_not_allow_it_is_left_unchanged(kernel: FakeKernel, reason: str) -> None:
    before = {folder: list(processes) for folder, processes in kernel.processes.items()}

    with pytest.raises(CgroupsUnavailableError, match=reason):
        Cgroups.open(kernel)

    assert kernel.processes == before
