"""Commands of tool calls: each pays with its user's share of the slots, on that user's files."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bot.values import Identity
from skills.base import ToolContext
from skills.files.settings import WorkspaceSettings
from skills.files.workspace import Workspace
from skills.files.workspaces import Workspaces
from skills.shell.commands import SandboxCommands
from skills.shell.host import Host
from skills.shell.settings import FileLimits, ShellSettings
from skills.shell.shell import CommandResult, Sandbox
from skills.shell.slots import SlotsBusyError
from tests.fakes.clock import FakeClock
from tests.skills.files.conftest import context_of
from tests.skills.shell.test_slots import settle

HOST = Host(bwrap="bwrap", is_root=False, machine="x86_64", around={}, within={}, shell="/bin/sh")
ROOM = FileLimits(8_000_000, 300)


class Waiting(Sandbox):
    """A sandbox whose commands hold their slot until they are cancelled, and run nothing."""

    async def run(
        self, command: str, workspace: Workspace, *, user: str = "", seconds: float | None = None
    ) -> CommandResult:
        async with self._slots.hold(user, seconds=0):
            await asyncio.Event().wait()
        raise AssertionError


async def is_refused(commands: SandboxCommands, context: ToolContext) -> bool:
    try:
        await commands.run(context, "true", seconds=1)
    except SlotsBusyError:
        return True
    return False


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (ShellSettings(at_once=4), 2),
        (ShellSettings(at_once=1), 1),
        (ShellSettings(at_once=4, at_once_per_user=3), 3),
    ],
)
async def test_one_user_gets_no_more_slots_than_a_share_and_another_gets_the_rest(
    tmp_path: Path,
    alice: Identity,
    bob: Identity,
    clock: FakeClock,
    settings: ShellSettings,
    most: int,
) -> None:
    with ThreadPoolExecutor(1) as executor:
        sandbox = Waiting(HOST, settings, ROOM, executor)
        commands = SandboxCommands(sandbox, Workspaces(WorkspaceSettings(folder=str(tmp_path))))
        mine, theirs = (context_of(user, clock) for user in (alice, bob))
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(commands.run(mine, "sleep 600", seconds=600)) for _ in range(most)
            ]
            await settle()
            another = group.create_task(is_refused(commands, mine))
            await settle()
            refused = another.done() and another.result()
            another.cancel()
            others = [
                group.create_task(commands.run(theirs, "sleep 600", seconds=600))
                for _ in range(min(most, (settings.at_once or 0) - most))
            ]
            await settle()
            assert not any(task.done() for task in (*tasks, *others))
            assert refused
            for task in (*tasks, *others):
                task.cancel()


async def test_a_command_asks_when_not_all_files_could_be_restored_beside_what_is_kept(
    tmp_path: Path, alice: Identity, clock: FakeClock
) -> None:
    workspaces = Workspaces(WorkspaceSettings(folder=str(tmp_path), user_bytes=20_000))
    own, foreign = context_of(alice, clock), replace(context_of(alice, clock), foreign=True)
    with ThreadPoolExecutor(1) as executor:
        commands = SandboxCommands(Sandbox(HOST, ShellSettings(), ROOM, executor), workspaces)
        can = []
        for text in ("", *(sign * 15_000 for sign in "abcd")):
            workspaces.of(own).write("file.txt", text.encode())
            can.append([await commands.can_be_undone(each) for each in (own, foreign)])

    assert can == [[True, True]] * 4 + [[True, False]]
