"""Where the sandbox does not hold, or is not there, nothing is offered, and it is said why."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skills.files.settings import WorkspaceSettings
from skills.shell import host as host_module
from skills.shell.cgroups import Cgroups, KernelFiles
from skills.shell.host import AROUND, SCRIPTS, Host, SandboxUnavailableError, hosts, script
from skills.shell.output import CommandOutput
from skills.shell.selftest import enforced, explain, open_sandbox, problems
from skills.shell.settings import ShellSettings
from skills.shell.shell import CommandResult, Sandbox

ROOM = WorkspaceSettings(user_bytes=8_000_000, user_files=300)
GOOD = """\
status CapInh: 0000000000000000
status CapPrm: 0000000000000000
status CapEff: 0000000000000000
status CapBnd: 0000000000000000
status CapAmb: 0000000000000000
status NoNewPrivs: 1
status Seccomp: 2
limit 64 64
uid_map 1000          0          1
net Inter-|
net face
net lo:
sees /bin
sees /proc
sees /usr
sees /workspace
sees /skills
sees /proc/1
sees /proc/3
read tried
export declare -x PATH
export HOME
done
"""


def found(text: str = GOOD, *, code: int = 0, reason: str = "", wrote: bool = True) -> str:
    ended = CommandResult(code, CommandOutput(text), reason)
    return "; ".join(problems(ended, ShellSettings(), wrote=wrote))


def test_a_sandbox_that_holds_has_no_problems() -> None:
    assert found() == ""


@pytest.mark.parametrize(
    ("good", "bad", "told"),
    [
        ("CapEff: 0000000000000000", "CapEff: 000001ffffffffff", "CapEff is 000001ffffffffff"),
        ("CapBnd: 0000000000000000", "CapBnd: 0000000000000020", "CapBnd is"),
        ("NoNewPrivs: 1", "NoNewPrivs: 0", "NoNewPrivs is 0"),
        ("Seccomp: 2", "Seccomp: 0", "Seccomp is 0 inside"),
        ("status Seccomp: 2\n", "", "Seccomp is unknown"),
        ("limit 64 64", "limit 64 unlimited", "number of its processes is not"),
        ("uid_map 1000          0          1", "uid_map 0 0 4294967295", "other accounts"),
        ("net lo:", "net eth0:\nnet lo:", "sees the network: eth0, lo"),
        ("sees /usr\n", "sees /usr\nsees /home\n", "it sees /home"),
        ("sees /proc/3", "\n".join(f"sees /proc/{n}" for n in range(90)), "sees 91 processes"),
        ("sees /bin\n", "sees /bin\nwrote /etc\n", "it can write to /etc"),
        ("sees /bin\n", "sees /bin\nnested\n", "it can make namespaces"),
        ("read tried\n", "", "it cannot read /skills"),
        ("sees /bin\n", "sees /bin\nwrote /skills\n", "it can write to /skills"),
        ("export HOME", "export DISCORD_TOKEN\nexport HOME", "environment: DISCORD_TOKEN"),
        ("done\n", "", "the command broke off: export HOME"),
    ],
)
def test_each_leak_is_a_problem(good: str, bad: str, told: str) -> None:
    assert good in GOOD

    assert told in found(GOOD.replace(good, bad))


def test_a_test_that_says_nothing_or_was_ended_is_a_problem() -> None:
    assert "it printed nothing" in found("", code=1)
    assert "was ended: it took" in found(reason="it took longer than 10 s.")
    assert "did not arrive" in found(wrote=False)


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        ("bwrap: Unknown option --disable-userns", "too old: 0.8"),
        ("bwrap: setting up uid map: Permission denied", "refuses namespaces"),
        ("bwrap: No permissions to create new namespace", "AppArmor"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "/proc"),
        ("it said nothing", "does not start: it said nothing"),
    ],
)
def test_the_reason_says_what_to_do(cause: str, told: str) -> None:
    assert told in explain(cause)


@pytest.mark.parametrize(
    ("is_overlay", "has_groups", "told"),
    [
        (True, True, "(an overlay in memory), memory and processes by a cgroup, open files"),
        (False, True, "(a copy in memory), memory and processes by a cgroup, open files"),
        (
            True,
            False,
            "(an overlay in memory), processes by a resource limit, memory by a check every 50 ms "
            "(no cgroup: it is mounted read-only), open files",
        ),
    ],
)
def test_the_limits_that_this_machine_enforces_are_named(
    is_overlay: bool, has_groups: bool, told: str
) -> None:
    host = Host(
        bwrap="bwrap", is_root=False, machine="x86_64", around={}, within={}, shell="/bin/sh"
    )
    groups = Cgroups(Path("/sys/fs/cgroup/retinue"), KernelFiles()) if has_groups else None
    with ThreadPoolExecutor(1) as executor:
        sandbox = Sandbox(
            host,
            ShellSettings(),
            executor,
            is_overlay=is_overlay,
            groups=groups,
            no_groups="" if has_groups else "it is mounted read-only",
        )

    assert enforced(sandbox) == (
        f"Limits here: files and bytes on disk by the kernel {told} and processor time by "
        "resource limits"
    )


def test_without_a_script_of_the_package_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.cache_clear()
    monkeypatch.setattr(host_module, "__file__", str(tmp_path / "host.py"))
    with pytest.raises(SandboxUnavailableError, match=r"script mounts\.sh, .* install the bot"):
        hosts([])
    monkeypatch.undo()

    assert all(script(name) for name in SCRIPTS)


async def test_switched_off_it_is_off() -> None:
    with pytest.raises(SandboxUnavailableError, match=r"`shell\.enabled` is false"):
        async with open_sandbox(ShellSettings(enabled=False)):
            pass


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that holds all programs which are to be found."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in (*AROUND, "bash", "timeout"):
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)
    (folder / "bwrap").write_text("#!/bin/sh\n")
    (folder / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_without_bubblewrap_it_is_said_how_to_get_it(programs: Path) -> None:
    (programs / "bwrap").unlink()

    with pytest.raises(SandboxUnavailableError, match="`apt install bubblewrap` on Debian"):
        hosts([])


@pytest.mark.parametrize(
    ("name", "package"), [("choom", "util-linux"), ("prlimit", "util-linux"), ("nice", "coreutils")]
)
def test_a_program_that_is_missing_is_named(programs: Path, name: str, package: str) -> None:
    (programs / name).unlink()

    with pytest.raises(SandboxUnavailableError, match=f"the program {name}: .*part of {package}"):
        hosts([])


def test_programs_that_the_sandbox_would_not_see_are_no_help(programs: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="keeps its programs below /usr"):
        hosts([])
