"""Whose files they are, how much they may be, and that no two writers spoil them."""

import asyncio
import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.disk import spoken
from bot.errors import ToolError
from bot.values import Identity, Place
from skills.base import ToolContext
from skills.files.settings import Change, Quota, SpaceUsage, WorkspaceSettings, check_total
from skills.files.snapshot import Snapshot
from skills.files.workspace import Workspace
from skills.files.workspaces import AT_ONCE, Workspaces
from tests.fakes.clock import FakeClock
from tests.skills.files.conftest import context_of
from tests.skills.files.writers import at_once, count_up, fill, rewrite, workspace_in

THREAD = Place("discord", "guild", "general", "thread")
ELSEWHERE = Place("discord", "guild", "general", "elsewhere")
RUN = "3f0c1a52-6a53-4c5e-9d0e-0f8f8d3a1b77"


@contextmanager
def other_processes(*works: tuple[Callable[..., None], tuple[object, ...]]) -> Iterator[None]:
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(len(works))
    processes = [spawn.Process(target=at_once, args=(start, *each)) for each in works]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.join(timeout=40)
            if process.is_alive():
                process.kill()
                process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


# -- whose -----------------------------------------------------------------------------------------


def test_two_people_never_meet(
    settings: WorkspaceSettings, alice: Identity, bob: Identity, clock: FakeClock
) -> None:
    workspaces = Workspaces(settings)
    mine, theirs = (workspaces.of(context_of(user, clock)) for user in (alice, bob))
    mine.write("notes.txt", b"mine")
    theirs.write("notes.txt", b"theirs")

    assert mine.path != theirs.path
    assert mine.read("notes.txt") == b"mine"
    for path in (f"../../{theirs.path.parent.name}/own/notes.txt", str(theirs.path / "notes.txt")):
        with pytest.raises(ToolError):
            mine.read(path)
    assert theirs.read("notes.txt") == b"theirs"


def test_people_with_one_account_name_on_two_platforms_are_two(
    settings: WorkspaceSettings, clock: FakeClock
) -> None:
    people = [
        Identity("discord", "", "U1"),
        Identity("slack", "T1", "U1"),
        Identity("slack", "T2", "U1"),
        Identity("slack", "T1:U1", ""),
    ]

    paths = {Workspaces(settings).of(context_of(user, clock)).path for user in people}

    assert len(paths) == len(people)


@pytest.mark.parametrize("account", ["../../etc", "a/b", "\0", "ü" * 300, ""])
def test_no_account_leads_out_of_the_folder_of_all(
    settings: WorkspaceSettings, clock: FakeClock, account: str
) -> None:
    user = Identity("terminal", "", account)

    workspace = Workspaces(settings).of(context_of(user, clock))
    workspace.write("file.txt", b"x")

    assert workspace.path.parent.parent == Path(settings.folder)
    assert not account or account not in str(workspace.path)
    assert (workspace.path / "file.txt").read_bytes() == b"x"


def test_only_the_bot_may_enter(workspace: Workspace) -> None:
    workspace.write("file.txt", b"x")

    for folder in (workspace.path, workspace.path.parent, workspace.path.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def kept_apart(user: Identity, clock: FakeClock, run_id: str | None) -> ToolContext:
    """Return the context of a call of an agent with `workspace: run`."""
    return replace(context_of(user, clock, run_id), own_workspace=run_id or "")


def test_the_workspaces_of_old_runs_are_deleted_and_nothing_else(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock, tmp_path: Path
) -> None:
    workspaces = Workspaces(settings)
    outside = tmp_path / "outside.txt"
    outside.write_text("kept", encoding="utf-8")
    own = workspaces.of(context_of(alice, clock))
    own.write("file.txt", b"own")
    old, new = (workspaces.of(kept_apart(alice, clock, run)) for run in (RUN, RUN[::-1]))
    for each in (old, new):
        each.write("folder/file.txt", b"run")
    (old.path / "link").symlink_to(outside)
    os.utime(old.path, (0, 0))

    gone = workspaces.forget_runs(clock() - timedelta(days=1))

    assert (gone, old.path.exists()) == (1, False)
    assert (own.read("file.txt"), new.read("folder/file.txt")) == (b"own", b"run")
    assert outside.read_text(encoding="utf-8") == "kept"


def test_a_run_has_a_workspace_of_its_own_when_that_is_chosen(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock
) -> None:
    workspaces = Workspaces(settings)
    main, run, other = (
        workspaces.of(kept_apart(alice, clock, run_id)) for run_id in (None, RUN, RUN[::-1])
    )
    main.write("file.txt", b"main")
    run.write("file.txt", b"run")

    assert main.read("file.txt") == b"main"
    assert run.read("file.txt") == b"run"
    with pytest.raises(ToolError, match=r"There is no file\.txt"):
        other.read("file.txt")
    assert main.usage() == run.usage()


def test_runs_share_the_files_of_their_user_by_default(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock
) -> None:
    workspaces = Workspaces(settings)
    workspaces.of(context_of(alice, clock)).write("file.txt", b"main")

    assert workspaces.of(context_of(alice, clock, RUN)).read("file.txt") == b"main"


async def test_one_user_holds_no_more_than_some_threads(
    settings: WorkspaceSettings, alice: Identity, bob: Identity, clock: FakeClock
) -> None:
    workspaces = Workspaces(settings)
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def work(workspace: Workspace) -> None:
        begun.release()
        go_on.wait(20)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE + 3):
            group.create_task(workspaces.use(context_of(alice, clock), work))
        for _ in range(AT_ONCE):
            assert await asyncio.to_thread(begun.acquire, timeout=20)
        done = await asyncio.wait_for(
            workspaces.use(context_of(bob, clock), lambda workspace: "done"), 20
        )
        more = begun.acquire(blocking=False)
        go_on.set()

    assert done == "done"
    assert not more


# -- how much --------------------------------------------------------------------------------------

QUOTA = Quota("This user", 10_000, 10)


@pytest.mark.parametrize(
    ("usage", "change", "said"),
    [
        (
            SpaceUsage(9_000, 3),
            Change(0, 1_001, 1),
            "files would take 10 kB together, and 10 kB is",
        ),
        (
            SpaceUsage(9_000, 3),
            Change(500, 1_501, 0),
            "Make room first: delete files with the shell",
        ),
        (
            SpaceUsage(50, 10),
            Change(0, 1, 1),
            "would have 11 files and folders, and 10 is the most",
        ),
        (SpaceUsage(50, 8), Change(0, 1, 3), "would have 11 files and folders"),
        (SpaceUsage(50, 30), Change(1, 2, 0), "would have 30 files and folders"),
    ],
)
def test_what_does_not_fit_is_refused_with_advice(
    usage: SpaceUsage, change: Change, said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        check_total(QUOTA, usage, change)


@pytest.mark.parametrize(
    ("usage", "change"),
    [
        (SpaceUsage(9_000, 3), Change(0, 1_000, 1)),
        (SpaceUsage(50, 9), Change(0, 1, 1)),
        (SpaceUsage(99_000, 99), Change(4_000, 3_999, 0)),
        (SpaceUsage(99_000, 99), Change(4_000, 4_000, 0)),
    ],
)
def test_what_fits_or_makes_room_may_be_written(usage: SpaceUsage, change: Change) -> None:
    check_total(QUOTA, usage, change)


@given(size=st.integers(0, 10**12))
def test_a_size_is_said_in_a_few_characters(size: int) -> None:
    assert len(spoken(size)) <= 14


def test_all_workspaces_of_a_user_count(
    settings: WorkspaceSettings, alice: Identity, bob: Identity, clock: FakeClock
) -> None:
    small = settings.model_copy(update={"user_bytes": 10_000})
    workspaces = Workspaces(small)
    workspaces.of(context_of(alice, clock)).write("a/big.txt", b"x" * 9_000)
    run = workspaces.of(kept_apart(alice, clock, RUN))

    with pytest.raises(ToolError, match="would take 18 kB together, and 10 kB is the most"):
        run.write("new/big.txt", b"x" * 9_000)

    assert not (run.path / "new").exists()
    assert run.usage() == SpaceUsage(9_000, 3)
    workspaces.of(context_of(bob, clock)).write("big.txt", b"x" * 9_000)


def of_place(workspaces: Workspaces, place: Place, user: Identity, clock: FakeClock) -> Workspace:
    """Return the workspace that the users of a place share."""
    return workspaces.of(replace(context_of(user, clock), shared=True, place=place))


def test_a_place_has_a_quota_of_its_own(
    settings: WorkspaceSettings, alice: Identity, bob: Identity, clock: FakeClock
) -> None:
    small = settings.model_copy(update={"place_bytes": 10_000, "place_files": 3})
    workspaces = Workspaces(small)
    mine, theirs = (of_place(workspaces, THREAD, user, clock) for user in (alice, bob))
    mine.write("big.txt", b"x" * 9_000)

    with pytest.raises(ToolError, match="This place's files would take 11 kB together, and 10 kB"):
        theirs.write("new/more.txt", b"x" * 2_000)
    with pytest.raises(ToolError, match="This place would have 4 files and folders, and 3 is"):
        theirs.write("a/b/more.txt", b"x")

    assert theirs.usage() == SpaceUsage(9_000, 1)
    workspaces.of(context_of(alice, clock)).write("big.txt", b"x" * 20_000)
    of_place(workspaces, ELSEWHERE, bob, clock).write("big.txt", b"x" * 9_000)


def test_a_commands_layer_has_the_quota_of_its_place(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock
) -> None:
    workspaces = Workspaces(settings.model_copy(update={"place_bytes": 10_000, "place_files": 11}))
    with closing(Snapshot(of_place(workspaces, THREAD, alice, clock))) as snapshot:
        assert (snapshot.quota.size, snapshot.quota.count) == (10_000, 11)


def test_the_files_of_a_place_are_deleted_with_their_former_versions(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock
) -> None:
    workspaces = Workspaces(settings)
    own = workspaces.of(context_of(alice, clock))
    here, there = (of_place(workspaces, each, alice, clock) for each in (THREAD, ELSEWHERE))
    for each in (own, here, there):
        each.write("inbox/a.txt", b"former")
        each.write("inbox/a.txt", b"x" * 9)
    of_run = replace(context_of(alice, clock), shared=True, place=THREAD, own_workspace=RUN)
    workspaces.of(of_run).write("b.txt", b"x")

    assert workspaces.forget_places(workspaces.places(), {ELSEWHERE.files_key}, 10) == 1
    assert workspaces.forget_places(workspaces.places(), {ELSEWHERE.files_key}, 10) == 0

    assert here.usage() == SpaceUsage(0, 0)
    assert workspaces.changes(THREAD.files_key) == []
    for each, owner in ((own, alice.key), (there, ELSEWHERE.files_key)):
        assert each.read("inbox/a.txt") == b"x" * 9
        assert len(workspaces.changes(owner)) == 1


def test_the_files_of_a_place_that_begins_during_the_clean_up_are_kept(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock
) -> None:
    workspaces = Workspaces(settings)
    before = workspaces.places()
    of_place(workspaces, THREAD, alice, clock).write("a.txt", b"new")

    assert workspaces.forget_places(before, set(), 10) == 0
    assert of_place(workspaces, THREAD, alice, clock).read("a.txt") == b"new"


def test_two_processes_together_write_no_more_than_one_may(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path, 300_000)

    with other_processes(
        (fill, (str(tmp_path), 300_000, "a")), (fill, (str(tmp_path), 300_000, "b"))
    ):
        pass

    assert workspace.usage() == SpaceUsage(300_000, 30)
    sizes = {path.stat().st_size for path in workspace.path.iterdir()}
    assert sizes == {10_000}


def test_files_below_130_folders_count_too(workspace: Workspace) -> None:
    deep = workspace.path
    with workspace.opened():
        for _ in range(130):
            deep /= "d"
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(bytes(5_000))

    assert workspace.usage() == SpaceUsage(5_000, 131)


def test_files_in_a_folder_that_may_not_be_looked_into_count_too(workspace: Workspace) -> None:
    with workspace.opened():
        locked = workspace.path / "locked"
    locked.mkdir()
    (locked / "file").write_bytes(bytes(5_000))
    locked.chmod(0)

    assert workspace.usage() == SpaceUsage(5_000, 2)


# -- whole -----------------------------------------------------------------------------------------


def test_a_file_that_two_processes_write_is_always_one_of_both(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path, 10_000_000)
    workspace.write("shared.txt", b"c" * 300_000)
    seen = set()

    def read() -> None:
        content = workspace.read("shared.txt")
        seen.add((content[:1], len(content), len(set(content))))

    with other_processes((rewrite, (str(tmp_path), "a", 10)), (rewrite, (str(tmp_path), "b", 10))):
        while multiprocessing.active_children():
            read()
        read()

    assert {each[1:] for each in seen} == {(300_000, 1)}
    assert len(seen) > 1
    assert [path.name for path in workspace.path.iterdir()] == ["shared.txt"]


def test_of_the_edits_of_two_processes_none_is_lost(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path, 10_000_000)
    workspace.write("number.txt", b"0")

    with other_processes((count_up, (str(tmp_path), 10)), (count_up, (str(tmp_path), 10))):
        pass

    assert workspace.read("number.txt") == b"20"


def test_what_a_writer_left_that_died_is_cleared_away(workspace: Workspace) -> None:
    workspace.write("a/file.txt", b"x")
    left = workspace.path / "a" / f".retinue-{'0' * 16}.part"
    left.write_bytes(b"half")
    with workspace.walk("") as looking:
        seen = [entry.path for entry in looking.entries]

    workspace.write("b.txt", b"x")

    assert seen == ["a", "a/file.txt"]
    assert not left.exists()


def test_a_look_at_the_space_taken_leaves_the_file_of_a_writer_at_work(
    workspace: Workspace,
) -> None:
    workspace.write("a/file.txt", b"x")
    writing = workspace.path / "a" / f".retinue-{'0' * 16}.part"
    writing.write_bytes(b"half")

    usage = workspace.usage()
    workspace.can_restore_all()

    assert usage == SpaceUsage(1, 2)
    assert writing.exists()


def test_a_write_that_fails_leaves_nothing(workspace: Workspace) -> None:
    workspace.write("file.txt", b"x")

    def fail(content: bytes) -> bytes:
        raise ToolError("No.")

    with pytest.raises(ToolError, match="No"):
        workspace.edit("file.txt", fail)
    workspace.write("d/e/f.txt", b"x")
    with pytest.raises(ToolError, match="a folder there already"):
        workspace.write("d/e", b"x")

    assert workspace.read("file.txt") == b"x"
    assert sorted(path.name for path in workspace.path.rglob("*")) == [
        "d",
        "e",
        "f.txt",
        "file.txt",
    ]


def test_a_script_stays_one_that_can_be_run(workspace: Workspace) -> None:
    workspace.write("run.sh", b"echo")
    (workspace.path / "run.sh").chmod(0o755)

    workspace.edit("run.sh", lambda content: content + b" more")

    assert (workspace.path / "run.sh").stat().st_mode & 0o777 == 0o755


def test_no_descriptor_is_left_open(workspace: Workspace) -> None:
    workspace.write("a/file.txt", b"x")
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no path is meant

    for path in ("a/file.txt", "a", "none", "a/file.txt/x"):
        try_all(workspace, path)

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def try_all(workspace: Workspace, path: str) -> None:
    works: tuple[Callable[[], object], ...] = (
        lambda: workspace.read(path),
        lambda: workspace.write(path, b"x"),
        lambda: workspace.edit(path, lambda content: content),
        lambda: looked(workspace, path),
    )
    for work in works:
        try:
            work()
        except ToolError:
            continue


def looked(workspace: Workspace, path: str) -> int:
    with workspace.walk(path) as looking:
        return len(list(looking.entries))


def test_a_file_of_more_than_the_tools_take_is_neither_read_nor_written(
    settings: WorkspaceSettings, alice: Identity, clock: FakeClock
) -> None:
    small = settings.model_copy(update={"file_bytes": 1_000})
    workspace = Workspaces(small).of(context_of(alice, clock))
    workspace.write("file.txt", b"x" * 1_000)
    assert len(workspace.read("file.txt")) == 1_000
    (workspace.path / "file.txt").write_bytes(b"x" * 1_001)

    with pytest.raises(ToolError, match="has 1 kB, and 1 kB is the most that is read: take the"):
        workspace.read("file.txt")
    with pytest.raises(ToolError, match="The file would have 1 kB, and 1 kB is the most"):
        workspace.write("other.txt", b"x" * 1_001)
