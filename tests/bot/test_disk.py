"""The last part of a disk is given to nobody."""

import os
from pathlib import Path

import pytest

from bot.config.model import Config
from bot.disk import DiskFullError, DiskReserve, DiskSettings
from bot.errors import ToolError
from bot.net.settings import FetchSettings
from bot.net.web import Web
from bot.values import Identity
from db.settings import DatabaseSettings
from skills.files.settings import WorkspaceSettings
from skills.files.snapshot import Snapshot
from skills.files.workspaces import Workspaces
from tests.fakes.clock import FakeClock
from tests.skills.files.conftest import context_of


def reserve_on(folder: Path, **settings: float) -> DiskReserve:
    return DiskReserve(DiskSettings.model_validate(settings), (folder,))


def full(folder: Path) -> DiskReserve:
    """Return a reserve that is as large as the disk."""
    return reserve_on(folder, reserve_bytes=10**18, reserve_percent=100)


def test_the_smaller_of_both_numbers_counts(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    reserve_on(tmp_path, reserve_bytes=10**18, reserve_percent=0).check()
    reserve_on(tmp_path, reserve_bytes=0, reserve_percent=100).check()

    with pytest.raises(DiskFullError, match="disk of this machine is nearly full"):
        reserve_on(tmp_path, reserve_bytes=total, reserve_percent=100).check()
    with pytest.raises(DiskFullError):
        reserve_on(tmp_path, reserve_bytes=0).check(needed=free + 10**9)


def test_two_that_write_at_once_do_not_get_the_same_room(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    room = found.f_bavail * found.f_frsize * 2 // 3
    reserve = reserve_on(tmp_path, reserve_bytes=0)

    with (
        reserve.promised(room),
        reserve.promised(0),
        pytest.raises(DiskFullError),
        reserve.promised(room),
    ):
        pass
    with reserve.promised(room):
        pass


def test_the_reserve_is_a_gigabyte_or_five_percent() -> None:
    assert DiskSettings() == DiskSettings(reserve_bytes=1_000_000_000, reserve_percent=5)


def test_a_folder_that_is_not_there_yet_is_on_the_disk_of_those_above(tmp_path: Path) -> None:
    reserve_on(tmp_path / "not" / "there").check()

    with pytest.raises(DiskFullError):
        full(tmp_path / "not" / "there").check()


def test_the_disks_of_the_workspaces_and_of_the_database_are_looked_at() -> None:
    config = Config(
        workspaces=WorkspaceSettings(folder="/w/files"),
        database=DatabaseSettings(url="sqlite:////d/data/bot.db"),
    )
    elsewhere = config.model_copy(
        update={"database": DatabaseSettings(url="postgresql://user@host/name")}
    )

    assert config.folders == (Path("/w/files"), Path("/d/data"))
    assert elsewhere.folders == (Path("/w/files"),)


def test_below_it_no_command_begins_and_no_file_grows_but_files_can_be_made_smaller(
    tmp_path: Path, alice: Identity, clock: FakeClock
) -> None:
    settings, context = WorkspaceSettings(folder=str(tmp_path)), context_of(alice, clock)
    Workspaces(settings).of(context).write("a.txt", b"some text")
    workspace = Workspaces(settings, reserve=full(tmp_path)).of(context)

    for refused in (
        lambda: workspace.write("b.txt", b""),
        lambda: workspace.write("a.txt", b"some more text"),
        lambda: workspace.edit("a.txt", lambda content: content * 2),
        lambda: Snapshot(workspace),
    ):
        with pytest.raises(ToolError, match="until an admin of the machine has made room"):
            refused()
    workspace.write("a.txt", b"less")

    assert workspace.read("a.txt") == b"less"
    assert [path.name for path in workspace.path.iterdir()] == ["a.txt"]


def test_what_a_command_wrote_is_not_taken_over_below_it_and_what_it_removed_is(
    tmp_path: Path, alice: Identity, clock: FakeClock
) -> None:
    settings, context = WorkspaceSettings(folder=str(tmp_path / "w")), context_of(alice, clock)
    workspaces = Workspaces(settings)
    workspaces.of(context).write("a.txt", b"some text")
    outcomes = []
    for change in ("write", "remove"):
        workspace = workspaces.of(context)
        snapshot = Snapshot(workspace)
        workspace.reserve = full(tmp_path)
        outcomes.append(_taken_over(snapshot, tmp_path / change, change))
        snapshot.close()

    assert "as before: The disk of this machine is nearly full" in outcomes[0]
    assert outcomes[1] == ""
    assert list(workspaces.of(context).path.iterdir()) == []


def _taken_over(snapshot: Snapshot, upper: Path, change: str) -> str:
    upper.mkdir()
    if change == "write":
        (upper / "b.txt").write_text("new")
    else:
        os.mknod(upper / "a.txt", 0o020000, 0)
    layer = os.open(upper, os.O_RDONLY)
    try:
        return snapshot.merge(layer).problem
    finally:
        os.close(layer)


async def test_below_it_no_page_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="until an admin of the machine has made room"):
        await Web(FetchSettings(), reserve=full(tmp_path)).fetch("https://example.com/")
