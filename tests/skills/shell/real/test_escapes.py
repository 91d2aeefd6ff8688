"""What a command cannot reach. Each way is tried outside as well, where it leads somewhere."""

import asyncio
import json
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from skills.shell.shell import Sandbox
from tests.skills.shell.real.conftest import workspace_of
from tests.skills.shell.real.watching import PYTHON

CANARY = "canary-5f1d0c77"
SECRET = "what another person wrote"
MACHINE = Path("/proc/cmdline").read_text()
PROBES = Path(__file__).with_name("probes.py")

#: Open to everybody outside, whatever the machine.
OPEN_OUTSIDE = {
    "users_of_the_machine",
    "file_of_another_person",
    "through_a_link",
    "through_a_hard_link",
    "through_the_root_of_a_process",
    "through_an_inherited_file",
    "writing_elsewhere",
    "other_folders",
    "environment",
    "environment_of_the_bot",
    "place_of_the_workspace",
    "command_line_of_the_machine",
    "tcp",
    "tcp6",
    "udp",
    "unix",
    "abstract",
    "sockets_of_others",
    "netlink",
    "seeing_the_bot",
    "signal_to_the_bot",
    "tracing",
    "new_user_namespace",
    "new_user_namespace_by_clone",
    "setuid_program",
    "devices",
    "more_processes",
    "more_memory",
    "shared_memory_without_a_file",
    "shared_memory_of_dev_zero",
    "memory_file",
    "system_v_memory",
    "system_v_messages",
}
#: Besides, to root.
OPEN_TO_ROOT = {
    "passwords",
    "tracing_the_bot",
    "being_root",
    "being_another",
    "another_root",
    "capabilities",
}
#: Would change this machine.
NOT_OUTSIDE = ["writing_to_the_system", "other_kernel"]


@pytest.fixture
def services(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Servers of this machine that nobody inside should reach."""
    with ExitStack() as stack:

        def listening(family: int, kind: int, address: Any) -> socket.socket:
            opened = stack.enter_context(socket.socket(family, kind))
            opened.bind(address)
            if kind == socket.SOCK_STREAM:
                opened.listen()
            return opened

        tcp = listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        udp = listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        path, name = str(tmp_path / "socket"), f"retinue-{os.getpid()}"
        listening(socket.AF_UNIX, socket.SOCK_STREAM, path)
        listening(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + name)
        udp.setblocking(False)
        yield {
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "unix": path,
            "abstract": name,
            "answering": udp,
        }


@pytest.fixture
async def bot(folder: Path) -> AsyncIterator[int]:
    """A process that knows a secret, and where the workspace is."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "print('up', flush=True); input()",
        env={"KEY": CANARY, "FOLDER": str(folder)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    yield process.pid
    process.kill()
    await process.communicate()


@pytest.fixture
async def what(
    services: dict[str, Any], bot: int, tmp_path: Path, folder: Path
) -> AsyncIterator[dict[str, Any]]:
    udp = services.pop("answering")
    loop = asyncio.get_running_loop()

    def answer() -> None:
        _, sender = udp.recvfrom(100)
        udp.sendto(b"pong", sender)

    loop.add_reader(udp, answer)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    outside = tmp_path / "outside"
    shared = {"bot": bot, "canary": CANARY, "secret": str(secret), "outside": str(outside)}
    places = {"folder": str(folder), "place": str(tmp_path), "machine": MACHINE}
    yield {**services, **shared, **places, "leave_out": []}
    loop.remove_reader(udp)


async def outside(what: dict[str, Any], folder: Path) -> dict[str, str | None]:
    """Return what the probes reach without a sandbox."""
    (folder / "what.json").write_text(json.dumps(what | {"leave_out": NOT_OUTSIDE, "seconds": 10}))
    with PROBES.open() as inherited:
        process = await asyncio.create_subprocess_exec(
            PYTHON or sys.executable,
            str(PROBES),
            cwd=folder,
            env={"KEY": CANARY},
            stdout=asyncio.subprocess.PIPE,
            pass_fds=[inherited.fileno()],
            start_new_session=True,
        )
        printed, _ = await process.communicate()
    return found_in(printed.decode())


def found_in(printed: str) -> dict[str, str | None]:
    line = next((line for line in printed.splitlines() if line.startswith("found ")), None)
    assert line is not None, printed
    found: dict[str, str | None] = json.loads(line.removeprefix("found "))
    return found


async def test_no_way_leads_out_of_the_sandbox_and_the_same_ways_are_open_outside(
    roomy: Sandbox,
    what: dict[str, Any],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert PYTHON, "The probes need a python3 below /usr."
    monkeypatch.setenv("RETINUE_KEY", CANARY)
    shutil.copy(PROBES, folder / "probes.py")
    (folder / "what.json").write_text(json.dumps(what | {"seconds": 0.3}))
    beside = tmp_path / "beside"
    beside.mkdir()

    ended = await roomy.run("python3 probes.py", workspace_of(folder))
    inside = found_in(ended.output.head)
    written = (tmp_path / "outside").exists()
    control = await outside(what, beside)

    assert {name: reached for name, reached in inside.items() if reached is not None} == {}
    assert not written
    assert len(inside) >= 60
    is_open = {name for name, reached in control.items() if reached is not None}
    assert OPEN_OUTSIDE - is_open == set()
    if os.geteuid() == 0:
        assert OPEN_TO_ROOT - is_open == set()


async def test_only_the_workspace_is_shared_and_it_is_the_callers(
    sandbox: Sandbox, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "fedcba" / "own"
    other.mkdir(parents=True, mode=0o700)
    (other / "diary.txt").write_text(SECRET)
    (folder / "mine.txt").write_text("mine")
    (folder / "mine.txt").chmod(0o600)

    ended = await sandbox.run(
        "cat mine.txt; echo more >>mine.txt; mkdir a && echo new >a/b; "
        f"ls -a / .. {tmp_path} {other}; cat {other}/diary.txt; "
        "grep -rs 'another person' /etc /run /tmp /workspace",
        workspace_of(folder),
    )

    assert ended.output.head.startswith("mine")
    assert SECRET not in ended.output.head
    assert "diary" not in ended.output.head.replace(f"{other}/diary.txt", "")
    assert (folder / "mine.txt").read_text() == "minemore\n"
    assert (folder / "a" / "b").read_text() == "new\n"


async def test_what_is_planted_in_a_workspace_is_never_run_outside(
    sandbox: Sandbox, folder: Path, tmp_path: Path
) -> None:
    """Nothing of the bot looks for settings or programs in the folder that it starts in."""
    mark = tmp_path / "was-run"
    planted = f"#!/bin/sh\necho run >{mark}\n"
    names = ("choom", "nice", "prlimit", "setpriv", "bwrap", "sh", "mount", "mkdir", ".profile")
    for name in names:
        (folder / name).write_text(planted)
        (folder / name).chmod(0o755)

    ended = await sandbox.run("echo fine", workspace_of(folder))

    assert ended.output.head == "fine\n"
    assert not mark.exists()


async def test_a_command_in_a_sandbox_can_do_its_work(roomy: Sandbox, folder: Path) -> None:
    ended = await roomy.run(
        """\
set -e
printf 'b\\na\\n' | sort >sorted && cat sorted
echo kept >/tmp/x && cat /tmp/x
python3 - <<'END'
import http.server, multiprocessing, socket, sqlite3, threading, urllib.request
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/sorted").read())
base = sqlite3.connect("base.db")
print(base.execute("pragma journal_mode=wal").fetchone(), base.execute("select 6 * 7").fetchone())
END
exit 3
""",
        workspace_of(folder),
    )

    assert "a\nb\nkept\n" in ended.output.head
    assert "[1, 2]\n" in ended.output.head
    assert "b'a\\nb\\n'" in ended.output.head
    assert "('wal',) (42,)" in ended.output.head
    assert (ended.code, ended.reason) == (3, "")
