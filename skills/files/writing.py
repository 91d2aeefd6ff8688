"""Locks a user's files for one writer, and replaces whole files atomically."""

import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bot.errors import ToolError
from bot.files.opener import Opener, opened, opened_path, shown, state_of
from bot.files.walk import EntryKind

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
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ToolError(
                        "Other work is writing this user's files: try it again."
                    ) from None
                time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def missing(opener: Opener, folder: int, parts: Sequence[str]) -> int:
    """Return the number of folders on a path, the file included, that do not exist yet."""
    lengths = range(1, len(parts) + 1)
    return sum(state_of(opener, folder, parts[:length]) is None for length in lengths)


def replace_file(opener: Opener, folder: int, parts: Sequence[str], content: bytes) -> None:
    """Replace a file atomically, and create the folders on its path.

    Concurrent readers read the old content or the new one. The target of a link, and other hard
    links of the old file, keep their content, since a new file is written.

    Raises:
        ToolError: Something else than a file has that name.
        OSError: The file cannot be written.
    """
    with opened_made(opener, folder, parts[:-1]) as above:
        # The new file gets the permissions of the file that it replaces.
        before = state_of(opener, above, parts[-1:])
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise ToolError(
                f"{shown(parts)} is a {EntryKind.of(before)} there already, and only files are "
                "replaced: take another name."
            )
        mode = stat.S_IMODE(before.st_mode) & 0o777 | 0o600 if before else 0o600
        temporary = f".retinue-{secrets.token_hex(8)}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=above), "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(file.fileno(), mode)
                # A file that is renamed before its content is on the disk may be empty after a
                # power cut.
                os.fsync(file.fileno())
            os.rename(temporary, parts[-1], src_dir_fd=above, dst_dir_fd=above)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=above)
            raise


def make_folders(opener: Opener, folder: int, parts: Sequence[str]) -> None:
    """Create the missing folders of a path.

    Raises:
        OSError: A folder cannot be created; something else may have its name.
    """
    for length, name in enumerate(parts):
        with opened(opener, folder, parts[:length]) as above, suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)


@contextmanager
def opened_made(opener: Opener, folder: int, parts: Sequence[str]) -> Iterator[int]:
    """Open a folder below another one; the folders on its path are created if they are missing."""
    make_folders(opener, folder, parts)
    with opened(opener, folder, parts) as below:
        yield below


@contextmanager
def opened_in(opener: Opener, base: Path, parts: Sequence[str]) -> Iterator[int]:
    """Open a folder below a trusted path; all folders are created if they are missing."""
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    with opened_path(base) as top, opened_made(opener, top, parts) as below:
        yield below
