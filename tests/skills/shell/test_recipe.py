"""The recipe as it is written down; that it holds is tried in `real`."""

from dataclasses import replace
from pathlib import Path

import pytest

from skills.shell.host import AROUND, Host
from skills.shell.recipe import (
    COVERED,
    FILES,
    Descriptors,
    LayerLimits,
    ShownFolders,
    account_of,
    command_line,
    options,
)
from skills.shell.settings import ShellSettings

HOST = Host(
    bwrap="/usr/bin/bwrap",
    is_root=False,
    machine="x86_64",
    around={name: f"/usr/bin/{name}" for name in AROUND},
    within={name: f"/usr/bin/{name}" for name in ("prlimit", "timeout")},
    shell="/bin/bash",
    links=(("/bin", "usr/bin"),),
    folders=("/lib64",),
    configuration=("/etc/localtime",),
    masked=("/usr/src",),
)
ROOT = replace(HOST, is_root=True)
LAYER = LayerLimits(size=8_000_000, count=305, is_overlay=True)
DESCRIPTORS = Descriptors(
    options=10,
    command=11,
    filter=12,
    information=13,
    files={path: number for number, path in enumerate((*FILES, *COVERED), 15)},
)


def line(host: Host = HOST, account: int | None = None) -> str:
    given = command_line(
        host, ShellSettings(), DESCRIPTORS, account=account, seconds=20, layer=LAYER
    )
    return " ".join(given)


def given(host: Host = HOST, layer: LayerLimits = LAYER) -> str:
    return options(host, ShellSettings(), DESCRIPTORS, layer).decode()


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
        "--overlay-src /mnt/lower --overlay /mnt/layer/up /mnt/layer/work /workspace",
        "/workspace --remount-ro /",
        *("--proc /proc", f"--ro-bind-data {15 + len(FILES)} /proc/cmdline"),
    ],
)
def test_every_part_of_the_recipe_is_there(part: str) -> None:
    assert f" {part} " in f" {given().replace(chr(0), ' ')} "


def test_nothing_that_was_asked_for_stands_on_a_command_line() -> None:
    for shown in (line(), line(ROOT, 1_900_000_001)):
        assert "--args 10 --" in shown
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


def test_what_a_command_writes_goes_to_a_layer_of_limited_size() -> None:
    for shown in (line(), line(ROOT, 1_900_000_001)):
        assert 'mount -t tmpfs -o "size=$2,nr_inodes=$3,' in shown
        assert " 8000000 305 " in shown

    copied = given(layer=replace(LAYER, is_overlay=False)).replace("\0", " ")
    assert " --bind /mnt/layer/up /workspace --remount-ro / " in copied
    assert "overlay" not in copied


def test_the_bots_own_account_is_taken_unless_it_is_root() -> None:
    own = line()
    assert "unshare --user --map-current-user --keep-caps --mount" in own
    assert "setpriv --ambient-caps=-all --inh-caps=-all --no-new-privs" in own
    assert "--reuid" not in own

    as_root = line(ROOT, 1_900_000_001)

    assert "setpriv --reuid=1900000001 --regid=1900000001 --clear-groups" in as_root
    assert as_root.index("unshare") < as_root.index("setpriv") < as_root.index("choom")


def test_a_bubblewrap_that_only_root_can_reach_is_mounted_where_others_can() -> None:
    packaged = replace(ROOT, bwrap="/root/v/lib/bin/bwrap", library="/root/v/lib")

    assert "-- /mnt/library/bin/bwrap --args" in line(packaged, 1_900_000_001)
    assert "-- /mnt/library/bin/bwrap --args" in line(replace(packaged, is_root=False))


def test_every_workspace_has_an_account_of_its_own_and_keeps_it() -> None:
    accounts = [account_of(f"/data/{number}/own", 0) for number in range(200)]

    assert len(set(accounts)) == 200
    assert all(1_900_000_000 <= account < 2**31 for account in accounts)
    assert account_of("/data/1/own", 0) == accounts[1]
    assert account_of("/data/1/own", 4711) == 4711


def test_folders_of_skills_are_shown_read_only_before_the_top_is_closed() -> None:
    shown = ShownFolders(skills=Path("/data/shell/skills/1"))
    overlay, copy = (
        options(HOST, ShellSettings(), DESCRIPTORS, layer, shown).decode().replace("\0", " ")
        for layer in (LAYER, replace(LAYER, is_overlay=False))
    )

    assert (
        " --overlay-src /mnt/nothing --overlay-src /mnt/skills --ro-overlay /skills --remount-ro / "
    ) in overlay
    assert " --ro-bind /mnt/skills /skills --remount-ro / " in copy
    assert "/data" not in overlay + copy
    assert "/skills" not in given()


def test_packages_come_first_on_the_path_and_python_is_there_without_them() -> None:
    host = replace(HOST, python="/usr/bin/python3")
    shown = ShownFolders(python=Path("/data/shell/python/1"))
    with_packages = options(host, ShellSettings(), DESCRIPTORS, LAYER, shown).decode().split("\0")
    without = options(host, ShellSettings(), DESCRIPTORS, LAYER).decode().split("\0")

    paths = [given[given.index("PATH") + 1] for given in (with_packages, without)]
    assert paths[0] == f"/run/python/bin:{paths[1]}"
    assert paths[1].startswith("/usr/local/bin:")
    assert paths[1].endswith(":/run/bin")
    for given in (with_packages, without):
        at = given.index("/run/bin/python")
        assert given[at - 2 : at] == ["--symlink", "/usr/bin/python3"]
    at = with_packages.index("--ro-overlay")
    assert with_packages[at - 4 : at + 2] == [
        *("--overlay-src", "/mnt/nothing", "--overlay-src", "/mnt/python"),
        *("--ro-overlay", "/run/python"),
    ]
