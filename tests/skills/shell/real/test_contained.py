"""What takes too much is ended soon, and nothing is left of it, however it ends."""

import asyncio
import shutil
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skills.shell.cgroups import Cgroups, KernelFiles
from skills.shell.host import Host
from skills.shell.shell import CommandResult, Sandbox
from tests.skills.shell.real.conftest import SMALL, replace_settings, workspace_of
from tests.skills.shell.real.watching import Dying, begun, living, working_in

pytestmark = pytest.mark.timeout(50)

#: For a machine that is busy; each of these takes a fraction of a second on one that is not.
SOON_SECONDS = 20


@pytest.fixture
def mark() -> str:
    """Stands on the command lines of a test, and of no other."""
    return f"0.{uuid.uuid4().int % 10**12:012}"


def staying(mark: str) -> str:
    """Return a command that stays, beside a daemon of its own."""
    daemon = f"sleep 9{mark}; true"
    return f"sh -c '(setsid sh -c \"{daemon}\" >/dev/null 2>&1 &); sleep 8{mark}; true'; true"


def python(script: str) -> str:
    return f"exec python3 - <<'END'\n{script}\nEND\n"


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def ended_soon(
    sandbox: Sandbox, command: str, folder: Path, seconds: float = 15
) -> CommandResult:
    began = time.monotonic()
    ended = await sandbox.run(command, workspace_of(folder), seconds=seconds)
    assert time.monotonic() - began < SOON_SECONDS
    return ended


MEMORY_OF_ONE = python("""\
import os
held = []
for _ in range(120):
    held.append(os.urandom(1 << 20))
held.append(bytes(b"x") * (1 << 30))
""")
MEMORY_OF_MANY = python("""\
import os, signal
for _ in range(10):
    if not os.fork():
        held = [os.urandom(1 << 20) for _ in range(30)]
        signal.pause()
signal.pause()
""")
MANY_IN_TMP = python("""\
import os, signal
for number in range(100_000):
    os.mknod(f"/tmp/{number}")
signal.pause()
""")

FILL = """\
import array, mmap, os, signal, socket
def fill(end):
    end.setblocking(False)
    taken = 0
    try:
        while True:
            taken += end.send(bytes(65_536))
    except BlockingIOError:
        return taken
"""
#: 60 pairs hold 8 MB each with the buffers that they ask for, and some 0.4 MB with the usual ones.
SOCKET_BUFFERS = python(f"""\
{FILL}
held, taken = [], 0
for _ in range(60):
    held.append(socket.socketpair())
    for end in held[-1]:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_000_000)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
        taken += fill(end)
with socket.socket() as other:
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    print(taken, other.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR), flush=True)
""")
MANY_SOCKETS = python(f"""\
{FILL}
held = []
for _ in range(4):
    if not os.fork():
        for _ in range(100):
            held.append(socket.socketpair())
            for end in held[-1]:
                fill(end)
        signal.pause()
signal.pause()
""")
TCP_BUFFERS = python(f"""\
{FILL}
held = []
with socket.create_server(("127.0.0.1", 0)) as server:
    for _ in range(100):
        held.append(socket.create_connection(server.getsockname()))
        fill(held[-1])
        held.append(server.accept()[0])
        fill(held[-1])
    signal.pause()
""")
PAGE_TABLES = python("""\
import mmap, os, signal
for _ in range(8):
    if not os.fork():
        held = mmap.mmap(-1, 20 << 30, flags=0x4022, prot=mmap.PROT_READ)
        held.madvise(15)  # no huge pages
        for place in range(0, 20 << 30, 2 << 20):
            held[place]
        signal.pause()
signal.pause()
""")
#: Descriptors that are nowhere but on their way, each with a filled socket behind it.
IN_FLIGHT = python(f"""\
{FILL}
left, right = socket.socketpair()
sent = 0
try:
    while sent < 5_000:
        pair = socket.socketpair()
        for end in pair:
            fill(end)
        rights = array.array("i", [end.fileno() for end in pair])
        left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        sent += 2
        for end in pair:
            end.close()
except OSError as error:
    print("stopped after", sent, error)
""")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        pytest.param(MANY_SOCKETS, "more than 160 MB of memory", id="socket buffers of many"),
        pytest.param(TCP_BUFFERS, "more than 160 MB of memory", id="buffers of TCP"),
        pytest.param(PAGE_TABLES, "more than 160 MB of memory", id="page tables"),
        pytest.param(MEMORY_OF_MANY, "more than 160 MB of memory", id="memory of many"),
        pytest.param("yes", "printed more than 1 MB", id="endless output"),
        pytest.param("yes >&2", "printed more than 1 MB", id="endless errors"),
        pytest.param(MANY_IN_TMP, "more than 2,000 files in /tmp", id="many files in /tmp"),
    ],
)
async def test_what_takes_too_much_is_ended_and_told(
    sandbox: Sandbox, folder: Path, command: str, told: str
) -> None:
    ended = await ended_soon(sandbox, command, folder)

    assert told in ended.reason


@pytest.mark.parametrize(
    ("command", "told"),
    [
        pytest.param(MEMORY_OF_ONE, "MemoryError", id="memory of one"),
        pytest.param("head -c 9999999 /dev/zero >big", "File size limit", id="one large file"),
        pytest.param("head -c 9999999 /dev/zero >/tmp/big", "", id="all of /tmp"),
        pytest.param("head -c 99999999 /dev/zero >/dev/shm/big", "", id="all of /dev/shm"),
        pytest.param(
            "b() { b | b & }; b 2>&1 | grep -m1 'fork: retry'", "fork: retry", id="fork bomb"
        ),
        pytest.param(
            python(
                "import threading, time\n"
                "for _ in range(500):\n"
                "    threading.Thread(target=time.sleep, args=[1], daemon=True).start()\n"
            ),
            "can't start new thread",
            id="threads",
        ),
    ],
)
async def test_what_meets_a_limit_of_the_system_gets_no_further(
    sandbox: Sandbox, folder: Path, command: str, told: str
) -> None:
    ended = await ended_soon(sandbox, command, folder)

    output = ended.output.head + ended.output.tail
    assert (told in output and (ended.code or "fork" in told)) or "memory" in ended.reason
    assert size_of(folder) <= 4 * 1024 * 1024


async def test_a_socket_does_not_get_the_buffers_that_it_asks_for(
    roomy: Sandbox, folder: Path
) -> None:
    """Buffers are memory of the kernel, which no counter of a process shows."""
    ended = await ended_soon(roomy, SOCKET_BUFFERS, folder)

    taken, reuses_addresses = map(int, ended.output.head.split())
    assert taken <= 120 * 250_000
    assert reuses_addresses


async def test_descriptors_on_their_way_are_few(sandbox: Sandbox, folder: Path) -> None:
    ended = await ended_soon(sandbox, IN_FLIGHT, folder)

    assert ended.output.head.startswith("stopped after ")
    assert int(ended.output.head.split()[2]) <= 300


async def test_a_command_that_takes_too_long_is_ended_with_all_its_processes(
    sandbox: Sandbox, folder: Path, mark: str
) -> None:
    ended = await sandbox.run(
        f"echo begun; (setsid sleep 9{mark} &) ; trap '' TERM INT HUP; sleep 8{mark}",
        workspace_of(folder),
        seconds=3,
    )

    assert "longer than 3 s" in ended.reason
    assert ended.output.head == "begun\n"
    assert living(mark) == []


async def test_processes_that_a_command_leaves_behind_end_with_it(
    sandbox: Sandbox, folder: Path, mark: str
) -> None:
    ended = await sandbox.run(
        f"setsid sleep 9{mark} >/dev/null 2>&1 & (nohup setsid sleep 8{mark} & ) ; "
        "echo gone; exit 4",
        workspace_of(folder),
        seconds=15,
    )

    assert (ended.code, ended.reason) == (4, "")
    assert "gone" in ended.output.head
    assert living(mark) == []


async def test_nothing_is_left_of_a_command_whose_caller_was_cancelled(
    sandbox: Sandbox, folder: Path, mark: str
) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(sandbox.run(staying(mark), workspace_of(folder), seconds=30))
        await begun("sleep", f"9{mark}")
        there = living(mark)
        task.cancel()

    assert len(there) >= 2
    assert living(mark) == []


async def test_a_command_that_is_cancelled_before_it_has_begun_leaves_nothing(
    sandbox: Sandbox, folder: Path, mark: str
) -> None:
    """Whatever the moment: while it is being prepared, started, or let go."""
    for turns in range(0, 40, 3):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                sandbox.run(f"sleep 9{mark}", workspace_of(folder), seconds=30)
            )
            for _ in range(turns):
                await asyncio.sleep(0.001)
            task.cancel()

    assert living(mark) == []
    assert working_in(folder.parent) == []


BOT = """\
import asyncio, sys
from pathlib import Path
from skills.shell.selftest import open_sandbox
from skills.shell.settings import ShellSettings
from tests.skills.shell.real.conftest import ROOM, workspace_of

async def main():
    async with open_sandbox(ShellSettings()) as sandbox:
        await sandbox.run(sys.argv[1], workspace_of(Path(sys.argv[2])), seconds=40)

asyncio.run(main())
"""


async def test_no_command_survives_a_bot_that_is_killed_and_nothing_of_it_is_taken_over(
    sandbox: Sandbox, folder: Path, mark: str
) -> None:
    command = f"echo half >half; {staying(mark)}"
    bot = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BOT, command, str(folder), cwd=Path(__file__).parents[4]
    )
    await begun("sleep", f"9{mark}")
    commands = [process for process in living(mark) if process != bot.pid]
    assert len(commands) >= 2
    dying = Dying(commands)

    bot.kill()

    assert await dying.dead()
    await bot.wait()
    assert living(mark) == []
    assert names_in(folder) == []
    views = folder.parent / "commands"
    assert len(names_in(views)) == 1
    await sandbox.run("true", workspace_of(folder))
    assert names_in(views) == []


async def test_nothing_is_left_of_a_bot_that_is_killed_while_a_sandbox_is_made(
    tmp_path: Path, mark: str
) -> None:
    """Whatever the moment. The command, once it runs, is in the test above."""
    folders = [tmp_path / f"{number}" / "own" for number in range(12)]
    script = BOT.replace("    async with", "    print('up', flush=True)\n    async with", 1)

    async def killed_at(folder: Path, seconds: float) -> None:
        bot = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", script, f"sleep 9{mark}; true", str(folder)),
            cwd=Path(__file__).parents[4],
            stdout=asyncio.subprocess.PIPE,
        )
        assert bot.stdout is not None
        await bot.stdout.readline()
        # The moment matters here, and not that something has happened.
        await asyncio.sleep(seconds)
        bot.kill()
        await bot.communicate()

    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        await killed_at(folder, number * 0.015)

    left = [process for folder in folders for process in working_in(folder.parent)]
    assert await Dying([*left, *living(mark)]).dead()


async def test_a_long_output_is_told_by_its_beginning_and_its_end(
    sandbox: Sandbox, folder: Path
) -> None:
    ended = await sandbox.run("seq 100000; echo the end", workspace_of(folder), seconds=15)

    assert ended.code == 0
    assert ended.output.head.startswith("1\n2\n")
    assert ended.output.tail.endswith("100000\nthe end\n")
    assert len(ended.output.head) == len(ended.output.tail) == 2048
    assert ended.output.missing == 588_895 + 8 - 4096


async def test_commands_run_at_the_same_time_and_see_nothing_of_one_another(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    folders = [tmp_path / f"{number}" / "own" for number in range(6)]
    for folder in folders:
        folder.mkdir(parents=True)
    command = "echo $$ >/tmp/mine; ls /proc | grep -c '^[0-9]'; ls /tmp; touch here"

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(sandbox.run(command, workspace_of(folder), seconds=15))
            for folder in folders
        ]

    for task, folder in zip(tasks, folders, strict=True):
        count, *names = task.result().output.head.split()
        assert int(count) <= 6
        assert names == ["mine"]
        assert names_in(folder) == ["here"]


async def test_twelve_long_commands_of_one_user_leave_a_slot_for_another(
    host: Host, folder: Path
) -> None:
    settings = replace_settings(SMALL, at_once=4)
    with ThreadPoolExecutor(4) as executor:
        sandbox = Sandbox(host, settings, executor)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    sandbox.run("sleep 600", workspace_of(folder), user="eve", seconds=600)
                )
                for _ in range(12)
            ]
            await asyncio.sleep(0)
            ended = await sandbox.run("echo done", workspace_of(folder), user="alice", seconds=15)
            for task in tasks:
                task.cancel()

    assert ended.output.head == "done\n"


class GroupsInAFolder(KernelFiles):
    """Cgroups that are ordinary folders: they limit nothing, and keep who joined."""

    def __init__(self) -> None:
        self.joined: list[str] = []
        self.limits: dict[str, str] = {}

    def read(self, path: Path) -> str:
        return {"cgroup.events": "populated 0\n", "memory.events": "oom_kill 1\n"}[path.name]

    def write(self, path: Path, text: str) -> None:
        self.limits[path.name] = text

    def make(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "cgroup.procs").touch(mode=0o666)

    def remove(self, folder: Path) -> None:
        self.joined.append((folder / "cgroup.procs").read_text())
        shutil.rmtree(folder)

    def is_delegated(self, folder: Path) -> bool:
        return False


async def test_a_command_joins_its_cgroup_and_an_end_for_memory_there_is_told(
    host: Host, folder: Path, tmp_path: Path
) -> None:
    kernel = GroupsInAFolder()
    groups = Cgroups(tmp_path / "groups", kernel)
    groups.folder.mkdir()
    with ThreadPoolExecutor(4) as executor:
        sandbox = Sandbox(host, SMALL, executor, groups=groups)
        ended = await sandbox.run("echo done", workspace_of(folder), seconds=15)

    assert kernel.joined == ["0\n"]
    assert kernel.limits["memory.max"] == str((160 + 2 * 4) * 1024 * 1024)
    assert int(kernel.limits["pids.max"]) > 24
    assert ended.output.head == "done\n"
    assert "more than 160 MB of memory" in ended.reason
