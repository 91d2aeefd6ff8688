"""Estimates the kernel memory behind the sockets of a sandbox."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

#: Most bytes that a socket without a queue listed in /proc can hold: the kernel's charge for a
#: filled buffer of the default size (`net.core.wmem_default`). `skills.shell.seccomp` blocks larger
#: buffers.
BYTES_PER_SOCKET = 233_472
#: The kernel charges whole packets: about twice the bytes that are queued in TCP.
_TCP_OVERHEAD = 2
_QUEUES, _INODE = 4, 9


def socket_memory(processes: Iterable[Path], network: Path) -> int:
    """Return an upper estimate of the bytes in the buffers of all sockets of a sandbox.

    TCP is counted by its queues, sockets of closed descriptors included; every other socket that
    some process has open is counted as full.

    Args:
        processes: Folders of the processes in a mounted /proc.
        network: The folder `net` of one of them, which lists the sockets of its network namespace.
    """
    queued, counted = 0, {"0"}
    for table in ("tcp", "tcp6"):
        for row in _rows(network / table):
            sending, _, receiving = row[_QUEUES].partition(":")
            queued += int(sending, 16) + int(receiving, 16)
            counted.add(row[_INODE])
    others = {inode for process in processes for inode in _sockets_of(process)} - counted
    return queued * _TCP_OVERHEAD + len(others) * BYTES_PER_SOCKET


def _rows(table: Path) -> list[list[str]]:
    with suppress(OSError):
        return [line.split() for line in table.read_text().splitlines()[1:]]
    return []


def _sockets_of(process: Path) -> Iterable[str]:
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]
