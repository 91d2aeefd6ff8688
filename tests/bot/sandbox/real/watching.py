"""Looking at sandboxes from outside: whether something has begun, and whether anything is left."""

import asyncio
import os
import select
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

#: The probes need a Python that is below /usr, where a sandbox has its programs.
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin")


class Bell:
    """Heard when a command writes to it: it stands in the workspace."""

    def __init__(self, folder: Path) -> None:
        path = folder / "bell"
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._path = path

    async def rung(self, seconds: float = 20) -> None:
        """Wait until it is rung."""
        if not await asyncio.to_thread(readable, [self._descriptor], seconds):
            raise AssertionError(f"Nothing rang within {seconds} s.")

    def close(self) -> None:
        os.close(self._descriptor)
        self._path.unlink()


def readable(descriptors: Sequence[int], seconds: float) -> bool:
    """Wait until all are, and return whether they are."""
    deadline = time.monotonic() + seconds
    return all(
        select.select([one], [], [], max(0.0, deadline - time.monotonic()))[0]
        for one in descriptors
    )


def living(mark: str) -> list[int]:
    """Return every process of this machine that has `mark` on its command line."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if process.name.isdigit() and mark.encode() in line:
            found.append(int(process.name))
    return found


def working_in(folder: Path) -> list[int]:
    """Return every process of this machine that is in a folder: sandboxes in the making are."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cwd").readlink() == folder:
                found.append(int(process.name))
        except OSError:
            continue
    return found


class Dying:
    """Processes that should end: it tells whether they do."""

    def __init__(self, processes: Sequence[int]) -> None:
        self._descriptors = []
        for process in processes:
            with suppress(ProcessLookupError):
                self._descriptors.append(os.pidfd_open(process))

    async def dead(self, seconds: float = 5) -> bool:
        """Wait until all have ended."""
        try:
            return await asyncio.to_thread(readable, self._descriptors, seconds)
        finally:
            for descriptor in self._descriptors:
                os.close(descriptor)
