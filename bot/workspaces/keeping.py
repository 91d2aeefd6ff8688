"""Keeping what a change replaces or removes, before it does."""

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from bot.changes import STORE_IS_FULL, Cause, new_id
from bot.errors import ToolError
from bot.workspaces.beneath import FILE, FOLDER, Opener, opened
from bot.workspaces.settings import Usage
from bot.workspaces.tree import levels, opened_by_force, remove_tree
from bot.workspaces.versions import Former, Item
from bot.workspaces.writing import make_folders

ABOUT, ITEMS, UNDONE = "about.json", "items.jsonl", "undone"
NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
#: Copies of one change that are forced to the disk: each takes some ms, and a command may replace
#: thousands of files.
_MOST_FORCED = 20
#: The folder of a change, and what is in it beside the items.
OWN_FILES = 4
#: A line of the list takes at most this, and its path and the target of a link written as JSON.
_LINE_BYTES, _ESCAPED_BYTES = 250, 6


class NotKeptError(Exception):
    """Nothing was kept: it is larger than the store."""


@dataclass(slots=True)
class Taken:
    """The room that a change takes in the store."""

    id: str
    workspace: str
    size: int = 0
    count: int = 0


class KeptChange:
    """A change under way. Made by `FormerVersions.change`.

    Args:
        opener: Opens below a folder.
        store: The folder of the user's former versions, opened.
        others: The changes in it, oldest first.
        workspace: The name of the workspace in the store.
        cause: The call that makes the change.
        most: The store never holds more.
        now: The time.
        spared: The id of a change that is not dropped to make room.
        drops: Drop the oldest changes to make room; otherwise what does not fit is refused.
    """

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        opener: Opener,
        store: int,
        others: Sequence[Taken],
        *,
        workspace: str,
        cause: Cause,
        most: Usage,
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
        self._mine = Taken(new_id(now, after=newest), workspace)
        self._droppable = [other for other in others if other.id != spared]
        self._size = sum(other.size for other in others)
        self._count = sum(other.count for other in others)
        #: What cannot be dropped: the change that is spared, and this one.
        self._fixed_size = self._size - sum(other.size for other in self._droppable)
        self._fixed_count = self._count - sum(other.count for other in self._droppable)
        self._folder: int | None = None
        self._items: int | None = None
        self._number = 0

    @property
    def id(self) -> str:
        """The id of the change; empty while nothing was kept."""
        return self._mine.id if self._number else ""

    def keep(self, folder: int, parts: Sequence[str], *, removed: bool) -> None:
        """Keep what is at a path below the opened folder, before it is replaced or removed.

        A file that is replaced is copied, and stays until then. What is removed is moved, and so
        is every folder: nothing is left at the path, and it takes no room twice.

        Args:
            folder: The workspace, opened.
            parts: The path in it.
            removed: Nothing is put in its place.

        Raises:
            NotKeptError: It does not fit; everything is as it was.
            ToolError: It does not fit, and nothing may be dropped for it; likewise.
            OSError: There is nothing, or it cannot be kept; everything is as it was.
        """
        with opened(self._opener, folder, parts[:-1]) as above:
            name = parts[-1]
            state = os.stat(name, dir_fd=above, follow_symlinks=False)
            item = Item(
                number=self._number,
                kind=Former.FILE,
                path=tuple(parts),
                removed=removed,
                mode=stat.S_IMODE(state.st_mode) & 0o777,
            )
            if stat.S_ISDIR(state.st_mode):
                size, count = measured(self._opener, above, name)
                item = replace(item, kind=Former.FOLDER, size=size, count=count)
                self._move(above, name, item)
            elif stat.S_ISLNK(state.st_mode):
                target = os.readlink(name, dir_fd=above)
                self._list(replace(item, kind=Former.LINK, target=target))
                if removed:
                    os.unlink(name, dir_fd=above)
            elif stat.S_ISREG(state.st_mode):
                item = replace(item, size=state.st_size)
                (self._move if removed else self._copy)(above, name, item)
            elif removed:
                # Pipes and sockets hold nothing.
                os.unlink(name, dir_fd=above)

    def check_room(self, size: int, count: int) -> None:
        """Let items pass that fit without dropping a change, where none may be dropped.

        Args:
            size: Bytes of them and of their lines, at most.
            count: Files and folders.

        Raises:
            ToolError: They do not fit.
        """
        fits = self._fits(self._size + size + _LINE_BYTES, self._count + count + OWN_FILES)
        if not self._drops and not fits:
            raise ToolError(STORE_IS_FULL)

    def place_for(self, parts: Sequence[str], state: os.stat_result) -> str:
        """Write down that a file is to be replaced, and return the place for its former version.

        Raises:
            NotKeptError: It does not fit.
        """
        item = Item(
            number=self._number,
            kind=Former.FILE,
            path=tuple(parts),
            size=state.st_size,
            mode=stat.S_IMODE(state.st_mode) & 0o777,
        )
        self._list(item)
        return str(item.number)

    def fill(self, place: str, above: int, name: str) -> None:
        """Move a former version to its place."""
        os.rename(name, place, src_dir_fd=above, dst_dir_fd=self._folder)

    def made(self, parts: Sequence[str], *, beside: bool = False) -> None:
        """Write down that there was nothing at a path to which this change brings something.

        Raises:
            NotKeptError: It does not fit.
        """
        self._list(Item(number=self._number, kind=Former.NOTHING, path=tuple(parts), beside=beside))

    def discard(self) -> None:
        """Forget a change that did not happen. What it moved is gone with it."""
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

    def _move(self, above: int, name: str, item: Item) -> None:
        # Listed first: what is listed and not there is passed over; what is not listed is lost.
        self._list(item)
        os.rename(name, str(item.number), src_dir_fd=above, dst_dir_fd=self._folder)

    def _copy(self, above: int, name: str, item: Item) -> None:
        with opened(self._opener, above, (name,), FILE) as source:
            state = os.fstat(source)
            if not stat.S_ISREG(state.st_mode):
                raise NotKeptError
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

    def _list(self, item: Item) -> None:
        self._write_down(item, self._room_for(item))

    def _write_down(self, item: Item, folder: int) -> None:
        if self._items is None:
            self._items = os.open(ITEMS, NEW | os.O_APPEND, 0o600, dir_fd=folder)
        write_all(self._items, item.line)
        self._number += 1

    def _room_for(self, item: Item) -> int:
        """Drop the oldest changes until an item fits, and return the folder for it.

        Raises:
            NotKeptError: It never does.
            ToolError: It does not fit, and nothing may be dropped.
        """
        about = b"" if self._folder is not None else json.dumps(asdict(self._cause)).encode()
        size = item.size + len(item.line) + len(about)
        count = item.count + (OWN_FILES if about else 0)
        if not self._drops and not self._fits(self._size + size, self._count + count):
            raise ToolError(STORE_IS_FULL)
        if not self._fits(self._fixed_size + size, self._fixed_count + count):
            raise NotKeptError
        while not self._fits(self._size + size, self._count + count):
            oldest = self._droppable.pop(0)
            drop(self._opener, self._store, oldest)
            self._size, self._count = self._size - oldest.size, self._count - oldest.count
        self._size, self._count = self._size + size, self._count + count
        self._fixed_size, self._fixed_count = self._fixed_size + size, self._fixed_count + count
        if self._folder is None:
            self._folder = self._begun(about)
        return self._folder

    def _fits(self, size: int, count: int) -> bool:
        return size <= self._most.size and count <= self._most.count

    def _begun(self, about: bytes) -> int:
        parts = (self._mine.workspace, self._mine.id)
        make_folders(self._opener, self._store, parts)
        folder = self._opener(self._store, parts, FOLDER)
        target = os.open(ABOUT, NEW | os.O_EXCL, 0o600, dir_fd=folder)
        try:
            write_all(target, about)
        finally:
            os.close(target)
        return folder


def most_room(parts: Sequence[str], state: os.stat_result) -> int:
    """Return the most bytes that something takes in the store, with its line (pure)."""
    size = state.st_size if stat.S_ISREG(state.st_mode) else 0
    # The size of a link is that of its target, which is written into the line.
    target = state.st_size if stat.S_ISLNK(state.st_mode) else 0
    path = sum(len(os.fsencode(part)) + len('"", ') for part in parts)
    return size + _LINE_BYTES + _ESCAPED_BYTES * (path + target)


def drop(opener: Opener, store: int, change: Taken) -> None:
    """Delete a change from the store."""
    with opened(opener, store, (change.workspace,)) as folder:
        # Without it the rest is no change any more, should the process end here.
        with suppress(OSError):
            os.unlink(f"{change.id}/{ABOUT}", dir_fd=folder)
        with suppress(FileNotFoundError):
            remove_tree(opener, folder, change.id)


def measured(opener: Opener, above: int, name: str) -> tuple[int, int]:
    """Return the bytes of a folder, and the files and folders with it.

    Folders that their owner may not change are opened up: they are to be moved and deleted.

    Raises:
        OSError: It cannot be opened.
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
    """Write a content to an open file, to its end."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(target, rest) :]
