"""A workspace as the sandbox must look at it: a command may be changing it, with ill intent."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: Each level keeps a folder open.
MOST_LEVELS = 100

_LOOK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HOLD = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a folder, at all depths.

    Attributes:
        size: The bytes that it takes on the disk.
        count: Its files and folders.
        too_deep: Something lies deeper than was looked.
    """

    size: int = 0
    count: int = 0
    too_deep: bool = False


NOTHING = Contents()


def contents_of(folder: Path, most: int) -> Contents:
    """Return what is in a folder. Counting ends soon after `most`, so it takes a bounded time."""
    size = count = 0
    seen: set[int] = set()
    try:
        for _, _, found in _walk(folder):
            count += 1
            if found.st_nlink == 1 or found.st_ino not in seen:
                size += found.st_blocks * 512
            if found.st_nlink > 1:
                seen.add(found.st_ino)
            if count > most:
                break
    except _TooDeepError:
        return Contents(size, count, too_deep=True)
    return Contents(size, count)


def hand_over(folder: Path, account: int, most: int) -> None:
    """Give a folder to an account, with all in it that is root's: the bot's file tools are root."""
    os.chown(folder, account, account, follow_symlinks=False)
    with suppress(_TooDeepError):
        for count, (parent, name, found) in enumerate(_walk(folder)):
            if found.st_uid == 0:
                with suppress(FileNotFoundError):
                    os.chown(name, account, account, dir_fd=parent, follow_symlinks=False)
            if count > most:
                break


class _TooDeepError(Exception):
    """Folders are nested deeper than anyone needs."""


def _walk(folder: Path) -> Iterator[tuple[int, str, os.stat_result]]:
    """Give the open folder, name and state of everything below; no link is ever followed."""
    with _opened(str(folder), None) as descriptor:
        if descriptor is not None:
            yield from _walk_open(descriptor, 0)


def _walk_open(descriptor: int, level: int) -> Iterator[tuple[int, str, os.stat_result]]:
    if level > MOST_LEVELS:
        raise _TooDeepError
    with os.scandir(descriptor) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield descriptor, entry.name, found
            if stat.S_ISDIR(found.st_mode):
                with _opened(entry.name, descriptor) as below:
                    if below is not None:
                        yield from _walk_open(below, level + 1)


@contextmanager
def _opened(name: str, parent: int | None) -> Iterator[int | None]:
    descriptor = _open(name, parent)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open(name: str, parent: int | None) -> int | None:
    try:
        return os.open(name, _LOOK, dir_fd=parent)
    except PermissionError:
        # A command that forbids looking into a folder would hide there what it keeps.
        return _forced(name, parent)
    except OSError:
        return None


def _forced(name: str, parent: int | None) -> int | None:
    try:
        held = os.open(name, _HOLD, dir_fd=parent)
    except OSError:
        return None
    try:
        path = f"/proc/self/fd/{held}"
        os.chmod(path, 0o700)  # noqa: PTH101 - a path object would not be shorter
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    finally:
        os.close(held)
