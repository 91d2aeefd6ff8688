"""The recipe of the sandbox: which programs with which arguments, one inside the other (pure)."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
_LOWER, _LAYER = f"{_MOUNT_POINT}/lower", f"{_MOUNT_POINT}/layer"
#: What the command changes, as the mount namespace of bubblewrap's own process shows it.
UPPER = f"{_LAYER}/up"

#: In a mount namespace of their own, which no other process sees and which goes away by itself: the
#: workspace as it was, and a layer of limited size for what the command changes. The kernel keeps
#: that limit. Where the bot is root, the command's account cannot reach every folder that root can,
#: so bubblewrap is mounted where it can. Inside, the mount table names nothing else.
_MOUNTS = f"""\
set -e
[ -z "$1" ] || exec 3<"$1"
mount -t tmpfs -o mode=0755,size=64k,nosuid,nodev sandbox {_MOUNT_POINT}
mkdir {_LOWER} {_LAYER} {_MOUNT_POINT}/library
mount --bind . {_LOWER}
[ -z "$1" ] || {{ mount -c --bind /proc/self/fd/3 {_MOUNT_POINT}/library; exec 3<&-; }}
mount -t tmpfs -o "size=$2,nr_inodes=$3,mode=0755,nosuid,nodev" layer {_LAYER}
mkdir -m 0700 {UPPER} {_LAYER}/work
[ -z "$4" ] || chown "$4:$4" {UPPER} {_LAYER}/work
unset OLDPWD PWD
shift 4
exec "$@"
"""

#: The first program inside waits for a word from the bot. It comes when bubblewrap's first process
#: is bound to the life of its parent, which it is not from its beginning: of a bot that dies before
#: that, nothing is left. (`--block-fd` would let the command begin when the bot is dead.)
_WAIT = 'read -r word && exec "$@" </dev/null'
WORD = b"begin\n"

#: The first program of a command where cgroups are used: it joins the command's group.
_JOIN = 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"'
#: Processes of ours around a command, in the same group.
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


#: Files of /proc that tell of this machine, with what stands there instead.
COVERED = {"/proc/cmdline": "\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLimits:
    """What a command may change before it ends: the kernel keeps these.

    Attributes:
        size: In bytes.
        count: Files and folders, removed ones included.
        is_overlay: The layer lies over the workspace; otherwise it holds a copy of it.
    """

    size: int
    count: int
    is_overlay: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """The open files that bubblewrap is given, by number.

    Attributes:
        options: Its options: on the command line any process could read them.
        command: What the shell inside is to do.
        filter: The system calls that are allowed.
        information: Where it writes the number of the first process inside.
        files: The files of `FILES` and `COVERED`.
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
    layer: LayerLimits,
    group: Path | None = None,
) -> tuple[str, ...]:
    """Return the program to start, with its arguments: nothing of a user stands in it.

    Args:
        host: This machine.
        settings: What the command may use.
        descriptors: What the program is to be started with.
        account: The account that the command gets outside, when the bot is root.
        seconds: The time that it has.
        layer: What it may change.
        group: The cgroup that it joins.
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
        *_mounted(host, account, layer),
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


def _mounted(host: Host, account: int | None, layer: LayerLimits) -> tuple[str, ...]:
    """Mount what is needed, then give up the rights for it; root becomes another account."""
    around = host.around
    # Root has no limit of processes; others may mount in a user namespace alone.
    own = ("--user", "--map-current-user", "--keep-caps") if account is None else ()
    becoming = (
        ("--ambient-caps=-all",)
        if account is None
        else (f"--reuid={account}", f"--regid={account}", "--clear-groups")
    )
    return (
        *(around["unshare"], *own, "--mount", "--propagation", "private", "--"),
        *(around["sh"], "-c", _MOUNTS, "sandbox", host.library or ""),
        *(str(layer.size), str(layer.count), "" if account is None else str(account)),
        *(around["setpriv"], *becoming, "--inh-caps=-all", "--no-new-privs", "--"),
    )


def options(
    host: Host,
    settings: ShellSettings,
    descriptors: Descriptors,
    layer: LayerLimits,
) -> bytes:
    """Return bubblewrap's options, as it reads them from a file.

    Args:
        host: This machine.
        settings: What the command may use.
        descriptors: What it is started with.
        layer: What the command may change.
    """
    workspace = (
        ("--overlay-src", _LOWER, "--overlay", UPPER, f"{_LAYER}/work", WORKSPACE)
        if layer.is_overlay
        else ("--bind", UPPER, WORKSPACE)
    )
    given = (
        *_ISOLATION,
        *("--uid", str(ACCOUNT), "--gid", str(ACCOUNT), "--hostname", "sandbox"),
        *(part for pair in _ENVIRONMENT.items() for part in ("--setenv", *pair)),
        *_files(descriptors),
        *_system(host, descriptors),
        *_devices(settings),
        *(*workspace, "--remount-ro", "/", "--chdir", WORKSPACE),
        *("--seccomp", str(descriptors.filter)),
        *("--info-fd", str(descriptors.information)),
    )
    return b"".join(part.encode() + b"\0" for part in given)


def _system(host: Host, descriptors: Descriptors) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for link, target in host.links:
        yield from ("--symlink", target, link)
    for folder in (*host.folders, *host.configuration):
        yield from ("--ro-bind", folder, folder)
    for folder in host.masked:
        # A tmpfs without a size may take half of the memory, unless nothing can be put there.
        yield from ("--tmpfs", folder, "--remount-ro", folder)
    yield from ("--proc", "/proc")
    for path in COVERED:
        yield from ("--perms", "0444", "--ro-bind-data", str(descriptors.files[path]), path)


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
    for path in FILES:
        yield from ("--perms", "0644", "--file", str(descriptors.files[path]), path)
    yield from ("--perms", "0644", "--file", str(descriptors.command), COMMAND)
