"""Turns a Python on Linux into one that looks like macOS or Windows to our code.

Import the bot first and then again: libraries and the standard library keep what they found, ours
is imported a second time without the names that only Linux has.
"""

import os
import pkgutil
import signal
import sys
from importlib import import_module
from types import ModuleType

OURS = ("bot", "db", "skills", "migrations")
#: Imported by Alembic alone.
_SCRIPTS = ("migrations.env", "migrations.versions.")

#: Beginnings of the names that Python has on Linux and not on macOS.
_LINUX_OS = (
    *("O_PATH", "O_DIRECT_", "O_LARGEFILE", "O_NOATIME", "O_RSYNC", "O_TMPFILE"),
    *("memfd_create", "MFD_", "pidfd_open", "PIDFD_", "P_PIDFD", "eventfd", "EFD_", "timerfd"),
    *("posix_fallocate", "posix_fadvise", "POSIX_FADV", "copy_file_range", "splice", "SPLICE_"),
    *("getxattr", "setxattr", "listxattr", "removexattr", "XATTR_", "getrandom", "GRND_"),
    *("setns", "unshare", "CLONE_", "sched_", "SCHED_", "getresuid", "getresgid", "setresuid"),
    *("setresgid", "pipe2", "fdatasync", "ST_APPEND", "ST_NODEV", "ST_NOEXEC", "ST_NOATIME"),
)
_LINUX_SIGNAL = ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "SIGRTM", "SIGPWR", "SIGPOLL")
_LINUX_RESOURCE = ("prlimit", "RLIMIT_NICE", "RLIMIT_MSGQUEUE", "RLIMIT_RT", "RLIMIT_SIGPENDING")
#: And on Linux, but not on Windows.
_UNIX_OS = (
    *("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "fork", "getuid"),
    *("geteuid", "getgid", "chown", "statvfs", "fstatvfs", "mkfifo", "fchown", "pread", "pwrite"),
)
_UNIX_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty")


def modules() -> list[str]:
    """Return the name of each of our modules."""
    found = []
    for name in OURS:
        package = import_module(name)
        found += [
            name,
            *(each.name for each in pkgutil.walk_packages(package.__path__, f"{name}.")),
        ]
    return [name for name in found if not name.startswith(_SCRIPTS)]


def imitate(platform: str) -> None:
    """Look like `darwin` or `win32` to every module of ours that is imported from now on."""
    for name in modules():
        import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    import resource

    _without(os, _LINUX_OS)
    _without(signal, _LINUX_SIGNAL)
    _without(resource, _LINUX_RESOURCE)
    if platform == "win32":
        _without(os, _UNIX_OS)
        sys.modules.update(dict.fromkeys(_UNIX_MODULES))  # type: ignore[arg-type]
    sys.platform = platform


def _without(module: ModuleType, beginnings: tuple[str, ...]) -> None:
    for name in [name for name in vars(module) if name.startswith(beginnings)]:
        delattr(module, name)
