"""Writes whole files below an open folder, each atomically."""

import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress

from bot.errors import ToolError
from bot.files.opener import Opener, opened, shown, state_of
from bot.files.walk import EntryKind


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
    make_folders(opener, folder, parts[:-1])
    with opened(opener, folder, parts[:-1]) as above:
        mode = _mode(above, parts)
        temporary = f".retinue-{secrets.token_hex(8)}.part"
        try:
            _write(above, temporary, content, mode)
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


def _mode(above: int, parts: Sequence[str]) -> int:
    """Return the permissions for a file: those of the file that it replaces."""
    try:
        state = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return 0o600
    if not stat.S_ISREG(state.st_mode):
        raise ToolError(
            f"{shown(parts)} is a {EntryKind.of(state)} there already, and only files are "
            "replaced: take another name."
        )
    return stat.S_IMODE(state.st_mode) & 0o777 | 0o600


def _write(above: int, name: str, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=above), "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), mode)
        # A file that is renamed before its content is on the disk may be empty after a power cut.
        os.fsync(file.fileno())
