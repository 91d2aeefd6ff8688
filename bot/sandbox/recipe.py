"""The recipe of the sandbox: which programs with which arguments, one inside the other (pure)."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from bot.sandbox.host import Host
from bot.sandbox.settings import MEGABYTE, ShellSettings

WORKSPACE = "/workspace"
COMMAND = "/run/command"
#: Account and group inside; outside it is the bot's own, or one of those below.
ACCOUNT = 1000

#: Where the bot is root, each workspace belongs to an account of its own from here on: above those
#: that systemd gives to containers, and below the numbers that some programs take for negative.
FIRST_ACCOUNT, ACCOUNTS = 1_900_000_000, 200_000_000

#: Descriptors that one process may have open, and that the account may have on their way in
#: messages, where they are in no process.
_OPEN_FILES = 256
#: The timer inside runs out after the bot's own: it counts when the bot is stopped, or held up.
_LATER_SECONDS = 5

_MOUNT_POINT = "/mnt"

#: A bot that is root may see folders that the command's account cannot reach, its workspace and
#: bubblewrap among them. Both are mounted where it can, in a mount namespace of their own: no other
#: process sees that, and it goes away by itself.
_MOUNTS = f"""\
set -e
mount -t tmpfs -o mode=0755,size=64k,nosuid,nodev sandbox {_MOUNT_POINT}
mkdir {_MOUNT_POINT}/workspace {_MOUNT_POINT}/library
mount --bind . {_MOUNT_POINT}/workspace
[ -z "$1" ] || mount --bind "$1" {_MOUNT_POINT}/library
unset OLDPWD PWD
shift
exec "$@"
"""

#: The first program inside waits for a word from the bot. It comes when bubblewrap's first process
#: is bound to the life of its parent, which it is not from its beginning: of a bot that dies before
#: that, nothing is left. (`--block-fd` would let the command begin when the bot is dead.)
_WAIT = 'read -r word && exec "$@" </dev/null'
WORD = b"begin\n"

_ISOLATION = (
    "--unshare-user",
    "--disable-userns",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup",
    "--die-with-parent",
    "--new-session",
    "--clearenv",
    "--cap-drop",
    "ALL",
)

_ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "TERM": "dumb",
    "TMPDIR": "/tmp",  # noqa: S108
    "USER": "user",
}

#: Files of /etc that tell nothing of this machine.
FILES = {
    "/etc/passwd": (
        "root:x:0:0:root:/:/usr/sbin/nologin\n"
        f"user:x:{ACCOUNT}:{ACCOUNT}:user:/tmp:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
    ),
    "/etc/group": f"root:x:0:\nuser:x:{ACCOUNT}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """The open files that bubblewrap is given, by number.

    Attributes:
        options: Its options: on the command line any process could read them.
        command: What the shell inside is to do.
        filter: The system calls that are allowed.
        information: Where it writes the number of the first process inside.
        files: The files of `FILES`.
    """

    options: int
    command: int
    filter: int
    information: int
    files: dict[str, int]

    @property
    def all(self) -> tuple[int, ...]:
        """All numbers."""
        own = (self.options, self.command, self.filter, self.information)
        return (*own, *self.files.values())


def account_of(folder: str, owner: int) -> int:
    """Return the account for a workspace when the bot is root: its owner, or one from its path.

    Args:
        folder: The workspace, in full.
        owner: Whom it belongs to so far.
    """
    if owner:
        return owner
    digest = hashlib.sha256(folder.encode()).digest()
    return FIRST_ACCOUNT + int.from_bytes(digest[:8], "big") % ACCOUNTS


def command_line(
    host: Host,
    settings: ShellSettings,
    descriptors: Descriptors,
    *,
    account: int | None,
    seconds: float,
) -> tuple[str, ...]:
    """Return the program to start, with its arguments: nothing of a person stands in it.

    Args:
        host: This machine.
        settings: What the command may use.
        descriptors: What the program is to be started with.
        account: The account that the command gets outside, when the bot is root.
        seconds: The time that it has.
    """
    around = host.around
    bwrap = host.bwrap
    if account is not None and host.library:
        bwrap = bwrap.replace(host.library, f"{_MOUNT_POINT}/library", 1)
    limits = {
        "data": settings.memory_mb * MEGABYTE,
        "fsize": settings.file_mb * MEGABYTE,
        "cpu": math.ceil(seconds) + _LATER_SECONDS,
        "nofile": _OPEN_FILES,
        "core": 0,
        "msgqueue": 0,
    }
    return (
        *(() if account is None else _as_another(host, account)),
        *(around["choom"], "-n", "1000", "--"),
        *(around["nice"], "-n", "10"),
        around["prlimit"],
        *(f"--{name}={limit}:{limit}" for name, limit in limits.items()),
        *("--", bwrap, "--args", str(descriptors.options), "--"),
        # Outside, this would count every process of the account.
        *(host.within["prlimit"], f"--nproc={settings.processes}:{settings.processes}", "--"),
        *("/bin/sh", "-c", _WAIT, "sh"),
        *(host.within["timeout"], "--signal=KILL", f"{seconds + _LATER_SECONDS:g}"),
        *(host.shell, COMMAND),
    )


def _as_another(host: Host, account: int) -> tuple[str, ...]:
    """Mount what is needed, then be somebody else: root has no limit of processes."""
    around = host.around
    return (
        *(around["unshare"], "--mount", "--propagation", "private", "--"),
        *(around["sh"], "-c", _MOUNTS, "sandbox", host.library or ""),
        *(around["setpriv"], f"--reuid={account}", f"--regid={account}", "--clear-groups"),
        *("--inh-caps=-all", "--no-new-privs", "--"),
    )


def options(
    host: Host,
    settings: ShellSettings,
    descriptors: Descriptors,
    folder: str,
    account: int | None,
) -> bytes:
    """Return bubblewrap's options, as it reads them from a file.

    Args:
        host: This machine.
        settings: What the command may use.
        descriptors: What it is started with.
        folder: The workspace outside.
        account: The account that the command gets outside, when the bot is root.
    """
    source = folder if account is None else f"{_MOUNT_POINT}/workspace"
    given = (
        *_ISOLATION,
        *("--uid", str(ACCOUNT), "--gid", str(ACCOUNT), "--hostname", "sandbox"),
        *(part for pair in _ENVIRONMENT.items() for part in ("--setenv", *pair)),
        *_files(descriptors),
        *_system(host),
        *_devices(settings),
        *("--bind", source, WORKSPACE, "--remount-ro", "/", "--chdir", WORKSPACE),
        *("--seccomp", str(descriptors.filter)),
        *("--info-fd", str(descriptors.information)),
    )
    return b"".join(part.encode() + b"\0" for part in given)


def _system(host: Host) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for link, target in host.links:
        yield from ("--symlink", target, link)
    for folder in (*host.folders, *host.configuration):
        yield from ("--ro-bind", folder, folder)
    for folder in host.masked:
        # A tmpfs without a size may take half of the memory, unless nothing can be put there.
        yield from ("--tmpfs", folder, "--remount-ro", folder)
    yield from ("--proc", "/proc")


def _devices(settings: ShellSettings) -> Iterator[str]:
    yield from ("--dev", "/dev")
    # Shared memory made of /dev/zero is in no counter; /dev/full gives the same zeros.
    yield from ("--dev-bind", "/dev/full", "/dev/zero")
    size = str(settings.temporary_mb * MEGABYTE)
    for folder in ("/tmp", "/dev/shm"):  # noqa: S108 - the sandbox's own
        yield from ("--perms", "1777", "--size", size, "--tmpfs", folder)
    # It is a tmpfs too, without a size.
    yield from ("--remount-ro", "/dev")


def _files(descriptors: Descriptors) -> Iterator[str]:
    for folder in ("/etc", "/run"):
        yield from ("--perms", "0755", "--dir", folder)
    for path, descriptor in descriptors.files.items():
        yield from ("--perms", "0644", "--file", str(descriptor), path)
    yield from ("--perms", "0644", "--file", str(descriptors.command), COMMAND)
