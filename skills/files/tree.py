"""Walks everything below an open folder, at any depth and through no link."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from bot.files.opener import FOLDER, Opener, opened

#: A path as names, from an open folder.
Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A folder and its entries.

    Attributes:
        parts: Its path from the top.
        descriptor: The folder, open until the next level is requested.
        entries: Names with their `lstat` results, in order of name.
    """

    parts: Parts
    descriptor: int
    entries: tuple[tuple[str, os.stat_result], ...]


def levels(opener: Opener, top: int) -> Iterator[Level]:
    """Yield every folder, the top one first, and each before its subfolders.

    One folder is open at a time, at any depth.
    """
    waiting: list[Parts] = [()]
    while waiting:
        parts = waiting.pop()
        with suppress(FileNotFoundError), opened_by_force(opener, top, parts) as descriptor:
            entries = []
            with os.scandir(descriptor) as listed:
                for entry in sorted(listed, key=lambda found: found.name):
                    with suppress(FileNotFoundError):
                        entries.append((entry.name, entry.stat(follow_symlinks=False)))
            yield Level(parts, descriptor, tuple(entries))
            folders = (name for name, found in entries if stat.S_ISDIR(found.st_mode))
            waiting += [(*parts, name) for name in folders]


def remove_tree(opener: Opener, above: int, name: str) -> None:
    """Delete a folder with everything in it."""
    folders: list[Parts] = []
    with opened_by_force(opener, above, (name,)) as top:
        for level in levels(opener, top):
            for entry, found in level.entries:
                if stat.S_ISDIR(found.st_mode):
                    folders.append((*level.parts, entry))
                else:
                    os.unlink(entry, dir_fd=level.descriptor)
        for parts in reversed(folders):
            with opened(opener, top, parts[:-1]) as descriptor:
                os.rmdir(parts[-1], dir_fd=descriptor)
    os.rmdir(name, dir_fd=above)


class OpenFolders:
    """Opens the folders that hold given paths, and caches the last one, as paths come grouped.

    No other writer may change the tree meanwhile. Close it before folders are replaced.
    """

    def __init__(self, opener: Opener, top: int) -> None:
        self._opener, self._top = opener, top
        self._parts: Parts | None = None
        self._descriptor = -1

    def above(self, parts: Parts) -> int:
        """Return the descriptor of the folder that holds a path.

        Raises:
            OSError: The folder does not exist.
        """
        if parts[:-1] != self._parts:
            self.close()
            self._descriptor = self._opener(self._top, parts[:-1], FOLDER)
            self._parts = parts[:-1]
        return self._descriptor

    def close(self) -> None:
        """Close the folder."""
        if self._parts is not None:
            self._parts = None
            os.close(self._descriptor)


@contextmanager
def opened_by_force(opener: Opener, top: int, parts: Parts) -> Iterator[int]:
    """Open a folder even where its permissions forbid it: a command could hide files there."""
    try:
        descriptor = opener(top, parts, FOLDER)
    except PermissionError:
        if hasattr(os, "O_PATH"):
            with opened(opener, top, parts, os.O_PATH | os.O_DIRECTORY) as held:
                os.chmod(f"/proc/self/fd/{held}", 0o700)  # noqa: PTH101 - a path object is not shorter
        elif parts:
            # Other systems than Linux run no commands, which could put a link in its place now.
            follows = os.chmod not in os.supports_follow_symlinks
            with opened(opener, top, parts[:-1]) as above:
                os.chmod(parts[-1], 0o700, dir_fd=above, follow_symlinks=follows)
        else:
            os.fchmod(top, 0o700)
        descriptor = opener(top, parts, FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
