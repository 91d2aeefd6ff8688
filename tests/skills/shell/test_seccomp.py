"""The filter of system calls, on both kinds of processors, run as the kernel runs it."""

import errno
import signal
import socket
import termios

import pytest

from skills.shell.seccomp import ARCHITECTURES, JUDGED, REFUSED, program
from tests.skills.shell.bpf import ALLOWED, KILLED, verdict

ALL = {**REFUSED, **JUDGED}
MACHINES = sorted(ARCHITECTURES)
#: read, write, openat, execve, exit_group, futex, fork's `clone`, prlimit64, getrandom
USUAL = {
    "x86_64": [0, 1, 257, 59, 231, 202, 302, 318],
    "aarch64": [63, 64, 56, 221, 94, 98, 261, 278],
}


def judged(machine: str, name: str, *arguments: int) -> int:
    architecture = ARCHITECTURES[machine]
    return verdict(program(machine), ALL[name][machine], architecture.audit, arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_every_program_does_is_allowed(machine: str) -> None:
    for number in USUAL[machine]:
        assert verdict(program(machine), number, ARCHITECTURES[machine].audit) == ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
def test_whatever_is_refused_is_so_with_any_arguments(machine: str) -> None:
    names = [name for name, numbers in REFUSED.items() if machine in numbers]

    assert len(names) > 50
    for name in names:
        for arguments in ((), (2**64 - 1,) * 6):
            assert judged(machine, name, *arguments) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_no_two_calls_have_one_number(machine: str) -> None:
    numbers = [each[machine] for each in ALL.values() if machine in each]

    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_instruction_set_end_the_program(machine: str) -> None:
    i386 = 0x40000003

    assert verdict(program(machine), 1, i386) == KILLED


def test_the_second_numbering_of_x86_is_not_a_way_around() -> None:
    architecture = ARCHITECTURES["x86_64"]
    for number in (0x40000000, 0x40000000 | 165, 0xFFFFFFFF):
        assert verdict(program("x86_64"), number, architecture.audit) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (socket.AF_UNIX, ALLOWED),
        (socket.AF_INET, ALLOWED),
        (socket.AF_INET6, ALLOWED),
        (16, errno.EAFNOSUPPORT),
        (17, errno.EAFNOSUPPORT),
        (38, errno.EAFNOSUPPORT),
        (40, errno.EAFNOSUPPORT),
        (0, errno.EAFNOSUPPORT),
        # The kernel reads 32 bits, whatever stands above them.
        (40 | 1 << 32, errno.EAFNOSUPPORT),
        (1 | 1 << 32, ALLOWED),
    ],
)
def test_sockets_are_of_known_families_only(machine: str, family: int, expected: int) -> None:
    assert judged(machine, "socket", family, 1, 0) == expected
    assert judged(machine, "socketpair", family, 1, 0) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_a_process_may_fork_and_start_threads_but_make_no_namespace(machine: str) -> None:
    thread = 0x3D0F00
    assert judged(machine, "clone", signal.SIGCHLD) == ALLOWED
    assert judged(machine, "clone", thread) == ALLOWED

    for flag in (0x80, 0x20000, *(1 << bit for bit in range(25, 31))):
        assert judged(machine, "clone", flag | signal.SIGCHLD) == errno.EPERM
    # Libraries take `clone` when there is no `clone3`, whose flags cannot be looked at.
    assert judged(machine, "clone3") == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_is_typed_into_a_terminal(machine: str) -> None:
    assert judged(machine, "ioctl", 0, termios.TCGETS) == ALLOWED
    for request in (termios.TIOCSTI, 0x541C):
        assert judged(machine, "ioctl", 0, request) == errno.EPERM
        assert judged(machine, "ioctl", 0, request | 0xFF << 32) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (0x22, ALLOWED),
        (0x01, ALLOWED),
        (0x21, errno.EPERM),
        (0x23, errno.EPERM),
        (0x21 | 0x8000, errno.EPERM),
    ],
)
def test_memory_is_shared_by_way_of_files_only(machine: str, flags: int, expected: int) -> None:
    assert judged(machine, "mmap", 0, 4096, 3, flags) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_a_larger_buffer_for_a_socket_is_promised_and_not_given(machine: str) -> None:
    done_without_the_kernel = 0
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33):
        for high in (0, 1 << 32):
            arguments = (3, socket.SOL_SOCKET | high, option | high)
            assert judged(machine, "setsockopt", *arguments) == done_without_the_kernel

    assert judged(machine, "setsockopt", 3, socket.SOL_SOCKET, socket.SO_REUSEADDR) == ALLOWED
    assert judged(machine, "setsockopt", 3, socket.IPPROTO_TCP, 8) == ALLOWED
