"""Assembles the filter of system calls for a command: a classic BPF program (pure).

A namespace hides resources; the filter blocks the parts of the kernel that no namespace covers,
and those in which namespaces have had vulnerabilities.
"""

import errno
import struct
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
        has_x32: Whether it accepts a second set of numbers, which a list of numbers would miss.
    """

    audit: int
    has_x32: bool = False


ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(0xC000003E, has_x32=True),
    "aarch64": Architecture(0xC00000B7),
}

#: The numbers of system calls by architecture, without those in which the call does not exist.
_CALLS = tomllib.loads(Path(__file__).with_name("syscalls.toml").read_text(encoding="utf-8"))
#: Refused with any arguments.
REFUSED: Mapping[str, Mapping[str, int]] = _CALLS["refused"]
#: Allowed or refused by their arguments.
JUDGED: Mapping[str, Mapping[str, int]] = _CALLS["judged"]


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
        if machine in numbers:
            instructions += [(_JUMP_EQUAL, 0, 1, numbers[machine]), _error(errno.EPERM)]
    for name, numbers in JUDGED.items():
        rule = _RULES[name]
        instructions += [(_JUMP_EQUAL, 0, len(rule), numbers[machine]), *rule]
    instructions.append(_ALLOWED)
    return b"".join(struct.pack("=HBBI", *one) for one in instructions)
