"""A sandbox that is real. Where there is none, nothing here is collected: that it is then not
offered, and why, is tested beside this folder, everywhere.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bot.changes import Cause
from bot.files.opener import best_opener
from bot.values import utc_now
from skills.files.former import FormerVersions
from skills.files.settings import SpaceUsage, WorkspaceSettings
from skills.files.workspace import Workspace
from skills.shell.host import Host, SandboxUnavailableError
from skills.shell.selftest import open_sandbox
from skills.shell.settings import ShellSettings
from skills.shell.shell import Sandbox

ROOM = WorkspaceSettings(user_bytes=8_000_000, user_files=300)
#: Little of everything, so that what takes it all does so soon.
SMALL = ShellSettings(
    processes=24,
    memory_mb=160,
    temporary_mb=4,
    temporary_files=2_000,
    file_mb=4,
    output_mb=1,
    shown_kb=4,
    free_memory_mb=0,
    at_once=16,
)


async def _host() -> Host | None:
    try:
        async with open_sandbox(ShellSettings()) as sandbox:
            return sandbox.host
    except SandboxUnavailableError:
        return None


HOST = asyncio.run(_host())

collect_ignore_glob = [] if HOST else ["test_*.py"]


@pytest.fixture
def host() -> Host:
    assert HOST is not None
    return HOST


@pytest.fixture
async def sandbox(host: Host) -> AsyncIterator[Sandbox]:
    with ThreadPoolExecutor(16) as executor:
        yield Sandbox(host, SMALL, executor)


@pytest.fixture(params=[True, False], ids=["overlay", "copy"])
async def roomy(host: Host, request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    """A sandbox as users have it, with each of the two ways to keep what a command writes apart."""
    settings = replace_settings(ShellSettings(), free_memory_mb=0)
    with ThreadPoolExecutor(4) as executor:
        yield Sandbox(replace(host), settings, executor, is_overlay=request.param)


def replace_settings(settings: ShellSettings, **changes: object) -> ShellSettings:
    return ShellSettings.model_validate(settings.model_dump() | changes)


def workspace_of(folder: Path, *, levels: int = 1, room: WorkspaceSettings = ROOM) -> Workspace:
    """Return the workspace that a folder is; `levels` is the number of names below its user."""
    user = folder.parents[levels - 1]
    most = SpaceUsage(2 * room.user_bytes, 2 * room.user_files)
    return Workspace(
        room,
        best_opener(),
        user.parent,
        user.name,
        folder.relative_to(user).parts,
        former=FormerVersions(best_opener(), user.parent, user.name, most=most, now=utc_now),
        cause=Cause(user_id="alice", work_id="turn", run_id=None),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace."""
    path = tmp_path / "0123456789abcdef" / "own"
    path.mkdir(parents=True, mode=0o700)
    return path
