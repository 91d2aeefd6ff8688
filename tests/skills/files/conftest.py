"""A workspace in which everything was planted that could lead out of it."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.files.opener import Opener, by_openat2, by_walking
from bot.values import Identity
from skills.base import Skill, ToolContext
from skills.files.settings import WorkspaceSettings
from skills.files.workspace import Workspace
from skills.files.workspaces import Workspaces
from tests.fakes.calls import Caller
from tests.fakes.clock import FakeClock

MINE, THEIRS = b"mine", b"THEIRS"


def context_of(user: Identity, clock: FakeClock, run_id: str | None = None) -> ToolContext:
    return Caller(Skill(name="none", description=""), user, clock, run_id)._context("call-1")


@dataclass(frozen=True)
class Trap:
    """A workspace, and what nobody must reach from it."""

    workspace: Workspace
    inside: Path
    outside: Path

    def outside_now(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.outside.iterdir()}


@pytest.fixture(params=[by_openat2, by_walking], ids=["openat2", "walking"])
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


@pytest.fixture
def settings(tmp_path: Path) -> WorkspaceSettings:
    return WorkspaceSettings(folder=str(tmp_path / "workspaces"))


@pytest.fixture
def workspace(
    settings: WorkspaceSettings, opener: Opener, alice: Identity, clock: FakeClock
) -> Workspace:
    return Workspaces(settings, opener=opener).of(context_of(alice, clock))


@pytest.fixture
def trap(workspace: Workspace, tmp_path: Path) -> Iterator[Trap]:
    workspace.write("a/file.txt", MINE)
    inside, outside = workspace.path, tmp_path / "outside"
    outside.mkdir()
    (outside / "file.txt").write_bytes(THEIRS)
    (inside / "link").symlink_to(outside / "file.txt")
    (inside / "passwd").symlink_to("/etc/passwd")
    (inside / "parent").symlink_to(outside)
    (inside / "root").symlink_to("/proc/self/root")
    (inside / "up").symlink_to("..")
    (inside / "loop").symlink_to("loop")
    (inside / "near").symlink_to("a/file.txt")
    os.link(outside / "file.txt", inside / "hard")
    os.mkfifo(inside / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        # The name of a socket must be short.
        with_room = os.open(inside, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{with_room}/socket")
        os.close(with_room)
        yield Trap(workspace, inside, outside)
