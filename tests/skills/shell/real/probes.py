"""Ways out of a sandbox. A script of its own: it runs inside of one, and outside for comparison.

`python3 probes.py` reads in `what.json` what to look for, and prints for each way null if it was
closed, or else what was reached.
"""
# It is a script, and takes numbers and names as the system gives them.
# ruff: noqa: PTH112, PTH115, PTH123, PTH208, T201

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

WHAT = json.loads(Path("what.json").read_text())
COLUMN = 0 if platform.machine() == "x86_64" else 1
SECONDS = WHAT["seconds"]

_libc = ctypes.CDLL(None, use_errno=True)


class ClosedError(Exception):
    """This way does not lead out."""


def call(x86_64: int, aarch64: int, *arguments: object) -> int:
    number = (x86_64, aarch64)[COLUMN]
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def reaches_kernel(x86_64: int, aarch64: int, *arguments: object) -> str:
    """Make a call that cannot succeed: it is closed if it is refused before it is looked at."""
    try:
        return str(call(x86_64, aarch64, *arguments))
    except OSError as error:
        if error.errno in {errno.EPERM, errno.ENOSYS, errno.EACCES, errno.EAFNOSUPPORT}:
            raise
        return error.strerror or "refused"


def only_if(what: object) -> str:
    if not what:
        raise ClosedError
    return str(what)


def in_a_child(work: Callable[[], object]) -> str:
    """Do what would change this process in one of its own."""
    child = os.fork()
    if not child:
        try:
            work()
        except (OSError, ValueError):
            os._exit(1)
        os._exit(0)
    return only_if(os.waitpid(child, 0)[1] == 0)


# Files


def users_of_the_machine() -> str:
    return only_if("\ndaemon:" in Path("/etc/passwd").read_text())


def passwords() -> str:
    return Path("/etc/shadow").read_text()[:10]


def file_of_another_person() -> str:
    return Path(WHAT["secret"]).read_text()


def through_a_link() -> str:
    link = Path("link-to-secret")
    link.unlink(missing_ok=True)
    link.symlink_to(WHAT["secret"])
    return link.read_text()


def through_a_hard_link() -> str:
    link = Path("second-name")
    link.unlink(missing_ok=True)
    os.link(WHAT["secret"], link)
    return link.read_text()


def through_the_root_of_a_process() -> str:
    for process in os.listdir("/proc"):
        for way in ("root", "cwd/../../../../../../.."):
            try:
                return Path(f"/proc/{process}/{way}{WHAT['secret']}").read_text()
            except OSError:
                continue
    raise ClosedError


def through_the_first_process() -> str:
    return Path(f"/proc/1/root{WHAT['secret']}").read_text()


def through_an_inherited_file() -> str:
    for descriptor in range(3, 256):
        try:
            return os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
    raise ClosedError


def writing_elsewhere() -> str:
    return str(Path(WHAT["outside"]).write_text("I was here"))


def writing_to_the_system() -> str:
    for folder in ("/", "/usr", "/usr/lib", "/etc", "/dev", "/run", "/proc", "/proc/sys/kernel"):
        try:
            path = Path(folder, "written")
            path.write_text("")
            path.unlink()
        except OSError:
            continue
        return folder
    raise ClosedError


def other_folders() -> str:
    return only_if([name for name in ("/var", "/home", "/boot", "/sys") if os.path.isdir(name)])


def handle_of_a_file() -> str:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    here = ctypes.c_char_p(b".")
    return str(call(303, 264, -100, here, handle, ctypes.byref(mount), 0))


def file_by_handle() -> str:
    return reaches_kernel(304, 265, -100, None, 0)


# The bot's secrets


def environment() -> str:
    return only_if(WHAT["canary"] in os.environ.values())


def environment_of_the_bot() -> str:
    for process in os.listdir("/proc"):
        try:
            if WHAT["canary"].encode() in Path("/proc", process, "environ").read_bytes():
                return process
        except OSError:
            continue
    raise ClosedError


def place_of_the_workspace() -> str:
    for process in os.listdir("/proc"):
        for name in ("environ", "cmdline", "mountinfo", "mounts", "mountstats"):
            try:
                if WHAT["place"].encode() in Path("/proc", process, name).read_bytes():
                    return f"{process} {name}"
            except OSError:
                continue
    raise ClosedError


def command_line_of_the_machine() -> str:
    """Tells the disk, and sometimes more."""
    return only_if(WHAT["machine"] in Path("/proc/cmdline").read_text())


# Network


def tcp() -> str:
    with socket.create_connection(("127.0.0.1", WHAT["tcp"]), SECONDS) as connection:
        return str(connection.getpeername())


def tcp6() -> str:
    with socket.create_connection(("::ffff:127.0.0.1", WHAT["tcp"]), SECONDS) as connection:
        return str(connection.getpeername())


def tcp_elsewhere() -> str:
    with socket.create_connection(("192.0.2.1", 443), SECONDS) as connection:
        return str(connection.getpeername())


def udp() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(SECONDS)
        sender.sendto(b"ping", ("127.0.0.1", WHAT["udp"]))
        return sender.recv(100).decode()


def route() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("192.0.2.1", 53))
        return str(sender.getsockname())


def unix() -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(WHAT["unix"])
        return "connected"


def abstract() -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("\0" + WHAT["abstract"])
        return "connected"


def sockets_of_others() -> str:
    return only_if(WHAT["abstract"] in Path("/proc/net/unix").read_text())


def netlink() -> str:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW):
        return "opened"


def vsock() -> str:
    with socket.socket(40, socket.SOCK_STREAM):
        return "opened"


def alg() -> str:
    with socket.socket(38, socket.SOCK_SEQPACKET):
        return "opened"


def packets() -> str:
    with socket.socket(17, socket.SOCK_RAW):
        return "opened"


def pair_of_another_family() -> str:
    descriptors = (ctypes.c_int * 2)()
    return reaches_kernel(53, 199, 30, socket.SOCK_STREAM, 0, descriptors)


# Processes


def seeing_the_bot() -> str:
    return only_if(str(WHAT["bot"]) in os.listdir("/proc"))


def signal_to_the_bot() -> str:
    os.kill(WHAT["bot"], 0)
    return "sent"


def tracing_the_bot() -> str:
    call(101, 117, 0x4206, WHAT["bot"], 0, 0)
    return "traced"


def tracing() -> str:
    return in_a_child(lambda: call(101, 117, 0, 0, 0, 0))


def memory_of_the_bot() -> str:
    return reaches_kernel(310, 270, WHAT["bot"], None, 0, None, 0, 0)


def files_of_the_bot() -> str:
    return reaches_kernel(438, 438, -1, 0, 0)


# Namespaces and rights


def new_user_namespace() -> str:
    return in_a_child(lambda: call(272, 97, 0x10000000))


def new_user_namespace_by_clone() -> str:
    child = call(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return "made"


def new_user_namespace_by_clone3() -> str:
    return reaches_kernel(435, 435, None, 0)


def other_namespace() -> str:
    descriptor = os.open("/proc/self/ns/uts", os.O_RDONLY)
    return in_a_child(lambda: call(308, 268, descriptor, 0))


def mount() -> str:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        target = folder.encode()
        call(165, 40, b"none", target, b"tmpfs", 0, None)
        call(166, 39, target, 0)
    return "mounted"


def mount_by_the_new_calls() -> str:
    descriptor = call(430, 430, b"tmpfs", 0)
    os.close(descriptor)
    return "made"


def mount_of_a_tree() -> str:
    os.close(call(428, 428, -100, b".", 1))
    return "opened"


def mount_made_writable() -> str:
    return reaches_kernel(442, 442, -100, b"/usr", 0, None, 0)


def another_root() -> str:
    return in_a_child(lambda: os.chroot("."))


def being_root() -> str:
    return in_a_child(lambda: os.setresuid(0, 0, 0))


def being_another() -> str:
    return in_a_child(lambda: os.setresuid(1, 1, 1))


def setuid_program() -> str:
    """Whether a program that is to run as its owner would."""
    return only_if(not os.statvfs("/usr").f_flag & os.ST_NOSUID)


def capabilities() -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    return only_if(any(int(status[f"Cap{kind}"], 16) for kind in ("Eff", "Prm", "Inh", "Bnd")))


def node_of_a_disk() -> str:
    name = Path("disk")
    name.unlink(missing_ok=True)
    os.mknod(name, stat.S_IFBLK | 0o600, os.makedev(8, 0))
    name.unlink()
    return "made"


def devices() -> str:
    usual = "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    return only_if(sorted(set(os.listdir("/dev")) - set(usual.split())))


# The kernel's larger parts


def keys() -> str:
    return str(call(250, 219, 0, -3, 1))


def adding_a_key() -> str:
    return str(call(248, 217, b"user", b"probe", b"x", 1, -3))


def bpf() -> str:
    return reaches_kernel(321, 280, 0, None, 0)


def io_uring() -> str:
    os.close(call(425, 425, 1, ctypes.create_string_buffer(120)))
    return "made"


def userfaultfd() -> str:
    os.close(call(323, 282, 0))
    return "made"


def performance_counters() -> str:
    return reaches_kernel(298, 241, None, 0, -1, -1, 0)


def log_of_the_kernel() -> str:
    return str(call(103, 116, 10, None, 0))


def other_kernel() -> str:
    return reaches_kernel(246, 104, 0, 0, None, 0xFFFF)


def x32() -> str:
    if COLUMN:
        raise ClosedError
    return str(call(0x40000000 | 39, 0))


# Terminals


def typing_into_a_terminal() -> str:
    _, terminal = os.openpty()

    def push() -> None:
        os.setsid()
        fcntl.ioctl(terminal, 0x540E, 0)
        fcntl.ioctl(terminal, 0x5412, b"x")

    return in_a_child(push)


def typing_with_a_longer_request() -> str:
    """As above, with bits in the request that the kernel ignores."""
    _, terminal = os.openpty()

    def push() -> None:
        os.setsid()
        fcntl.ioctl(terminal, 0x540E, 0)
        call(16, 29, terminal, ctypes.c_ulong(0xFF_0000_5412), b"x")

    return in_a_child(push)


def terminal_of_the_bot() -> str:
    os.close(os.open("/dev/tty", os.O_RDWR))
    return "opened"


# Limits


def more_processes() -> str:
    resource.setrlimit(resource.RLIMIT_NPROC, (1_000, 1_000))
    return "raised"


def more_memory() -> str:
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40))
    return "raised"


def shared_memory_without_a_file() -> str:
    mmap.mmap(-1, 4096).close()
    return "mapped"


def shared_memory_of_dev_zero() -> str:
    with open("/dev/zero", "r+b") as file:
        mmap.mmap(file.fileno(), 4096, mmap.MAP_SHARED).close()
    return "mapped"


def memory_file() -> str:
    os.close(os.memfd_create("hidden"))
    return "made"


def system_v_memory() -> str:
    call(31, 195, call(29, 194, 0, 4096, 0o600), 0, None)
    return "made"


def system_v_messages() -> str:
    call(71, 187, call(68, 186, 0, 0o600), 0, None)
    return "made"


def main() -> None:
    found: dict[str, str | None] = {}
    for name, probe in list(globals().items()):
        if (
            name in (*NO_PROBES, *WHAT["leave_out"])
            or getattr(probe, "__module__", "") != "__main__"
        ):
            continue
        try:
            found[name] = str(probe())
        except (ClosedError, OSError, ValueError):
            found[name] = None
    print("found " + json.dumps(found))


NO_PROBES = {"ClosedError", "call", "in_a_child", "main", "only_if", "reaches_kernel"}

if __name__ == "__main__":
    main()
