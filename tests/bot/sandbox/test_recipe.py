"""The recipe as it is written down; that it holds is tried in `real`."""

from dataclasses import replace

import pytest

from bot.sandbox.host import Host
from bot.sandbox.recipe import Descriptors, account_of, command_line, options
from bot.sandbox.settings import ShellSettings

HOST = Host(
    bwrap="/usr/bin/bwrap",
    is_root=False,
    machine="x86_64",
    around={name: f"/usr/bin/{name}" for name in ("choom", "nice", "prlimit")},
    within={name: f"/usr/bin/{name}" for name in ("prlimit", "timeout")},
    shell="/bin/bash",
    links=(("/bin", "usr/bin"),),
    folders=("/lib64",),
    configuration=("/etc/localtime",),
    masked=("/usr/src",),
)
ROOT = replace(
    HOST,
    is_root=True,
    around=HOST.around | {name: f"/usr/bin/{name}" for name in ("setpriv", "unshare", "sh")},
)
DESCRIPTORS = Descriptors(
    options=10,
    command=11,
    filter=12,
    information=13,
    files={"/etc/passwd": 15},
)


def line(host: Host = HOST, account: int | None = None) -> str:
    given = command_line(host, ShellSettings(), DESCRIPTORS, account=account, seconds=20)
    return " ".join(given)


def given(host: Host = HOST, account: int | None = None) -> str:
    return options(host, ShellSettings(), DESCRIPTORS, "/w/0f/own", account).decode()


@pytest.mark.parametrize(
    "part",
    [
        *("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net"),
        *("--unshare-ipc", "--unshare-uts", "--unshare-cgroup", "--die-with-parent"),
        *("--new-session", "--clearenv", "--cap-drop ALL", "--uid 1000", "--seccomp 12"),
        *("--info-fd 13", "--ro-bind /usr /usr", "--symlink usr/bin /bin"),
        *("--tmpfs /usr/src --remount-ro /usr/src", "--dev-bind /dev/full /dev/zero"),
        "--perms 1777 --size 67108864 --tmpfs /tmp",
        "--perms 1777 --size 67108864 --tmpfs /dev/shm --remount-ro /dev",
        "--bind /w/0f/own /workspace --remount-ro /",
    ],
)
def test_every_part_of_the_recipe_is_there(part: str) -> None:
    assert f" {part} " in f" {given().replace(chr(0), ' ')} "


def test_nothing_that_was_asked_for_stands_on_a_command_line() -> None:
    for shown in (line(), line(ROOT, 1_900_000_001)):
        assert "--args 10 --" in shown
        assert "/w/0f/own" not in shown
        assert shown.endswith("/bin/bash /run/command")


def test_processes_are_counted_inside_and_all_else_is_limited_outside() -> None:
    outside, inside = line().split("bwrap")

    assert "choom -n 1000" in outside
    for limit in ("data=536870912", "fsize=67108864", "cpu=25", "nofile=256", "core=0"):
        assert f"--{limit}:" in outside
    assert "--nproc" not in outside
    assert "--nproc=64:64" in inside


def test_a_timer_inside_runs_out_after_ours() -> None:
    assert "timeout --signal=KILL 25 /bin/bash" in line()


def test_the_bots_own_account_is_taken_unless_it_is_root() -> None:
    assert "setpriv" not in line()

    as_root = line(ROOT, 1_900_000_001)

    assert "setpriv --reuid=1900000001 --regid=1900000001 --clear-groups" in as_root
    assert as_root.index("unshare") < as_root.index("setpriv") < as_root.index("choom")
    assert "--bind\0/mnt/workspace\0/workspace" in given(ROOT, 1_900_000_001)


def test_a_bubblewrap_that_only_root_can_reach_is_mounted_where_others_can() -> None:
    packaged = replace(ROOT, bwrap="/root/v/lib/bin/bwrap", library="/root/v/lib")

    assert "-- /mnt/library/bin/bwrap --args" in line(packaged, 1_900_000_001)
    assert "-- /root/v/lib/bin/bwrap --args" in line(replace(packaged, is_root=False))


def test_every_workspace_has_an_account_of_its_own_and_keeps_it() -> None:
    accounts = [account_of(f"/data/{number}/own", 0) for number in range(200)]

    assert len(set(accounts)) == 200
    assert all(1_900_000_000 <= account < 2**31 for account in accounts)
    assert account_of("/data/1/own", 0) == accounts[1]
    assert account_of("/data/1/own", 4711) == 4711
