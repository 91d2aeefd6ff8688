"""Builds the command line of the sandbox: nested programs and their arguments (pure)."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

from bot.catalog.skills import IN_SANDBOX
from skills.shell.host import Host, script
from skills.shell.settings import MEGABYTE, ShellSettings

WORKSPACE = "/workspace"
COMMAND = "/run/command"
#: Account and group inside; outside, the command has the bot's own, or one of those below.
ACCOUNT = 1000

#: Where the bot is root, each workspace belongs to an account of its own from this range: above the
#: accounts that systemd gives to containers, and below the numbers that some programs read as
#: negative.
FIRST_ACCOUNT, ACCOUNTS = 1_900_000_000, 200_000_000

#: Most descriptors of one process, and most that the account may have in transit in messages, where
#: they belong to no process.
_OPEN_FILES = 256
#: The timer inside fires later than the bot's own by this much: it counts when the bot is stopped
#: or stalled.
_LATER_SECONDS = 5

#: As in the script `mounts.sh`.
_MOUNT_POINT = "/mnt"
_LOWER, _LAYER = f"{_MOUNT_POINT}/lower", f"{_MOUNT_POINT}/layer"
#: The command's writes, as the mount namespace of bubblewrap's own process shows them.
UPPER = f"{_LAYER}/up"
#: An overlay that nothing is written to needs two folders; one of them is empty.
_NOTHING, _SKILLS = f"{_MOUNT_POINT}/nothing", f"{_MOUNT_POINT}/skills"
_PYTHON = f"{_MOUNT_POINT}/python"
#: The virtual environment with the Python packages, and a folder with the program `python`, which
#: many systems have as `python3` alone.
PYTHON, _PROGRAMS = "/run/python", "/run/bin"

#: The first program inside waits for a line from the bot, which is sent once bubblewrap's first
#: process is bound to the life of its parent; it is not bound from its start. If the bot dies
#: before that, nothing is left. (With `--block-fd` the command would begin when the bot is dead.)
_WAIT = 'read -r word && exec "$@" </dev/null'
WORD = b"begin\n"

#: The first program of a command where cgroups are used: it joins the command's group.
_JOIN = 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"'
#: Most processes of ours around a command, in the same group.
AROUND_A_COMMAND = 16

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

#: Files of /etc that reveal nothing about this machine.
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


#: Files of /proc that reveal facts about this machine, with their replacements.
COVERED = {"/proc/cmdline": "\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLimits:
    """Limits of a command's writes, enforced by the kernel.

    Attributes:
        size: In bytes.
        count: Files and folders, removed ones included.
        is_overlay: Whether the layer lies over the workspace; otherwise it holds a copy of it.
    """

    size: int
    count: int
    is_overlay: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFolders:
    """Folders of the bot that a command sees, read-only, besides its workspace.

    Attributes:
        skills: Holds the folders of Agent Skills, by their names; `None` for no skills.
        python: The virtual environment with Python packages; `None` for no packages.
    """

    skills: Path | None = None
    python: Path | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the script `mounts.sh`."""
        return tuple(str(each.absolute()) if each else "" for each in (self.skills, self.python))

    def options(self, *, is_overlay: bool) -> list[str]:
        """Return bubblewrap's options."""
        given: list[str] = []
        places = ((self.skills, _SKILLS, IN_SANDBOX), (self.python, _PYTHON, PYTHON))
        for outside, inside in ((outside, inside) for path, outside, inside in places if path):
            # The mount table names the source of a bind mount, but not that of an overlay.
            given += (
                ["--overlay-src", _NOTHING, "--overlay-src", outside, "--ro-overlay", inside]
                if is_overlay
                else ["--ro-bind", outside, inside]
            )
        return given


NOTHING_SHOWN = ShownFolders()


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """The open files that bubblewrap inherits, by number.

    Attributes:
        options: Its options: on the command line any process could read them.
        command: The script for the shell inside.
        filter: The system-call filter.
        information: Bubblewrap writes the pid of the first process inside to this file.
        files: The files of `FILES` and `COVERED`.
    """

    options: int
    command: int
    filter: int
    information: int
    files: dict[str, int]

    @property
    def all(self) -> tuple[int, ...]:
        """All descriptor numbers."""
        own = (self.options, self.command, self.filter, self.information)
        return (*own, *self.files.values())


def account_of(folder: str, owner: int) -> int:
    """Return the account for a workspace when the bot is root: its owner, or one from its path.

    Args:
        folder: The absolute path of the workspace.
        owner: The uid of its current owner; 0 for root.
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
    layer: LayerLimits,
    group: Path | None = None,
    shown: ShownFolders = NOTHING_SHOWN,
) -> tuple[str, ...]:
    """Return the program to start, with its arguments, which contain no text of a user.

    Args:
        host: This machine.
        settings: The limits of the command.
        descriptors: The files that the program inherits.
        account: The account that the command gets outside, when the bot is root.
        seconds: The command's timeout.
        layer: The limits of its writes.
        group: The cgroup that it joins.
        shown: The folders of the bot that it sees.
    """
    around = host.around
    bwrap = host.bwrap
    if host.library:
        bwrap = bwrap.replace(host.library, f"{_MOUNT_POINT}/library", 1)
    limits = {
        "data": settings.memory_mb * MEGABYTE,
        "fsize": settings.file_mb * MEGABYTE,
        "cpu": math.ceil(seconds) + _LATER_SECONDS,
        "nofile": _OPEN_FILES,
        "core": 0,
        "msgqueue": 0,
    }
    joining = () if group is None else (around["sh"], "-c", _JOIN, "sandbox", str(group))
    return (
        *joining,
        *_mounted(host, account, layer, shown),
        *(around["choom"], "-n", "1000", "--"),
        *(around["nice"], "-n", "10"),
        around["prlimit"],
        *(f"--{name}={limit}:{limit}" for name, limit in limits.items()),
        *("--", bwrap, "--args", str(descriptors.options), "--"),
        # Set inside: outside, it would count every process of the account.
        *(host.within["prlimit"], f"--nproc={settings.processes}:{settings.processes}", "--"),
        *("/bin/sh", "-c", _WAIT, "sh"),
        *(host.within["timeout"], "--signal=KILL", f"{seconds + _LATER_SECONDS:g}"),
        *(host.shell, COMMAND),
    )


def _mounted(
    host: Host, account: int | None, layer: LayerLimits, shown: ShownFolders
) -> tuple[str, ...]:
    """Return the programs that mount the layer, then drop the rights for it; root changes user."""
    around = host.around
    # A process limit does not apply to root, so root changes account; others may mount only in a
    # user namespace.
    own = ("--user", "--map-current-user", "--keep-caps") if account is None else ()
    becoming = (
        ("--ambient-caps=-all",)
        if account is None
        else (f"--reuid={account}", f"--regid={account}", "--clear-groups")
    )
    return (
        *(around["unshare"], *own, "--mount", "--propagation", "private", "--"),
        *(around["sh"], "-c", script("mounts.sh"), "sandbox", host.library or ""),
        *(str(layer.size), str(layer.count), "" if account is None else str(account)),
        *shown.arguments,
        *(around["setpriv"], *becoming, "--inh-caps=-all", "--no-new-privs", "--"),
    )


def options(
    host: Host,
    settings: ShellSettings,
    descriptors: Descriptors,
    layer: LayerLimits,
    shown: ShownFolders = NOTHING_SHOWN,
) -> bytes:
    """Return bubblewrap's options in the form in which it reads them from a file.

    Args:
        host: This machine.
        settings: The limits of the command.
        descriptors: The files that bubblewrap inherits.
        layer: The limits of the command's writes.
        shown: The folders of the bot that the command sees.
    """
    given = [*_ISOLATION, "--uid", str(ACCOUNT), "--gid", str(ACCOUNT), "--hostname", "sandbox"]
    path = f"{_ENVIRONMENT['PATH']}:{_PROGRAMS}"
    if shown.python:
        path = f"{PYTHON}/bin:{path}"
    for name, value in (_ENVIRONMENT | {"PATH": path}).items():
        given += ["--setenv", name, value]
    # Everything that the command sees besides its workspace.
    for folder in ("/etc", "/run"):
        given += ["--perms", "0755", "--dir", folder]
    for path in FILES:
        given += ["--perms", "0644", "--file", str(descriptors.files[path]), path]
    given += ["--perms", "0644", "--file", str(descriptors.command), COMMAND]
    if host.python:
        given += ["--perms", "0755", "--dir", _PROGRAMS]
        given += ["--symlink", host.python, f"{_PROGRAMS}/python"]
    given += ["--ro-bind", "/usr", "/usr"]
    for link, target in host.links:
        given += ["--symlink", target, link]
    for folder in (*host.folders, *host.configuration):
        given += ["--ro-bind", folder, folder]
    for folder in host.masked:
        # A tmpfs without a size may take half of the memory, unless it is read-only.
        given += ["--tmpfs", folder, "--remount-ro", folder]
    given += ["--proc", "/proc"]
    for path in COVERED:
        given += ["--perms", "0444", "--ro-bind-data", str(descriptors.files[path]), path]
    # No counter includes shared memory mapped from /dev/zero; /dev/full gives the same zeros.
    given += ["--dev", "/dev", "--dev-bind", "/dev/full", "/dev/zero"]
    size = str(settings.temporary_mb * MEGABYTE)
    for folder in ("/tmp", "/dev/shm"):  # noqa: S108 - the sandbox's own
        given += ["--perms", "1777", "--size", size, "--tmpfs", folder]
    # /dev is a tmpfs without a size, too.
    given += ["--remount-ro", "/dev"]
    if layer.is_overlay:
        given += ["--overlay-src", _LOWER, "--overlay", UPPER, f"{_LAYER}/work", WORKSPACE]
    else:
        given += ["--bind", UPPER, WORKSPACE]
    given += shown.options(is_overlay=layer.is_overlay)
    given += ["--remount-ro", "/", "--chdir", WORKSPACE]
    given += ["--seccomp", str(descriptors.filter), "--info-fd", str(descriptors.information)]
    return b"".join(part.encode() + b"\0" for part in given)
