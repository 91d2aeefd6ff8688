"""The changes of a command enter a workspace that others may have changed meanwhile."""

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.changes import STORE_IS_FULL
from bot.errors import ToolError
from bot.files.opener import FOLDER, Opener
from bot.values import Identity
from skills.files import snapshot as snapshots
from skills.files.copies import copy_file
from skills.files.former import STORE
from skills.files.settings import WorkspaceSettings
from skills.files.snapshot import MergeResult, Snapshot
from skills.files.workspace import COMMANDS, Workspace
from skills.files.workspaces import Workspaces
from tests.fakes.clock import FakeClock
from tests.skills.files.conftest import context_of


@pytest.fixture
def workspace(
    settings: WorkspaceSettings, opener: Opener, alice: Identity, clock: FakeClock
) -> Workspace:
    """A workspace with some files, and room for little more."""
    small = settings.model_copy(update={"user_bytes": 20_000, "user_files": 20})
    workspace = Workspaces(small, opener=opener).of(context_of(alice, clock))
    for name in ("a.txt", "b.txt", "folder/c.txt", "folder/deep/d.txt"):
        workspace.write(name, name.encode())
    return workspace


class Command:
    """A command that is over: its view of the workspace, and its layer.

    It does by hand what the kernel's overlay does.
    """

    def __init__(self, snapshot: Snapshot, upper: Path) -> None:
        self.snapshot, self.upper = snapshot, upper

    def writes(self, path: str, text: str) -> None:
        (self.upper / path).parent.mkdir(parents=True, exist_ok=True)
        (self.upper / path).write_text(text)

    def removes(self, path: str) -> None:
        (self.upper / path).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(self.upper / path, stat.S_IFCHR, 0)

    def makes_again(self, folder: str) -> None:
        (self.upper / folder).mkdir(parents=True)
        os.setxattr(self.upper / folder, "user.overlay.opaque", b"y")

    def ends(self) -> MergeResult:
        layer = os.open(self.upper, FOLDER)
        try:
            return self.snapshot.merge(layer)
        finally:
            os.close(layer)


@pytest.fixture
def begin(workspace: Workspace, tmp_path: Path) -> Iterator[Callable[[], Command]]:
    """Begins commands in the workspace."""
    begun: list[Snapshot] = []

    def begin() -> Command:
        begun.append(Snapshot(workspace))
        upper = tmp_path / f"upper{len(begun)}"
        upper.mkdir()
        return Command(begun[-1], upper)

    yield begin
    for snapshot in begun:
        snapshot.close()
    assert list((workspace.all_path / COMMANDS).iterdir()) == []


@pytest.fixture
def command(begin: Callable[[], Command]) -> Command:
    return begin()


def texts(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if not path.is_dir()
    }


BEFORE = {name: name for name in ("a.txt", "b.txt", "folder/c.txt", "folder/deep/d.txt")}


# -- conflicts -------------------------------------------------------------------------------------


def test_a_file_that_somebody_else_changed_is_not_overwritten(
    workspace: Workspace, command: Command
) -> None:
    workspace.write("a.txt", b"theirs")
    workspace.write("a.txt.conflict-1", b"older")
    command.writes("a.txt", "mine")

    told = command.ends()

    changed = {"a.txt": "theirs", "a.txt.conflict-1": "older", "a.txt.conflict-2": "mine"}
    assert texts(workspace.path) == BEFORE | changed
    assert told == MergeResult(conflicts=(("a.txt", "a.txt.conflict-2"),))


def test_a_file_that_both_made_is_there_twice(workspace: Workspace, command: Command) -> None:
    workspace.write("new/x.txt", b"theirs")
    command.writes("new/x.txt", "mine")
    command.writes("new/y.txt", "y")

    told = command.ends()

    assert texts(workspace.path / "new") == {
        "x.txt": "theirs",
        "x.txt.conflict-1": "mine",
        "y.txt": "y",
    }
    assert told.conflicts == (("new/x.txt", "new/x.txt.conflict-1"),)


def test_the_same_text_is_no_conflict_and_nor_is_a_file_that_was_only_touched(
    workspace: Workspace, command: Command
) -> None:
    workspace.write("a.txt", b"both")
    workspace.write("b.txt", b"theirs")
    command.writes("a.txt", "both")
    command.writes("b.txt", "b.txt")

    told = command.ends()

    assert texts(workspace.path) == BEFORE | {"a.txt": "both", "b.txt": "theirs"}
    assert told == MergeResult()


def test_what_somebody_else_changed_is_not_removed_and_the_rest_is(
    workspace: Workspace, command: Command
) -> None:
    workspace.write("folder/c.txt", b"theirs")
    workspace.write("folder/new.txt", b"new")
    command.removes("folder")
    command.removes("b.txt")

    told = command.ends()

    assert texts(workspace.path) == {
        "a.txt": "a.txt",
        "folder/c.txt": "theirs",
        "folder/new.txt": "new",
    }
    assert not (workspace.path / "folder/deep").exists()
    assert told.kept == ("folder/c.txt",)


def test_what_somebody_else_removed_comes_back_only_where_the_command_changed_it(
    workspace: Workspace, begin: Callable[[], Command]
) -> None:
    first, second = begin(), begin()
    first.removes("folder")
    second.writes("folder/c.txt", "changed")
    second.removes("a.txt")

    first_told, told = first.ends(), second.ends()

    assert texts(workspace.path) == {"b.txt": "b.txt", "folder/c.txt": "changed"}
    assert (first_told.conflicts, told.conflicts, told.problem) == ((), (), "")


def test_a_folder_and_a_file_of_one_name_are_both_kept(
    workspace: Workspace, begin: Callable[[], Command]
) -> None:
    first, second = begin(), begin()
    first.writes("x", "a file")
    first.removes("folder")
    second.writes("x/y/z.txt", "z")
    second.writes("folder/deep/d.txt", "changed")

    first.ends()
    workspace.write("folder", b"a file now")
    told = second.ends()

    assert texts(workspace.path) == {
        "a.txt": "a.txt",
        "b.txt": "b.txt",
        "folder": "a file now",
        "folder.conflict-1/deep/d.txt": "changed",
        "x": "a file",
        "x.conflict-1/y/z.txt": "z",
    }
    assert sorted(told.conflicts) == [("folder", "folder.conflict-1"), ("x", "x.conflict-1")]


def test_a_folder_that_was_made_again_holds_only_what_is_new(
    workspace: Workspace, command: Command
) -> None:
    command.makes_again("folder")
    command.writes("folder/deep/e.txt", "e")

    told = command.ends()

    assert texts(workspace.path) == {
        "a.txt": "a.txt",
        "b.txt": "b.txt",
        "folder/deep/e.txt": "e",
    }
    assert told.kept == ()


def test_a_folder_takes_the_place_of_a_link_and_nothing_is_written_where_that_led(
    workspace: Workspace, begin: Callable[[], Command], tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (workspace.path / "link").symlink_to(outside)
    first, second = begin(), begin()
    for command in (first, second):
        command.makes_again("link")
        command.writes("link/x.txt", "mine")
        command.writes("link/deep/y.txt", "deep")

    told = [command.ends().problem for command in (first, second)]

    assert told == ["", ""]
    assert texts(workspace.path) == BEFORE | {"link/x.txt": "mine", "link/deep/y.txt": "deep"}
    assert list(outside.iterdir()) == []


def test_a_link_that_somebody_else_put_there_is_not_followed(
    workspace: Workspace, command: Command, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    command.writes("new/x.txt", "mine")
    (workspace.path / "new").symlink_to(outside)

    told = command.ends()

    assert told.conflicts == (("new", "new.conflict-1"),)
    assert (workspace.path / "new.conflict-1/x.txt").read_text() == "mine"
    assert list(outside.iterdir()) == []


def test_a_long_name_leaves_room_for_what_tells_the_version(
    workspace: Workspace, command: Command
) -> None:
    name = "ü" * 127
    command.writes(name, "mine")
    (workspace.path / name).write_text("theirs")

    told = command.ends()

    found = texts(workspace.path)
    assert (found[name], found["ü" * 122 + ".conflict-1"]) == ("theirs", "mine")
    assert len(told.conflicts) == 1


def test_many_commands_and_a_tool_that_change_one_file_lose_nothing(
    workspace: Workspace, begin: Callable[[], Command]
) -> None:
    commands = [begin() for _ in range(5)]
    for number, command in enumerate(commands):
        command.writes("a.txt", f"version {number}")
        command.writes(f"own{number}", "own")
        command.ends()

    found = texts(workspace.path)
    versions = {text for name, text in found.items() if name.startswith("a.txt")}
    assert versions == {f"version {number}" for number in range(5)}
    assert all(f"own{number}" in found for number in range(5))


# -- the view of a command -------------------------------------------------------------------------


def test_a_command_sees_the_files_as_they_were_when_it_began(
    workspace: Workspace, command: Command
) -> None:
    workspace.write("a.txt", b"later")
    workspace.edit("b.txt", lambda content: content + b" and more")
    workspace.write("new.txt", b"new")

    assert texts(command.snapshot.path) == BEFORE


def test_the_view_of_one_command_stays_when_the_changes_of_another_arrive(
    begin: Callable[[], Command],
) -> None:
    first, second = begin(), begin()
    first.writes("a.txt", "changed")
    first.removes("folder")

    first.ends()

    assert texts(second.snapshot.path) == BEFORE


def test_files_can_be_read_while_a_command_has_a_view_of_them(
    workspace: Workspace, begin: Callable[[], Command]
) -> None:
    begin(), begin()
    os.link(workspace.path / "b.txt", workspace.all_path / "somewhere else")

    assert workspace.read("a.txt") == b"a.txt"
    with pytest.raises(ToolError, match="several names"):
        workspace.read("b.txt")


def test_views_are_not_counted_as_files_of_the_user(
    workspace: Workspace, begin: Callable[[], Command]
) -> None:
    before = workspace.usage()

    begin()

    assert workspace.usage() == before


def test_the_view_of_a_process_that_died_is_cleared_away_by_the_next_command(
    workspace: Workspace, begin: Callable[[], Command]
) -> None:
    living = begin()
    dead = workspace.all_path / COMMANDS / "0123456789abcdef"
    shutil.copytree(living.snapshot.path, dead / "lower")

    begin()

    assert not dead.exists()
    assert living.snapshot.path.exists()


# -- how much --------------------------------------------------------------------------------------


def test_removals_make_room_before_it_is_counted(
    workspace: Workspace, begin: Callable[[], Command]
) -> None:
    workspace.write("large", b"x" * 15_000)
    command = begin()
    command.removes("large")
    command.writes("other", "y" * 15_000)

    told = command.ends()

    assert told == MergeResult(can_be_undone=True)
    assert texts(workspace.path) == BEFORE | {"other": "y" * 15_000}


def test_a_file_that_is_replaced_makes_room_for_the_one_in_its_place(
    workspace: Workspace, begin: Callable[[], Command]
) -> None:
    workspace.write("large.txt", b"a" * 15_000)
    command = begin()
    command.writes("large.txt", "b" * 16_000)

    told = command.ends()

    assert told == MergeResult(can_be_undone=True)
    assert workspace.read("large.txt") == b"b" * 16_000


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"large": "x" * 21_000}, "files would take 21 kB together, and 20 kB is the most"),
        ({f"many{n}": "" for n in range(16)}, "would have 21 files and folders, and 20 is"),
    ],
)
def test_what_does_not_fit_is_discarded_as_a_whole(
    workspace: Workspace, command: Command, files: dict[str, str], told: str
) -> None:
    command.removes("a.txt")
    for name, text in files.items():
        command.writes(name, text)

    outcome = command.ends()

    assert outcome.problem.startswith(
        "All its changes to files were discarded, and the workspace is as before: This user"
    )
    assert told in outcome.problem
    assert texts(workspace.path) == BEFORE


def test_a_workspace_that_is_too_full_can_be_made_smaller(
    workspace: Workspace, begin: Callable[[], Command]
) -> None:
    (workspace.path / "large").write_bytes(bytes(30_000))
    command = begin()
    command.removes("a.txt")

    assert command.ends().problem == ""
    assert "a.txt" not in texts(workspace.path)


def test_a_disk_that_fills_up_meanwhile_leaves_the_workspace_as_it_was(
    workspace: Workspace, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills.files.merging.copy_file", _full)
    command.writes("a.txt", "mine")
    command.removes("b.txt")

    told = command.ends()

    assert "as before: the disk of this machine is full" in told.problem
    assert texts(workspace.path) == BEFORE


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_changes_are_given_up_when_others_write_for_ever_and_that_is_told(
    workspace: Workspace, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MERGE_SECONDS", 0.05)
    command.writes("a.txt", "mine")
    with writer(workspace):
        told = command.ends()

    assert "as before: Other work is writing" in told.problem
    assert texts(workspace.path) == BEFORE


def test_others_write_while_a_command_s_files_are_copied(
    workspace: Workspace, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills.files.workspace.LOCK_SECONDS", 0.05)

    def copy_beside_a_writer(*args: Any) -> None:
        workspace.write("tool.txt", b"tool")
        copy_file(*args)

    monkeypatch.setattr("skills.files.merging.copy_file", copy_beside_a_writer)
    command.writes("a.txt", "mine")
    command.writes("tool.txt", "mine too")

    told = command.ends()

    assert told.problem == ""
    changed = {"a.txt": "mine", "tool.txt": "tool", "tool.txt.conflict-1": "mine too"}
    assert texts(workspace.path) == BEFORE | changed


def test_what_a_command_replaced_is_kept_without_a_copy_for_which_others_would_wait(
    workspace: Workspace, command: Command
) -> None:
    former = (workspace.path / "a.txt").stat()
    command.writes("a.txt", "mine")

    told = command.ends()

    assert told == MergeResult(can_be_undone=True)
    stored = (path.stat() for path in (workspace.all_path.parent / STORE).rglob("*"))
    assert any(os.path.samestat(each, former) for each in stored)
    assert workspace.read("a.txt") == b"mine"


@contextmanager
def writer(workspace: Workspace) -> Iterator[None]:
    """Somebody who writes, in another process as it were."""
    descriptor = os.open(workspace.all_path / "lock", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# -- former versions -------------------------------------------------------------------------------


def test_what_a_command_replaced_or_removed_can_be_undone(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock, tmp_path: Path
) -> None:
    workspaces = Workspaces(settings)
    workspace = workspaces.of(context_of(alice, clock))
    for name in BEFORE:
        workspace.write(name, name.encode())
    command = Command(Snapshot(workspace), tmp_path / "upper")
    command.writes("a.txt", "mine")
    command.writes("new.txt", "new")
    command.removes("folder")
    told = command.ends()
    command.snapshot.close()
    changed = texts(workspace.path)

    workspaces.undo(alice.key, alice, workspaces.changes(alice.key)[0], clock)

    assert told == MergeResult(can_be_undone=True)
    assert changed == {"a.txt": "mine", "b.txt": "b.txt", "new.txt": "new"}
    assert texts(workspace.path) == BEFORE | {"new.txt": "new"}


def test_a_link_that_a_command_replaced_comes_back(
    workspace: Workspace, begin: Callable[[], Command], alice: Identity, clock: FakeClock
) -> None:
    (workspace.path / "current").symlink_to("folder/c.txt")
    command = begin()
    command.writes("current", "a file")
    told = command.ends()
    command.snapshot.close()
    workspaces = Workspaces(WorkspaceSettings(folder=str(workspace.all_path.parent)))

    restored = workspaces.undo(alice.key, alice, workspaces.changes(alice.key)[0], clock)

    assert told == MergeResult(can_be_undone=True)
    assert restored.back == ["current"]
    assert (workspace.path / "current").readlink() == Path("folder/c.txt")


def test_a_command_that_only_makes_files_or_changes_nothing_keeps_no_former_version(
    workspace: Workspace, command: Command
) -> None:
    command.writes("new.txt", "new")
    command.writes("a.txt", "a.txt")

    assert command.ends() == MergeResult()
    assert list(workspace.former.changes()) == []


def test_a_command_that_would_push_former_versions_out_is_discarded_unless_the_user_agreed(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock, tmp_path: Path
) -> None:
    workspaces = Workspaces(settings.model_copy(update={"user_bytes": 20_000}))
    own = workspaces.of(context_of(alice, clock))
    for size in (9_000,) * 7 + (8_000,):
        own.write("filler.txt", os.urandom(size // 2).hex().encode())
    own.write("folder/a.txt", b"a" * 4_000)
    own.write("b.txt", b"b" * 4_000)
    own.write("c.txt", b"c" * 200)
    files, kept = texts(own.path), [each.id for each in workspaces.changes(alice.key)]
    told = []
    for number, agreed in enumerate([False, True]):
        context = replace(context_of(alice, clock), foreign=True, agreed=agreed)
        snapshot = Snapshot(workspaces.of(context))
        (tmp_path / f"upper-{number}").mkdir()
        command = Command(snapshot, tmp_path / f"upper-{number}")
        command.writes("c.txt", "replaced")
        command.removes("folder")
        command.removes("b.txt")
        told.append(command.ends())
        snapshot.close()
        if not agreed:
            assert texts(own.path) == files
            assert [each.id for each in workspaces.changes(alice.key)] == kept

    assert told == [
        MergeResult(
            "All its changes to files were discarded, and the workspace is as before: "
            + STORE_IS_FULL
        ),
        MergeResult(can_be_undone=True),
    ]
    assert texts(own.path).keys() == {"c.txt", "filler.txt"}
    assert not set(kept) <= {each.id for each in workspaces.changes(alice.key)}
