"""Locks a user's files: one writer at a time, across processes."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bot.errors import ToolError

LOCK_SECONDS = 10.0
_LOCK = "lock"


@contextmanager
def one_writer(user: int, seconds: float) -> Iterator[None]:
    """Hold the lock of a user's files, across processes.

    Raises:
        ToolError: The lock was not free within `seconds`.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(_LOCK, flags, 0o600, dir_fd=user)
    try:
        deadline = time.monotonic() + seconds
        while not _locked(descriptor):
            if time.monotonic() > deadline:
                raise ToolError("Other work is writing this person's files: try it again.")
            time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
