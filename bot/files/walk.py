"""Iterates over all entries in a folder: bounded, and never through a link."""

import os
import re
import stat
import time
from collections.abc import Iterator, Set
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Self

from bot.files.opener import FOLDER, Opener, opened

#: Name of a file that is being written, hidden from readers.
TEMPORARY = re.compile(r"\.retinue-[0-9a-f]{16}\.part")

#: Folders without files of the user's own; each can be walked by its own path.
USUALLY_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})

#: Most levels, since each keeps a folder open. More than a path of a tool may have, as commands can
#: make deeper folders.
DEEPEST = 64


class EntryKind(StrEnum):
    """The kind of an entry."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"

    @classmethod
    def of(cls, state: os.stat_result) -> Self:
        """Return the kind of an entry from its `lstat` result."""
        if stat.S_ISREG(state.st_mode):
            return cls.FILE
        if stat.S_ISDIR(state.st_mode):
            return cls.FOLDER
        return cls.LINK if stat.S_ISLNK(state.st_mode) else cls.OTHER


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry in a folder.

    Attributes:
        parts: Its path as names, from the folder where the walk begins.
        changed: Modification time, in nanoseconds since 1970.
        size: For a file, its bytes.
        skipped: A folder that was not entered.
    """

    parts: tuple[str, ...]
    kind: EntryKind
    size: int
    changed: int
    skipped: bool = False

    @property
    def path(self) -> str:
        """The path, from the folder where the walk begins."""
        return "/".join(self.parts)


@dataclass(slots=True)
class FolderWalk:
    """The entries below an open folder, ordered by name within each folder.

    Attributes:
        most: Most entries to visit.
        deepest: Most levels to descend.
        skip: Names of folders not to enter.
        until: Deadline, by the monotonic clock.
        cut: Whether the walk ended before it saw everything.
    """

    opener: Opener
    folder: int
    most: int
    deepest: int = DEEPEST
    skip: Set[str] = frozenset()
    until: float = float("inf")
    cut: bool = False

    def __iter__(self) -> Iterator[FolderEntry]:
        return self._below(self.folder, ())

    def _below(self, folder: int, above: tuple[str, ...]) -> Iterator[FolderEntry]:
        with os.scandir(folder) as listed:
            entries = sorted(islice(listed, self.most + 1), key=lambda found: found.name)
        for found in entries:
            if self.most <= 0 or time.monotonic() > self.until:
                self.cut = True
                return
            self.most -= 1
            entry = self._entry(found, above)
            if entry is None:
                continue
            yield entry
            if entry.kind is EntryKind.FOLDER and not entry.skipped:
                try:
                    with opened(self.opener, folder, entry.parts[-1:], FOLDER) as below:
                        yield from self._below(below, entry.parts)
                except OSError:
                    # Replaced by a link meanwhile, or not accessible: it must not be read.
                    self.cut = True

    def _entry(self, found: os.DirEntry[str], above: tuple[str, ...]) -> FolderEntry | None:
        try:
            state = found.stat(follow_symlinks=False)
        except OSError:
            # It has been removed.
            return None
        kind = EntryKind.of(state)
        return FolderEntry(
            parts=(*above, found.name),
            kind=kind,
            size=state.st_size if kind is EntryKind.FILE else 0,
            changed=state.st_mtime_ns,
            skipped=kind is EntryKind.FOLDER
            and (found.name in self.skip or len(above) + 1 >= self.deepest),
        )
