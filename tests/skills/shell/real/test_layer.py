"""What a command writes: limited by the kernel, and in the workspace only when it has ended."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.checks import Check
from bot.config.model import Config
from bot.doctor import examine
from db.settings import DatabaseSettings
from skills.files.settings import MAKE_ROOM, WorkspaceSettings
from skills.shell.host import Host, SandboxUnavailableError
from skills.shell.recipe import UPPER
from skills.shell.selftest import open_sandbox
from skills.shell.settings import MEGABYTE
from skills.shell.shell import Sandbox
from tests.skills.shell.real.conftest import ROOM, SMALL, replace_settings, workspace_of
from tests.skills.shell.real.watching import PYTHON, begun

pytestmark = pytest.mark.timeout(50)

SAMPLE_SECONDS = 0.005
FULL = "No space left on device"


@pytest.fixture(params=[True, False], ids=["overlay", "copy"])
async def either(host: Host, request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    """A sandbox with each of the two ways to keep what a command writes apart."""
    with ThreadPoolExecutor(16) as executor:
        yield Sandbox(host, SMALL, executor, is_overlay=request.param)


def python(script: str) -> str:
    return f"python3 - <<'END'\n{script}\nEND\n"


def in_use(folder: Path) -> tuple[int, int]:
    """Return the bytes and the files of a workspace on the disk."""
    found = [path.lstat() for path in folder.rglob("*")]
    return sum(state.st_blocks * 512 for state in found), len(found)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents_of(folder: Path) -> dict[str, str]:
    """Return the text of each file, the target of each link, and "/" for each folder."""
    found = {}
    for path in folder.rglob("*"):
        text = "/" if path.is_dir() else str(path.readlink()) if path.is_symlink() else ""
        found[str(path.relative_to(folder))] = text or path.read_text()
    return found


# -- the limit -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """One look: the layer and the workspace on the disk, each in bytes and files."""

    layer: tuple[int, int]
    workspace: tuple[int, int]


@contextmanager
def sampled(folder: Path) -> Iterator[list[Sample]]:
    """Look every 5 ms at the layer of this process's only command, until it has ended."""
    samples: list[Sample] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(SAMPLE_SECONDS):
            # Nothing is taken over while bubblewrap is there.
            with suppress(OSError), layer_of_a_child() as layer:
                before = in_use(folder)
                found = os.fstatvfs(layer)
                size = (found.f_blocks - found.f_bfree) * found.f_frsize
                samples.append(Sample((size, found.f_files - found.f_ffree), before))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


@contextmanager
def layer_of_a_child() -> Iterator[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for child in children:
        with suppress(OSError):
            descriptor = os.open(f"/proc/{child}/root{UPPER}", os.O_RDONLY)
            break
    else:
        raise FileNotFoundError
    try:
        yield descriptor
    finally:
        os.close(descriptor)


WRITING = " ".join(f"(while :; do head -c 4000000 /dev/zero >$RANDOM-{n}; done) &" for n in "ab")
ALLOCATING = python("""\
import os
for number in range(2000):
    try:
        with open(f"{number}", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 4_000_000)
    except OSError:
        pass
""")
CONTROLS = python("""\
import fcntl, struct
for number in range(2000):
    for request in (0x40305828, 0x4030582A, 0x40305839):
        try:
            with open(f"{number}", "wb") as file:
                fcntl.ioctl(file, request, struct.pack("hhqqi16s", 0, 0, 0, 4_000_000, 0, b""))
        except OSError:
            pass
""")
MAPPING = python("""\
import mmap
for number in range(2000):
    with open(f"{number}", "w+b") as file:
        file.truncate(4_000_000)
        mmap.mmap(file.fileno(), 0).write(b"x" * 4_000_000)
""")
UNLINKED = python("""\
import os
import time
held = []
for number in range(200):
    held.append(open("hidden", "wb"))
    os.unlink("hidden")
    try:
        os.posix_fallocate(held[-1].fileno(), 0, 4_000_000)
    except OSError:
        pass
# What it holds is gone when it ends.
time.sleep(0.3)
""")
HIDDEN = python("""\
import os
os.mkdir("locked")
for number in range(10):
    try:
        with open(f"locked/{number}", "wb") as file:
            file.write(bytes(3_900_000))
    except OSError as error:
        print(error)
os.chmod("locked", 0)
""")
MANY = python("""\
import os
for number in range(100_000):
    try:
        os.mknod(f"{number}")
    except OSError:
        break
""")
CHANGING = python("""\
for _ in range(5):
    for number in range(6):
        try:
            with open(f"old{number}", "ab") as file:
                file.write(bytes(1_000_000))
        except OSError:
            pass
""")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(f"{WRITING} sleep 1", id="writers"),
        pytest.param(ALLOCATING, id="fallocate"),
        pytest.param(CONTROLS, id="other ways to allocate"),
        pytest.param(MAPPING, id="shared mappings"),
        pytest.param(UNLINKED, id="removed but open"),
        pytest.param(HIDDEN, id="hidden folder"),
        pytest.param(MANY, id="files"),
        pytest.param("mkdir -p $(printf 'd/%.0s' $(seq 130)); " + ALLOCATING, id="130 folders"),
        pytest.param(CHANGING, id="changed files"),
    ],
)
async def test_no_command_holds_more_than_its_quota_and_the_disk_does_not_grow_while_it_runs(
    either: Sandbox, folder: Path, command: str
) -> None:
    for number in range(6):
        (folder / f"old{number}").write_bytes(bytes(200_000))
    before = in_use(folder)

    with sampled(folder) as samples:
        await either.run(f"{command}\nsleep 0.2", workspace_of(folder), seconds=15)

    assert len(samples) > 10
    assert max(sample.layer[0] for sample in samples) > ROOM.user_bytes / 20 or command == MANY
    assert max(sample.layer[0] for sample in samples) <= ROOM.user_bytes + MEGABYTE
    assert max(sample.layer[1] for sample in samples) <= ROOM.user_files + 10
    assert {sample.workspace for sample in samples} == {before}


async def test_a_layer_that_is_full_is_an_error_for_the_command_which_may_go_on(
    either: Sandbox, folder: Path
) -> None:
    ended = await either.run(
        # The watchdog looks at the full layer meanwhile.
        "for i in 1 2 3; do head -c 3900000 /dev/zero >f$i; done; sleep 0.3; rm f*; "
        "echo kept >kept; echo on",
        workspace_of(folder),
    )

    assert FULL in ended.output.head
    assert ended.output.head.endswith("on\n")
    assert (ended.code, ended.reason, ended.files.problem) == (0, "", "")
    assert names_in(folder) == ["kept"]


async def test_a_layer_full_of_files_is_an_error_too_and_what_fits_is_kept(
    either: Sandbox, folder: Path
) -> None:
    ended = await either.run(
        "for i in $(seq 400); do : >$i || break; done", workspace_of(folder), seconds=15
    )

    assert FULL in ended.output.head
    assert (ended.reason, ended.files.problem) == ("", "")
    assert ROOM.user_files - 5 <= len(names_in(folder)) <= ROOM.user_files


async def test_a_full_workspace_can_be_cleared_by_a_command(sandbox: Sandbox, folder: Path) -> None:
    for number in range(400):
        (folder / f"{number}").write_bytes(bytes(50_000))

    full = await sandbox.run("rm -r *", workspace_of(folder), seconds=15)

    assert (full.code, full.reason, full.files.problem) == (0, "", "")
    assert names_in(folder) == []


async def test_what_is_written_counts_as_memory_of_the_command(host: Host, folder: Path) -> None:
    settings = replace_settings(SMALL, memory_mb=64, file_mb=64)
    room = WorkspaceSettings(user_bytes=1_000_000_000, user_files=300)
    command = (
        "head -c 30M /dev/zero >f; head -c 9M /dev/zero >g; "
        "exec python3 -c 'import signal; x = bytes(b\"x\" * 36_000_000); signal.pause()'"
    )
    with ThreadPoolExecutor(4) as executor:
        sandbox = Sandbox(host, settings, executor)

        ended = await sandbox.run(command, workspace_of(folder, room=room), seconds=15)

    assert FULL in ended.output.head
    assert "more than 64 MB of memory, the files that it wrote included" in ended.reason


# -- the take-over ---------------------------------------------------------------------------------


async def test_all_that_a_command_did_to_files_is_in_the_workspace_when_it_has_ended(
    either: Sandbox, folder: Path
) -> None:
    for name in ("changed", "removed", "gone/a", "gone/b/c", "again/old", "same/file", "kind"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "same/file").chmod(0o700)
    (folder / "link").symlink_to("changed")
    same = (folder / "same/file").stat()

    ended = await either.run(
        "echo more >>changed; rm removed; rm -r gone; rm -r again; mkdir again; echo new >again/x; "
        "mkdir -p a/b/c; echo deep >a/b/c/d; ln -s /etc/passwd out; rm kind; mkdir kind; "
        ": >kind/k; "
        "printf '#!/bin/sh' >run; chmod 4777 run; mkfifo pipe; ln changed second; touch -d @1 run; "
        "rm link; echo file >link; mkdir closed; echo x >closed/x; chmod 0 closed/x closed",
        workspace_of(folder),
    )

    assert (ended.code, ended.output.head) == (0, "")
    assert ended.files.problem == ""
    assert ended.files.left_out == 1
    assert contents_of(folder) == {
        "changed": "changedmore\n",
        "second": "changedmore\n",
        "again": "/",
        "again/x": "new\n",
        "a": "/",
        "a/b": "/",
        "a/b/c": "/",
        "a/b/c/d": "deep\n",
        "same": "/",
        "same/file": "same/file",
        "kind": "/",
        "kind/k": "",
        "run": "#!/bin/sh",
        "out": "/etc/passwd",
        "link": "file\n",
        "closed": "/",
        "closed/x": "x\n",
    }
    assert (folder / "same/file").stat().st_ino == same.st_ino
    run = (folder / "run").stat()
    assert (run.st_mode & 0o7777, run.st_mtime) == (0o755, 1)
    assert (folder / "second").stat().st_nlink == 1
    assert names_in(folder.parent / "commands") == []


async def test_changes_that_do_not_fit_are_discarded_as_a_whole_and_that_is_told(
    either: Sandbox, folder: Path
) -> None:
    (folder / "large").write_bytes(os.urandom(3_900_000))
    run = folder.parent / "runs" / "r1"
    run.mkdir(parents=True)
    (run / "old").write_text("old")

    ended = await either.run(
        "ls; rm old; for i in 1 2; do head -c 2500000 /dev/zero >f$i; done",
        workspace_of(run, levels=2),
    )
    left = await either.run("ls; rm *", workspace_of(run, levels=2))

    assert ended.files.problem == (
        "All its changes to files were discarded, and the workspace is as before: This user's "
        f"files would take 8.9 MB together, and 8.0 MB is the most. {MAKE_ROOM}"
    )
    assert (ended.code, ended.output.head, left.output.head) == (0, "old\n", "old\n")
    assert (left.files.problem, names_in(run)) == ("", [])


async def test_names_and_holes_do_not_multiply_the_room(either: Sandbox, folder: Path) -> None:
    ended = await either.run(
        "head -c 3000000 /dev/zero >a; for i in 1 2 3; do ln a b$i; done; truncate -s 4M hole",
        workspace_of(folder),
    )

    assert "would take 16.2 MB together" in ended.files.problem
    assert names_in(folder) == []


async def test_folders_nested_deeper_than_anyone_needs_are_not_taken_over(
    either: Sandbox, folder: Path
) -> None:
    ended = await either.run(
        python("import os\nfor _ in range(290):\n    os.mkdir('d')\n    os.chdir('d')"),
        workspace_of(folder),
    )

    assert "its folders are nested too deep" in ended.files.problem
    assert names_in(folder) == []


async def test_what_a_command_did_before_it_was_stopped_or_ran_out_of_time_is_kept(
    either: Sandbox, folder: Path
) -> None:
    mark = f"600.{time.monotonic_ns()}"
    async with asyncio.TaskGroup() as group:
        task = group.create_task(
            either.run(f"echo one >one; sleep {mark}", workspace_of(folder), seconds=30)
        )
        await begun("sleep", mark)
        task.cancel()

    late = await either.run("echo two >two; sleep 600", workspace_of(folder), seconds=1)

    assert "longer than 1 s" in late.reason
    assert names_in(folder) == ["one", "two"]


# -- others ----------------------------------------------------------------------------------------


async def test_two_commands_and_a_file_tool_at_once_wait_for_nobody_and_lose_nothing(
    either: Sandbox, folder: Path
) -> None:
    workspace = workspace_of(folder)
    workspace.write("shared.txt", b"start")
    marks = [f"{number}00.{time.monotonic_ns()}" for number in (5, 6)]
    commands = [
        f"cat shared.txt; echo {n} >>shared.txt; echo {n} >own{n}; timeout 2 sleep {mark}; "
        "cat shared.txt; ls"
        for n, mark in enumerate(marks)
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(either.run(each, workspace)) for each in commands]
        for mark in marks:
            await begun("sleep", mark)
        await asyncio.to_thread(workspace.write, "tool.txt", b"tool")
        written = workspace.read("shared.txt"), workspace.read("tool.txt")

    assert written == (b"start", b"tool")
    for n, task in enumerate(tasks):
        assert task.result().output.head == f"startstart{n}\nown{n}\nshared.txt\n"
    files = {name: (folder / name).read_text() for name in names_in(folder)}
    versions = {files.pop("shared.txt"), files.pop("shared.txt.conflict-1")}
    assert versions == {"start0\n", "start1\n"}
    assert files == {"own0": "0\n", "own1": "1\n", "tool.txt": "tool"}
    told = [task.result().files.conflicts for task in tasks]
    assert sorted(told) == [(), (("shared.txt", "shared.txt.conflict-1"),)]


# -- systems without ------------------------------------------------------------------------------

#: Starts the real bubblewrap unless an option is asked for that it is to lack.
OLDER = """\
#!{python}
import os, sys
with open(int(sys.argv[2]), "rb", closefd=False) as file:
    if b"--overlay" in file.read():
        sys.exit("bwrap: Unknown option --overlay-src")
os.lseek(int(sys.argv[2]), 0, os.SEEK_SET)
os.execv({bwrap!r}, [sys.argv[0], *sys.argv[1:]])
"""


@pytest.fixture
def only(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a program the only bubblewrap of this machine."""

    def make(script: str) -> None:
        path = tmp_path / "programs" / "bwrap"
        path.parent.mkdir()
        path.write_text(script)
        path.chmod(0o755)
        only = [replace(host, bwrap=str(path), library=str(path.parent))]
        monkeypatch.setattr("skills.shell.selftest.hosts", lambda _: only)

    return make


async def test_where_there_is_no_overlay_a_command_works_on_a_copy(
    host: Host, folder: Path, only: Callable[[str], None]
) -> None:
    only(OLDER.format(python=PYTHON, bwrap=host.bwrap))
    (folder / "old").write_text("old")

    async with open_sandbox(SMALL) as sandbox:
        ended = await sandbox.run("cat old; rm old; echo new >new", workspace_of(folder))

    assert not sandbox.is_overlay
    assert ended.output.head == "old"
    assert names_in(folder) == ["new"]


async def test_without_either_there_is_no_sandbox_and_the_reason_is_told(
    only: Callable[[str], None], tmp_path: Path
) -> None:
    only("#!/bin/sh\necho 'bwrap: No permissions to create new namespace'\nexit 1\n")

    with pytest.raises(SandboxUnavailableError, match="refuses namespaces"):
        async with open_sandbox(SMALL):
            pass
    told = await sandbox_finding(tmp_path)

    assert told.good is None
    assert told.text.startswith(
        "the shell tool is off. This system refuses namespaces to bubblewrap"
    )


@pytest.mark.parametrize(("script", "way"), [("", "an overlay"), (OLDER, "a copy")])
async def test_the_doctor_says_which_of_both_ways_this_machine_has(
    host: Host, tmp_path: Path, only: Callable[[str], None], script: str, way: str
) -> None:
    if script:
        only(script.format(python=PYTHON, bwrap=host.bwrap))

    told = await sandbox_finding(tmp_path)

    assert told.good is True
    assert "passes its self-test: the shell tool is on. Limits here: " in told.text
    assert f"files and bytes on disk by the kernel ({way} in memory)" in told.text


async def sandbox_finding(folder: Path) -> Check:
    """Return what the doctor says of the sandbox."""
    config = Config(
        database=DatabaseSettings(url=f"sqlite:///{folder}/bot.db"),
        workspaces=WorkspaceSettings(folder=str(folder / "workspaces")),
    )
    return next(each for each in await examine(config) if each.subject == "Sandbox")
