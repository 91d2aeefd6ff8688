"""Former versions of files: kept before each change, restored by an undo, bounded, private."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.changes import Cause, handle, is_meant, new_id, time_of
from bot.errors import ToolError
from bot.files.opener import Opener, best_opener
from bot.values import Identity
from skills.files.former import STORE, FormerVersions
from skills.files.recording import TooLargeToStoreError
from skills.files.restoring import Restored
from skills.files.settings import SpaceUsage, WorkspaceSettings
from skills.files.versions import FileChange
from skills.files.workspaces import Workspaces
from tests.fakes.clock import FakeClock
from tests.skills.files.conftest import THEIRS, Trap, context_of
from tests.skills.files.test_workspaces import RUN, kept_apart

CAUSE = Cause(user_id="u", work_id="turn-1", run_id=None)


class Files:
    """One user's files, and the command that takes changes to them back."""

    def __init__(self, workspaces: Workspaces, user: Identity, clock: FakeClock) -> None:
        self.workspaces, self.user, self.clock = workspaces, user, clock
        self.workspace = workspaces.of(context_of(user, clock))

    def changes(self) -> list[FileChange]:
        return self.workspaces.changes(self.user.key)

    def undo(self, change: FileChange | None = None) -> Restored:
        return self.workspaces.undo(
            self.user.key, self.user, change or self.changes()[0], self.clock
        )

    def remove(self, *paths: str) -> None:
        """Remove files and folders in one change, as a command does."""
        with self.workspace.changing() as (folder, change):
            for path in paths:
                change.keep(folder, tuple(path.split("/")), removed=True)

    def there(self) -> dict[str, bytes]:
        top = self.workspace.path
        return {
            str(path.relative_to(top)): path.read_bytes()
            for path in top.rglob("*")
            if path.is_file() and not path.is_symlink()
        }


@pytest.fixture
def files(settings: WorkspaceSettings, opener: Opener, alice: Identity, clock: FakeClock) -> Files:
    return Files(Workspaces(settings, opener=opener), alice, clock)


@pytest.fixture
def theirs(files: Files, bob: Identity) -> Files:
    return Files(files.workspaces, bob, files.clock)


# -- what comes back -------------------------------------------------------------------------------


def test_a_file_that_was_written_over_comes_back(files: Files) -> None:
    files.workspace.write("a/file.txt", b"first")
    assert files.workspace.write("a/file.txt", b"second").kept

    restored = files.undo()

    assert restored.back == ["a/file.txt"]
    assert files.there() == {"a/file.txt": b"first"}


def test_a_file_that_was_edited_comes_back_with_its_permissions(files: Files) -> None:
    files.workspace.write("run.sh", b"echo 1")
    (files.workspace.path / "run.sh").chmod(0o750)
    assert files.workspace.edit("run.sh", lambda content: content + b"2").kept

    files.undo()

    assert files.there() == {"run.sh": b"echo 1"}
    assert (files.workspace.path / "run.sh").stat().st_mode & 0o777 == 0o750


def test_an_undo_can_be_undone_again_and_again(files: Files) -> None:
    files.workspace.write("file.txt", b"first")
    files.workspace.write("file.txt", b"second")

    seen = []
    for _ in range(4):
        files.undo()
        seen.append(files.there()["file.txt"])

    assert seen == [b"first", b"second", b"first", b"second"]


def test_a_chain_of_changes_is_undone_step_by_step(files: Files) -> None:
    for content in (b"1", b"2", b"3", b"4"):
        files.workspace.write("file.txt", content)
    third, second, first = files.changes()

    for change, before in ((third, b"3"), (second, b"2"), (first, b"1")):
        assert files.undo(change).back == ["file.txt"]
        assert files.there() == {"file.txt": before}


def test_a_folder_that_was_removed_comes_back_whole(files: Files) -> None:
    for path in ("src/a.py", "src/deep/b.py", "other.txt"):
        files.workspace.write(path, path.encode())
    (files.workspace.path / "src/link").symlink_to("a.py")
    before = files.there()

    files.remove("src", "other.txt")
    assert files.there() == {}
    files.undo()

    assert files.there() == before
    assert (files.workspace.path / "src/link").readlink() == Path("a.py")


def test_the_undo_of_a_removal_can_be_undone(files: Files) -> None:
    files.workspace.write("src/a.py", b"a")
    files.remove("src")
    files.undo()

    restored = files.undo()

    assert restored.removed == ["src"]
    assert files.there() == {}


def test_a_folder_that_nobody_may_enter_is_kept_too(files: Files) -> None:
    files.workspace.write("src/deep/a.py", b"a")
    (files.workspace.path / "src/deep").chmod(0)
    (files.workspace.path / "src").chmod(0o500)

    files.remove("src")
    files.undo()

    assert files.there() == {"src/deep/a.py": b"a"}


def test_a_link_comes_back_as_a_link(files: Files) -> None:
    files.workspace.write("file.txt", b"x")
    link = files.workspace.path / "link"
    link.symlink_to("file.txt")

    files.remove("link")
    assert not link.is_symlink()
    files.undo()

    assert link.readlink() == Path("file.txt")


def test_a_file_that_became_a_folder_comes_back_and_so_does_the_folder(files: Files) -> None:
    files.workspace.write("thing", b"file")
    with files.workspace.changing() as (folder, change):
        change.keep(folder, ("thing",), removed=False)
        (files.workspace.path / "thing").unlink()
        (files.workspace.path / "thing").mkdir()
        (files.workspace.path / "thing/inside").write_bytes(b"folder")

    files.undo()
    assert files.there() == {"thing": b"file"}
    files.undo()

    assert files.there() == {"thing/inside": b"folder"}


def test_the_same_content_written_again_is_no_change(files: Files) -> None:
    files.workspace.write("file.txt", b"same")

    assert not files.workspace.write("file.txt", b"same").kept

    assert files.changes() == []


def test_a_new_file_is_no_change_to_undo(files: Files) -> None:
    assert not files.workspace.write("file.txt", b"new").kept

    assert files.changes() == []


def test_a_write_that_fails_leaves_no_change(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.workspace.write("file.txt", b"first")

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(ToolError, match="the disk is full"):
        files.workspace.write("file.txt", b"second")
    monkeypatch.undo()

    assert files.there() == {"file.txt": b"first"}
    assert files.changes() == []


# -- what is in the way ----------------------------------------------------------------------------


def test_what_was_changed_since_is_not_overwritten(files: Files) -> None:
    for content in (b"1", b"2", b"3"):
        files.workspace.write("file.txt", content)
    oldest = files.changes()[-1]

    restored = files.undo(oldest)

    assert restored.beside == [("file.txt", "file.txt.restored-1")]
    assert files.there() == {"file.txt": b"3", "file.txt.restored-1": b"1"}


def test_a_new_file_in_the_place_of_a_removed_one_stays(files: Files) -> None:
    files.workspace.write("file.txt", b"old")
    files.workspace.write("file.txt.restored-1", b"taken")
    files.remove("file.txt")
    files.workspace.write("file.txt", b"new")

    files.undo()

    assert files.there() == {
        "file.txt": b"new",
        "file.txt.restored-1": b"taken",
        "file.txt.restored-2": b"old",
    }


def test_an_undo_that_went_beside_still_counts_as_a_change_since(files: Files) -> None:
    files.workspace.write("file.txt", b"0")
    files.workspace.write("file.txt", b"1")
    files.remove("file.txt")
    files.workspace.write("file.txt", b"new")
    removal, write = files.changes()
    files.undo(removal)

    files.undo(write)

    assert files.there()["file.txt"] == b"new"
    assert files.there()["file.txt.restored-2"] == b"0"


def test_a_long_name_still_finds_a_place_beside(files: Files) -> None:
    name = "ü" * 120
    files.workspace.write(name, b"old")
    files.remove(name)
    files.workspace.write(name, b"new")

    files.undo()

    assert sorted(files.there().values()) == [b"new", b"old"]


def test_a_file_whose_folder_is_a_file_by_now_is_refused_with_the_reason(files: Files) -> None:
    files.workspace.write("a/file.txt", b"x")
    files.remove("a/file.txt")
    (files.workspace.path / "a").rmdir()
    files.workspace.write("a", b"file")

    restored = files.undo()

    assert restored.failed == [("a/file.txt", "something else is in the place of its folder")]
    assert files.there() == {"a": b"file"}
    assert files.changes()[0].undone is False


def test_what_does_not_fit_the_quota_is_not_restored(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock
) -> None:
    small = settings.model_copy(update={"user_bytes": 10_000})
    files = Files(Workspaces(small), alice, clock)
    files.workspace.write("old.txt", b"x" * 6_000)
    files.remove("old.txt")
    files.workspace.write("new.txt", b"y" * 6_000)

    restored = files.undo()

    assert [path for path, _ in restored.failed] == ["old.txt"]
    assert "is the most" in restored.failed[0][1]
    assert list(files.there()) == ["new.txt"]
    files.workspace.write("new.txt", b"")
    assert files.undo(files.changes()[-1]).back == ["old.txt"]


def test_an_undo_that_failed_for_one_path_goes_on_with_that_path(files: Files) -> None:
    for path in ("a/file.txt", "b.txt"):
        files.workspace.write(path, path.encode())
    files.remove("a/file.txt", "b.txt")
    (files.workspace.path / "a").rmdir()
    files.workspace.write("a", b"in the way")
    (change,) = files.changes()
    first = files.undo(change)
    (files.workspace.path / "a").unlink()

    second = files.undo(change)

    assert (first.back, [path for path, _ in first.failed]) == (["b.txt"], ["a/file.txt"])
    assert (second.back, second.failed) == (["a/file.txt", "b.txt"], [])
    assert files.there() == {"a/file.txt": b"a/file.txt", "b.txt": b"b.txt"}


def test_a_change_is_undone_once(files: Files) -> None:
    files.workspace.write("file.txt", b"1")
    files.workspace.write("file.txt", b"2")
    change = files.changes()[0]
    files.undo(change)

    with pytest.raises(ToolError, match="undone already"):
        files.undo(change)


def test_what_is_not_kept_any_more_is_said(files: Files) -> None:
    files.workspace.write("file.txt", b"1")
    files.workspace.write("file.txt", b"2")
    change = files.changes()[0]
    files.workspaces.forget_former(files.clock() + timedelta(seconds=1))

    with pytest.raises(ToolError, match="not kept any more"):
        files.undo(change)


# -- whose, and where ------------------------------------------------------------------------------


def test_nobody_sees_or_restores_the_changes_of_another_user(files: Files, theirs: Files) -> None:
    files.workspace.write("file.txt", b"mine 1")
    files.workspace.write("file.txt", b"mine 2")
    change = files.changes()[0]

    assert theirs.changes() == []
    with pytest.raises(ToolError, match="not kept any more"):
        theirs.undo(change)

    assert (files.there(), theirs.there()) == ({"file.txt": b"mine 2"}, {})


def test_a_run_s_own_workspace_is_restored_there(
    files: Files, alice: Identity, clock: FakeClock
) -> None:
    run = files.workspaces.of(kept_apart(alice, clock, RUN))
    files.workspace.write("file.txt", b"own")
    run.write("file.txt", b"run 1")
    run.write("file.txt", b"run 2")
    change = files.changes()[0]

    files.undo()

    assert (change.cause.run_id, run.read("file.txt")) == (RUN, b"run 1")
    assert files.there() == {"file.txt": b"own"}


def test_only_the_bot_may_enter_the_store_and_names_tell_nothing(files: Files) -> None:
    files.workspace.write("secret-name.txt", b"1")
    files.workspace.write("secret-name.txt", b"2")

    store = Path(files.workspace.all_path.parent) / STORE
    found = [store, *store.rglob("*")]
    assert all(path.stat().st_mode & 0o077 == 0 for path in found)
    assert not any("secret" in str(path.relative_to(store)) for path in found)
    assert not store.is_relative_to(files.workspace.all_path)


def test_no_tool_reads_the_store(files: Files) -> None:
    files.workspace.write("file.txt", b"1")
    files.workspace.write("file.txt", b"2")

    with files.workspace.walk("") as looking:
        assert [entry.path for entry in looking.entries] == ["file.txt"]
    assert files.workspace.usage() == SpaceUsage(1, 1)


def test_no_undo_writes_through_a_link(trap: Trap, clock: FakeClock, alice: Identity) -> None:
    before = trap.outside_now()
    workspaces = Workspaces(
        WorkspaceSettings(folder=str(trap.workspace.all_path.parent)), opener=trap.workspace.opener
    )
    trap.workspace.write("a/file.txt", b"other")
    trap.workspace.write("b/gone.txt", b"gone")
    with trap.workspace.changing() as (folder, change):
        change.keep(folder, ("b",), removed=True)
        change.keep(folder, ("link",), removed=True)
    for name in ("a", "b"):
        if (trap.inside / name).exists():
            (trap.inside / name).rename(trap.inside / f"{name}-moved")
        (trap.inside / name).symlink_to(trap.outside)
    (trap.inside / "link").symlink_to(trap.outside / "file.txt")

    for found in workspaces.changes(alice.key):
        workspaces.undo(alice.key, alice, found, clock)

    assert trap.outside_now() == before
    assert (trap.outside / "file.txt").read_bytes() == THEIRS
    assert (trap.inside / "b.restored-1/gone.txt").read_bytes() == b"gone"


@pytest.mark.parametrize("name", ["fifo", "socket"])
def test_what_holds_nothing_is_removed_without_a_trace(trap: Trap, name: str) -> None:
    with trap.workspace.changing() as (folder, change):
        change.keep(folder, (name,), removed=True)

        assert not change.id

    assert not (trap.inside / name).exists()


# -- how much, how long ----------------------------------------------------------------------------

MOST = SpaceUsage(4_000, 24)


def taken(base: Path) -> SpaceUsage:
    """Return what the store takes: all that is in the folders of the changes, these included."""
    changes = list((base / STORE).glob("*/*/*"))
    found = [*changes, *(path for change in changes for path in change.rglob("*"))]
    files = [path for path in found if path.is_file()]
    return SpaceUsage(sum(path.stat().st_size for path in files), len(found))


@given(
    sizes=st.lists(
        st.lists(st.integers(0, 4_500), min_size=1, max_size=8), min_size=1, max_size=12
    ),
    removed=st.booleans(),
)
def test_the_store_never_holds_more_than_its_limit_and_drops_the_oldest_first(
    sizes: list[list[int]], removed: bool
) -> None:
    with TemporaryDirectory() as folder:
        base, work = Path(folder) / "base", Path(folder) / "work"
        work.mkdir()
        former = FormerVersions(best_opener(), base, "u", most=MOST, now=FakeClock())
        top = os.open(work, os.O_RDONLY)
        made: list[str] = []
        for change in sizes:
            names = [f"file-{index}" for index in range(len(change))]
            for name, size in zip(names, change, strict=True):
                (work / name).write_bytes(b"x" * size)
            with former.change("own", CAUSE) as kept:
                for name, size in zip(names, change, strict=True):
                    try:
                        kept.keep(top, (name,), removed=removed)
                    except TooLargeToStoreError:
                        assert (work / name).stat().st_size == size
                    assert taken(base).size <= MOST.size
                    assert taken(base).count <= MOST.count
                if kept.id:
                    made.append(kept.id)
        os.close(top)

        left = [found.id for found in former.changes()]
        assert left == list(reversed(made))[: len(left)]


def test_a_change_larger_than_the_store_is_refused_and_nothing_is_dropped_for_it(
    files: Files, tmp_path: Path
) -> None:
    former = FormerVersions(best_opener(), tmp_path, "u", most=MOST, now=files.clock)
    files.workspace.write("small.txt", b"x" * 1_000)
    files.workspace.write("folder/large.txt", b"x" * 5_000)
    with files.workspace.alone() as folder:
        with former.change("own", CAUSE) as change:
            change.keep(folder, ("small.txt",), removed=False)
        with former.change("own", CAUSE) as change:
            for path in (("folder",), ("folder", "large.txt")):
                with pytest.raises(TooLargeToStoreError):
                    change.keep(folder, path, removed=True)

    assert len(list(former.changes())) == 1
    assert files.there()["folder/large.txt"] == b"x" * 5_000


def test_a_file_larger_than_the_store_cannot_be_restored_and_that_is_said_before_and_after(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock
) -> None:
    small = settings.model_copy(update={"user_bytes": 10_000})
    workspace = Workspaces(small).of(context_of(alice, clock))
    workspace.write("small.txt", b"x")
    with workspace.alone():
        (workspace.path / "large.bin").write_bytes(b"x" * 80_000)

    can = [workspace.can_restore(path) for path in ("large.bin", "small.txt", "new.txt")]
    assert not workspace.can_restore_all()
    written = workspace.write("large.bin", b"")

    assert can == [False, True, True]
    assert (written.kept, written.lost) == (False, True)
    assert workspace.can_restore_all()
    assert Workspaces(small).changes(alice.key) == []


def test_folders_nested_as_deep_as_can_be_come_back_and_can_be_dropped(files: Files) -> None:
    files.workspace.write("file.txt", b"x")
    top = files.workspace.path / "d"
    (files.workspace.path / "/".join(["d"] * 300)).mkdir(parents=True)

    files.remove("d")
    assert not top.exists()
    files.undo()
    assert top.exists()
    files.remove("d")

    assert files.workspaces.forget_former(files.clock() + timedelta(days=1)) == 3


def test_what_is_older_than_thirty_days_is_dropped(files: Files, theirs: Files) -> None:
    for each in (files, theirs):
        each.workspace.write("file.txt", b"1")
        each.workspace.write("file.txt", b"2")
    files.clock.advance(30 * 86_400 + 1)
    files.workspace.write("file.txt", b"3")

    gone = files.workspaces.forget_former(files.clock() - timedelta(days=30))

    assert gone == 2
    assert (len(files.changes()), theirs.changes()) == (1, [])


def test_the_former_versions_go_with_the_workspace_of_an_old_run(
    files: Files, alice: Identity, clock: FakeClock
) -> None:
    run = files.workspaces.of(kept_apart(alice, clock, RUN))
    for each in (run, files.workspace):
        each.write("file.txt", b"1")
        each.write("file.txt", b"2")
    os.utime(run.path, (0, 0))

    files.workspaces.forget_runs(clock())

    assert [change.workspace for change in files.changes()] == ["own"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "about.json").unlink(),
        lambda folder: (folder / "about.json").write_bytes(b'{"user'),
        lambda folder: (folder / "items.jsonl").write_bytes(b'{"number": 0, "ki'),
    ],
    ids=["no-cause", "half-a-cause", "half-an-item"],
)
def test_what_a_crash_left_half_made_is_passed_over(
    files: Files, spoil: Callable[[Path], None]
) -> None:
    for content in (b"1", b"2", b"3"):
        files.workspace.write("file.txt", content)
    newest, older = files.changes()
    store = files.workspace.all_path.parent / STORE / files.workspace.all_path.name
    spoil(store / "own" / newest.id)

    assert files.changes() == [older]


def test_an_item_without_its_content_is_said_to_be_gone(files: Files) -> None:
    files.workspace.write("file.txt", b"1")
    files.remove("file.txt")
    change = files.changes()[0]
    store = files.workspace.all_path.parent / STORE / files.workspace.all_path.name
    (store / "own" / change.id / "0").unlink()

    assert files.undo().failed == [("file.txt", "its former version is not kept any more")]


# -- ids -------------------------------------------------------------------------------------------


def test_ids_sort_by_time_even_when_the_clock_stands_still(clock: FakeClock) -> None:
    ids = [""]
    for _ in range(50):
        ids.append(new_id(clock(), after=ids[-1]))

    assert ids[1:] == sorted(ids[1:])
    assert time_of(ids[1]) == clock()


def test_a_change_is_meant_by_the_beginning_that_is_shown(clock: FakeClock) -> None:
    change_id = new_id(clock())

    assert is_meant(handle(change_id), change_id)
    assert is_meant(handle(change_id).upper(), change_id)
    assert not is_meant(handle(change_id)[:3], change_id)
    assert not is_meant("", change_id)


# -- what a page that the model obeys cannot push out ----------------------------------------------


@given(
    sizes=st.lists(
        st.lists(st.integers(0, 4_500), min_size=1, max_size=8), min_size=1, max_size=12
    ),
    removed=st.booleans(),
)
def test_a_store_that_may_drop_nothing_keeps_all_it_has_and_what_does_not_fit_stays_in_place(
    sizes: list[list[int]], removed: bool
) -> None:
    with TemporaryDirectory() as folder:
        base, work = Path(folder) / "base", Path(folder) / "work"
        work.mkdir()
        former = FormerVersions(best_opener(), base, "u", most=MOST, now=FakeClock(), drops=False)
        top = os.open(work, os.O_RDONLY)
        made: list[str] = []
        for change in sizes:
            with former.change("own", CAUSE) as kept:
                for index, size in enumerate(change):
                    (work / f"{index}").write_bytes(b"x" * size)
                    try:
                        kept.keep(top, (f"{index}",), removed=removed)
                    except ToolError:
                        assert (work / f"{index}").stat().st_size == size
                    assert taken(base).size <= MOST.size
                if kept.id:
                    made.append(kept.id)
        os.close(top)

        assert [found.id for found in former.changes()] == list(reversed(made))


@pytest.fixture
def full(settings: WorkspaceSettings, alice: Identity, clock: FakeClock) -> Files:
    """Files whose store has room for little more; the first change in it matters."""
    small = settings.model_copy(update={"user_bytes": 20_000})
    files = Files(Workspaces(small), alice, clock)
    files.workspace.write("matters.txt", b"important")
    files.workspace.write("matters.txt", b"overwritten")
    for index in range(8):
        files.workspace.write("filler.txt", str(index).encode() * 9_000)
    return files


@pytest.mark.parametrize("agreed", [False, True])
def test_only_a_user_who_agrees_lets_foreign_content_push_former_versions_out(
    full: Files, alice: Identity, clock: FakeClock, agreed: bool
) -> None:
    context = replace(context_of(alice, clock), foreign=True, agreed=agreed)
    theirs = full.workspaces.of(context)
    before = len(full.changes())

    can = theirs.can_restore("filler.txt"), theirs.can_restore_all()
    for index in range(9):
        if agreed:
            theirs.write("filler.txt", str(index).encode() * 8_000)
        else:
            with pytest.raises(ToolError, match="The undo store is full"):
                theirs.write("filler.txt", str(index).encode() * 8_000)

    assert can == (agreed, agreed)
    assert theirs.can_restore("new.txt")
    if agreed:
        assert "matters.txt" not in {each.items[0].path[0] for each in full.changes()}
    else:
        assert len(full.changes()) == before
        assert full.undo(full.changes()[-1]).back == ["matters.txt"]
        assert full.there() == {"matters.txt": b"important", "filler.txt": b"7" * 9_000}


def test_a_file_larger_than_the_store_is_not_written_over_without_a_yes(
    full: Files, alice: Identity, clock: FakeClock
) -> None:
    theirs = full.workspaces.of(replace(context_of(alice, clock), foreign=True))
    with full.workspace.alone():
        (full.workspace.path / "large.bin").write_bytes(b"x" * 80_000)

    with pytest.raises(ToolError, match="The undo store is full"):
        theirs.write("large.bin", b"")

    assert len(full.there()["large.bin"]) == 80_000
