"""A disk that is really full: a small tmpfs, where this machine lets the tests make one.

Root mounts it here; without root the stories run once more in a namespace of their own, in which
they may. Where neither works they are skipped, which the reason says.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.conversations import upkeep
from bot.values import RunStatus
from db import database as database_module
from db import runs, sqlite
from tests.fakes.anthropic_server import Reply
from tests.fakes.outage import LONG
from tests.fakes.patience import eventually
from tests.stories.stage import ALICE, Play, Stage, call, stage

pytestmark = pytest.mark.timeout(120)

MEGABYTES = 16
ROOT = Path(__file__).parents[2]
#: Set in the namespace, so that nothing is run there once more.
INSIDE = "RETINUE_TEST_DISK_INSIDE"
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def _mount(folder: Path) -> bool:
    """Mount a small tmpfs, and return whether this machine allows it."""
    options = f"size={MEGABYTES}m"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _namespace_works() -> bool:
    inside = ("sh", "-c", "mount -t tmpfs tmpfs /mnt")
    try:
        return (
            subprocess.run([*NAMESPACE, *inside], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


MAY_MOUNT = os.geteuid() == 0 and _namespace_works()
mounts = pytest.mark.skipif(not MAY_MOUNT, reason="only root may mount a disk here")


# Root mounts the disk itself; elsewhere the namespace of a user may, where there are any.
if not MAY_MOUNT and INSIDE not in os.environ and _namespace_works():

    def test_the_stories_of_a_full_disk_hold_in_a_namespace() -> None:
        command = (
            *NAMESPACE,
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            __file__,
        )
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, INSIDE: "1"},
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.returncode == 0, done.stdout


class Disk:
    """A disk that a test fills, and makes room on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filling = folder / "filling"

    def fill(self) -> None:
        """Leave no byte."""
        with self._filling.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 9, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue

    def make_room(self) -> None:
        """Give back what was filled."""
        self._filling.unlink()


@pytest.fixture
def disk(tmp_path: Path, sqlite_url: str) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    assert _mount(folder)
    shutil.copy(sqlite_url.removeprefix("sqlite:///"), folder / "retinue.db")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let half a second be longer than anybody waits, and the duties be done as often."""
    monkeypatch.setattr(database_module, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(upkeep, "SWEEP_SECONDS", 0.3)
    monkeypatch.setattr(upkeep, "OVERDUE", timedelta(seconds=1))
    monkeypatch.setattr(upkeep, "STOP_OVERDUE", timedelta(seconds=1))


def nothing_at_work(it: Stage) -> Callable[[], Awaitable[bool]]:
    """Look whether this process has given up on all runs and turns."""

    async def given_up() -> bool:
        known = (it.bot.upkeep.active, it.bot.upkeep.turns)
        return not any(each.by_id or each.ending for each in known)

    return given_up


@mounts
async def test_after_a_full_disk_runs_end_or_are_stopped_and_a_conversation_continues(
    disk: Disk,
) -> None:
    long = Reply(text=LONG)
    play = Play(
        main=[call("wait_here"), long, Reply(text="Yes."), Reply(text="Still.")],
        runs={
            "Finish": [call("wait_here"), long, Reply(text="Finished.")],
            "Go on": [call("wait_here"), long, *[Reply(text="x", fault="hang")] * 3],
        },
    )
    async with stage(f"sqlite:///{disk.folder}/retinue.db", play) as it:
        await it.command(ALICE, "/subagents spawn --label first Finish it")
        await it.command(ALICE, "/subagents spawn --label second Go on for ever")
        await it.say(ALICE, "Are you there?")
        await it.gate.held(3)

        # A log that is there can be written over: it needs no room.
        assert await asyncio.to_thread(sqlite.empty_log, disk.folder / "retinue.db")
        disk.fill()
        it.gate.opened.set()
        await eventually(nothing_at_work(it), "the process gives up on its work")
        shown = it.outlet.card((await it.run_of("Finish")).id)
        disk.make_room()

        reply = await it.outlet.replied()
        first = await it.ended("Finish", RunStatus.COMPLETED)
        await it.command(ALICE, "/subagents stop second")
        await it.ended("Go on", RunStatus.CANCELLED)
        await it.say(ALICE, "And now?")
        second = await it.outlet.replied(2)
        async with it.bot.database.snapshot() as tx:
            still_going = await runs.active(tx, None)

    assert "is full" in shown.line
    assert first.result == "Finished."
    assert reply.final == "Yes."
    assert second.final == "Still."
    assert still_going == []
