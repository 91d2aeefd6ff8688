"""Stores the former version of a path before a change replaces or removes it."""

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from bot.changes import STORE_IS_FULL, Cause, new_id
from bot.errors import ToolError
from bot.files.opener import FILE, FOLDER, Opener, opened
from skills.files.settings import SpaceUsage
from skills.files.tree import levels, opened_by_force, remove_tree
from skills.files.versions import FormerItem, FormerKind
from skills.files.writing import make_folders

ABOUT, ITEMS, UNDONE = "about.json", "items.jsonl", "undone"
NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
#: Copies of one change that are synced to the disk: a sync takes some ms, and a command may replace
#: thousands of files.
_MOST_FORCED = 20
#: Files and folders that a change takes besides its items, its own folder included.
OWN_FILES = 4
#: Most bytes of a line of the list, without path and link target. Each byte of those two takes at
#: most this many when it is written as JSON.
_LINE_BYTES, _ESCAPED_BYTES = 250, 6


class TooLargeToStoreError(Exception):
    """The item was not stored, since it is larger than the store."""


@dataclass(slots=True)
class StoredSize:
    """The space that a change takes in the store."""

    id: str
    workspace: str
    size: int = 0
    count: int = 0


class ChangeRecorder:
    """A change in progress. Made by `FormerVersions.change`.

    Args:
        opener: Opens below a folder.
        store: Descriptor of the folder of the user's former versions.
        others: The changes in the store, oldest first.
        workspace: The name of the workspace in the store.
        cause: The call that makes the change.
        most: Size limit of the store.
        now: The time.
        spared: The id of a change that is not dropped to make room.
        drops: Drop the oldest changes to make room; otherwise an item that does not fit is refused.
    """

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        opener: Opener,
        store: int,
        others: Sequence[StoredSize],
        *,
        workspace: str,
        cause: Cause,
        most: SpaceUsage,
        now: datetime,
        spared: str,
        drops: bool,
    ) -> None:
        self._opener = opener
        self._store = store
        self._cause = cause
        self._most = most
        self._drops = drops
        newest = max((other.id for other in others), default="")
        self._mine = StoredSize(new_id(now, after=newest), workspace)
        self._droppable = [other for other in others if other.id != spared]
        self._size = sum(other.size for other in others)
        self._count = sum(other.count for other in others)
        self._folder: int | None = None
        self._items: int | None = None
        self._number = 0

    @property
    def id(self) -> str:
        """The id of the change; empty until an item is stored."""
        return self._mine.id if self._number else ""

    def keep(self, folder: int, parts: Sequence[str], *, removed: bool) -> None:
        """Store the former version of a path below the opened folder; call it before the change.

        A file that is to be replaced is copied, and stays in place. A path that is to be removed,
        and every folder, is moved: nothing is left at the path, and it takes no space twice.

        Args:
            folder: Descriptor of the workspace.
            parts: The path in it.
            removed: The path is removed; nothing is put in its place.

        Raises:
            TooLargeToStoreError: It is larger than the store; nothing was changed.
            ToolError: It does not fit, and no change may be dropped; nothing was changed.
            OSError: Nothing is at the path, or it cannot be stored; nothing was changed.
        """
        with opened(self._opener, folder, parts[:-1]) as above:
            name = parts[-1]
            state = os.stat(name, dir_fd=above, follow_symlinks=False)
            item = replace(self._item(parts, state), removed=removed)
            if stat.S_ISDIR(state.st_mode):
                size, count = measured(self._opener, above, name)
                item = replace(item, kind=FormerKind.FOLDER, size=size, count=count)
                self._move(above, name, item)
            elif stat.S_ISLNK(state.st_mode):
                target = os.readlink(name, dir_fd=above)
                self._list(replace(item, kind=FormerKind.LINK, target=target))
                if removed:
                    os.unlink(name, dir_fd=above)
            elif stat.S_ISREG(state.st_mode):
                item = replace(item, size=state.st_size)
                (self._move if removed else self._copy)(above, name, item)
            elif removed:
                # Pipes and sockets have no content to store.
                os.unlink(name, dir_fd=above)

    def check_room(self, size: int, count: int) -> None:
        """Raise if no change may be dropped and these items do not fit.

        Args:
            size: Most bytes of the items and their lines.
            count: Files and folders.

        Raises:
            ToolError: They do not fit.
        """
        fits = self._fits(self._size + size + _LINE_BYTES, self._count + count + OWN_FILES)
        if not self._drops and not fits:
            raise ToolError(STORE_IS_FULL)

    def place_for(self, parts: Sequence[str], state: os.stat_result) -> str:
        """List a file that is to be replaced, and return the name for its former version.

        Raises:
            TooLargeToStoreError: It does not fit.
        """
        item = replace(self._item(parts, state), size=state.st_size)
        self._list(item)
        return str(item.number)

    def fill(self, place: str, above: int, name: str) -> None:
        """Move a former version to the name that `place_for` returned."""
        os.rename(name, place, src_dir_fd=above, dst_dir_fd=self._folder)

    def made(self, parts: Sequence[str], *, beside: bool = False) -> None:
        """List a path that had nothing before this change creates something there.

        Raises:
            TooLargeToStoreError: The entry does not fit.
        """
        self._list(
            FormerItem(
                number=self._number, kind=FormerKind.NOTHING, path=tuple(parts), beside=beside
            )
        )

    def _item(self, parts: Sequence[str], state: os.stat_result) -> FormerItem:
        """Return the next item, for a file, without its size."""
        return FormerItem(
            number=self._number,
            kind=FormerKind.FILE,
            path=tuple(parts),
            mode=stat.S_IMODE(state.st_mode) & 0o777,
        )

    def discard(self) -> None:
        """Delete the record of a failed change, with the former versions that it moved."""
        if self._folder is not None:
            self.close()
            drop(self._opener, self._store, self._mine)
        self._number = 0

    def close(self) -> None:
        """Close the folder of the change."""
        for descriptor in (self._items, self._folder):
            if descriptor is not None:
                os.close(descriptor)
        self._items = self._folder = None

    def _move(self, above: int, name: str, item: FormerItem) -> None:
        # List before moving: an entry without a file is skipped on undo; a file without an entry is
        # lost.
        self._list(item)
        os.rename(name, str(item.number), src_dir_fd=above, dst_dir_fd=self._folder)

    def _copy(self, above: int, name: str, item: FormerItem) -> None:
        with opened(self._opener, above, (name,), FILE) as source:
            state = os.fstat(source)
            if not stat.S_ISREG(state.st_mode):
                raise TooLargeToStoreError
            item = replace(item, size=state.st_size)
            folder = self._room_for(item)
            target = os.open(str(item.number), NEW | os.O_EXCL, 0o600, dir_fd=folder)
            try:
                left = item.size
                while left and (piece := os.read(source, min(_PIECE, left))):
                    write_all(target, piece)
                    left -= len(piece)
                if item.number < _MOST_FORCED:
                    os.fsync(target)
            except BaseException:
                os.unlink(str(item.number), dir_fd=folder)
                raise
            finally:
                os.close(target)
        self._write_down(item, folder)

    def _list(self, item: FormerItem) -> None:
        self._write_down(item, self._room_for(item))

    def _write_down(self, item: FormerItem, folder: int) -> None:
        if self._items is None:
            self._items = os.open(ITEMS, NEW | os.O_APPEND, 0o600, dir_fd=folder)
        write_all(self._items, item.line)
        self._number += 1

    def _room_for(self, item: FormerItem) -> int:
        """Drop the oldest changes until an item fits, and return the folder for it.

        Raises:
            TooLargeToStoreError: It does not fit even into an empty store.
            ToolError: It does not fit, and no change may be dropped.
        """
        about = b"" if self._folder is not None else json.dumps(asdict(self._cause)).encode()
        size = item.size + len(item.line) + len(about)
        count = item.count + (OWN_FILES if about else 0)
        size, count = self._size + size, self._count + count
        if not self._drops and not self._fits(size, count):
            raise ToolError(STORE_IS_FULL)
        dropped: list[StoredSize] = []
        for oldest in self._droppable:
            if self._fits(size, count):
                break
            dropped.append(oldest)
            size, count = size - oldest.size, count - oldest.count
        if not self._fits(size, count):
            raise TooLargeToStoreError
        for oldest in dropped:
            drop(self._opener, self._store, oldest)
        del self._droppable[: len(dropped)]
        self._size, self._count = size, count
        if self._folder is None:
            parts = (self._mine.workspace, self._mine.id)
            make_folders(self._opener, self._store, parts)
            self._folder = self._opener(self._store, parts, FOLDER)
            target = os.open(ABOUT, NEW | os.O_EXCL, 0o600, dir_fd=self._folder)
            try:
                write_all(target, about)
            finally:
                os.close(target)
        return self._folder

    def _fits(self, size: int, count: int) -> bool:
        return size <= self._most.size and count <= self._most.count


def most_room(parts: Sequence[str], state: os.stat_result) -> int:
    """Return the most bytes that a path takes in the store, its line included (pure)."""
    size = state.st_size if stat.S_ISREG(state.st_mode) else 0
    # The size of a link is the length of its target, which is written into the line.
    target = state.st_size if stat.S_ISLNK(state.st_mode) else 0
    path = sum(len(os.fsencode(part)) + len('"", ') for part in parts)
    return size + _LINE_BYTES + _ESCAPED_BYTES * (path + target)


def drop(opener: Opener, store: int, change: StoredSize) -> None:
    """Delete a change from the store."""
    with opened(opener, store, (change.workspace,)) as folder:
        # Without this file the rest is no valid change, should the process end here.
        with suppress(OSError):
            os.unlink(f"{change.id}/{ABOUT}", dir_fd=folder)
        with suppress(FileNotFoundError):
            remove_tree(opener, folder, change.id)


def measured(opener: Opener, above: int, name: str) -> tuple[int, int]:
    """Return the bytes in a folder, and the number of files and folders with the folder itself.

    Folders that their owner may not change get the permission: they are to be moved and deleted.

    Raises:
        OSError: The folder cannot be opened.
    """
    size, count = 0, 1
    with opened_by_force(opener, above, (name,)) as top:
        for level in levels(opener, top):
            mode = stat.S_IMODE(os.fstat(level.descriptor).st_mode)
            if mode & 0o700 != 0o700:
                os.fchmod(level.descriptor, mode | 0o700)
            count += len(level.entries)
            size += sum(state.st_size for _, state in level.entries if stat.S_ISREG(state.st_mode))
    return size, count


def write_all(target: int, content: bytes) -> None:
    """Write all of the content to an open file, over several system calls where needed."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(target, rest) :]
