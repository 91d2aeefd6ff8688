"""Assembles the filter of system calls for a command: a classic BPF program (pure).

A namespace hides resources; the filter blocks the parts of the kernel that no namespace covers,
and those in which namespaces have had vulnerabilities.
"""

import errno
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Instruction = tuple[int, int, int, int]

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_KILL_PROCESS, _ERROR, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000

#: Offsets in `struct seccomp_data`.
_NUMBER, _ARCHITECTURE = 0, 4

_X32 = 0x40000000
_CLONE_NEW = 0x7E020080
_MAP_SHARED_ANONYMOUS = 0x21
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOL_SOCKET = 1
#: SO_SNDBUF, SO_RCVBUF, and both with FORCE.
_BUFFER_SIZES = (7, 8, 32, 33)

_ALLOWED: Instruction = (_RETURN, 0, 0, _ALLOW)


def _error(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | number)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A processor architecture.

    Attributes:
        audit: Its number in `linux/audit.h`.
        column: Column of its numbers in the tables below.
        has_x32: Whether it accepts a second set of numbers, which a list of numbers would miss.
    """

    audit: int
    column: int
    has_x32: bool = False


ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(0xC000003E, 0, has_x32=True),
    "aarch64": Architecture(0xC00000B7, 1),
}

Numbers = tuple[int | None, int | None]

#: Refused with any arguments: numbers on x86_64 and aarch64, `None` where the call does not exist.
REFUSED: Mapping[str, Numbers] = {
    # Mounts, old and new ways, and other namespaces.
    "chroot": (161, 51),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "pivot_root": (155, 41),
    "setns": (308, 268),
    "umount2": (166, 39),
    "unshare": (272, 97),
    # Files opened by handle bypass every mount.
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # Access to other processes.
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    # Keys belong to no namespace.
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "request_key": (249, 218),
    # Memory that is charged to no process, or is missing in its counters.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "semget": (64, 190),
    "shmget": (29, 194),
    # Large attack surface, and often exploited.
    "bpf": (321, 280),
    "fanotify_init": (300, 262),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "move_pages": (279, 239),
    "nfsservctl": (180, 42),
    "perf_event_open": (298, 241),
    "sysfs": (139, None),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    # System administration.
    "_sysctl": (156, None),
    "acct": (163, 89),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "vhangup": (153, 58),
}

#: Allowed or refused by their arguments.
JUDGED: Mapping[str, Numbers] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "mmap": (9, 222),
    "setsockopt": (54, 208),
    "socket": (41, 198),
    "socketpair": (53, 199),
}


def _load(argument: int) -> Instruction:
    """Return the instruction that loads the lower half of an argument."""
    return (_LOAD, 0, 0, 16 + 8 * argument)


def _each(values: Iterable[int], verdict: Instruction) -> Iterator[Instruction]:
    """Yield the instructions that give this verdict if the loaded value is one of these."""
    for value in values:
        yield (_JUMP_EQUAL, 0, 1, value)
        yield verdict


#: An allow-list: a network namespace does not cover vsock and netlink.
_FAMILIES = (
    _load(0),
    *_each((_AF_UNIX, _AF_INET, _AF_INET6), _ALLOWED),
    _error(errno.EAFNOSUPPORT),
)

#: The instructions that judge a call by its arguments; every path ends in a verdict.
_RULES: Mapping[str, Sequence[Instruction]] = {
    "clone": (
        *(_load(0), (_AND, 0, 0, _CLONE_NEW)),
        *((_JUMP_EQUAL, 1, 0, 0), _error(errno.EPERM), _ALLOWED),
    ),
    # The flags of `clone3` are in memory, which BPF cannot read; libraries fall back on `clone`.
    "clone3": (_error(errno.ENOSYS),),
    # The kernel reads only 32 bits of the request, so the comparison must ignore higher ones.
    "ioctl": (_load(1), *_each((_TIOCSTI, _TIOCLINUX), _error(errno.EPERM)), _ALLOWED),
    # No counter includes shared memory without a file once it was returned (MADV_DONTNEED).
    "mmap": (
        *(_load(3), (_AND, 0, 0, _MAP_SHARED_ANONYMOUS)),
        *(*_each((_MAP_SHARED_ANONYMOUS,), _error(errno.EPERM)), _ALLOWED),
    ),
    # Buffers are kernel memory that is charged to no process. Programs often request larger ones,
    # so the call reports success without effect, and the default size stays.
    "setsockopt": (
        *(_load(1), (_JUMP_EQUAL, 1, 0, _SOL_SOCKET), _ALLOWED),
        *(_load(2), *_each(_BUFFER_SIZES, _error(0)), _ALLOWED),
    ),
    "socket": _FAMILIES,
    "socketpair": _FAMILIES,
}


def program(machine: str) -> bytes:
    """Return the filter for a machine, named as by `platform.machine()`.

    Raises:
        KeyError: The system calls of this machine are not known here.
    """
    architecture = ARCHITECTURES[machine]
    instructions = [
        # Numbers mean other calls in another instruction set: `int 0x80` uses one.
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture.audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture.has_x32:
        instructions += [(_JUMP_AT_LEAST, 0, 1, _X32), _error(errno.ENOSYS)]
    for numbers in REFUSED.values():
        number = numbers[architecture.column]
        if number is not None:
            instructions += [(_JUMP_EQUAL, 0, 1, number), _error(errno.EPERM)]
    for name, numbers in JUDGED.items():
        number = numbers[architecture.column]
        assert number is not None
        rule = _RULES[name]
        instructions += [(_JUMP_EQUAL, 0, len(rule), number), *rule]
    instructions.append(_ALLOWED)
    return b"".join(struct.pack("=HBBI", *one) for one in instructions)
