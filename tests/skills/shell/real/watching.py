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


async def begun(program: str, argument: str, seconds: float = 20) -> None:
    """Wait until a sandbox runs a program: nothing that a command writes is seen before its end."""
    deadline = time.monotonic() + seconds
    while not living(f"{program}\0{argument}\0"):
        assert time.monotonic() < deadline, f"{program} {argument} did not begin in {seconds} s."
        await asyncio.sleep(0.01)


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
    """Return every process of this machine that is below a folder: sandboxes in the making are."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and ((process / "cwd").readlink().is_relative_to(folder)):
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
