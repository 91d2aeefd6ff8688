"""Stores former versions: the content that changes to a user's files replaced or removed.

The store is beside the workspaces, where no command and no file tool can reach it: one folder per
user, in it one per workspace, in it one per change. A change holds the former files by number, and
a list with the path of each.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from pathlib import Path

from bot.changes import Cause, time_of
from bot.files.opener import Opener, opened
from bot.values import Clock
from skills.files.recording import (
    ABOUT,
    ITEMS,
    NEW,
    OWN_FILES,
    UNDONE,
    ChangeRecorder,
    StoredSize,
    drop,
    measured,
)
from skills.files.settings import SpaceUsage
from skills.files.versions import FileChange, item_of
from skills.files.writing import opened_in

#: The store's folder, beside those of the users. No user's folder can have this name.
STORE = ".former"
#: Most bytes that a change takes besides its files: its cause, and a long path. And the usual bytes
#: of a file's line in the list.
_LIST_BYTES, _LINE_BYTES = 20_000, 400


@dataclass(frozen=True, slots=True)
class FormerVersions:
    """The former versions of one user's files.

    Its methods block. Callers that change something must hold the lock of the user's files.

    Attributes:
        opener: Opens below a folder.
        base: The folder of all workspaces.
        user: The name of the user's folder.
        most: Size limit of the store: the oldest changes are dropped first.
        now: The clock.
        drops: Drop the oldest changes to make room for a new one; otherwise a change that does not
            fit beside them is refused.
    """

    opener: Opener
    base: Path
    user: str
    _: KW_ONLY
    most: SpaceUsage
    now: Clock
    drops: bool = True

    @contextmanager
    def change(self, workspace: str, cause: Cause, *, spared: str = "") -> Iterator[ChangeRecorder]:
        """Begin a change to a workspace; call `keep` before replacing or removing a path.

        Args:
            workspace: The name of the workspace in the store.
            cause: The call that makes the change.
            spared: The id of a change that is not dropped to make room.
        """
        with self._opened() as store:
            change = ChangeRecorder(
                self.opener,
                store,
                self._taken(store),
                workspace=workspace,
                cause=cause,
                most=self.most,
                now=self.now(),
                spared=spared,
                drops=self.drops,
            )
            try:
                yield change
            finally:
                change.close()

    def fits(self, size: int, count: int = 1) -> bool:
        """Return True if files of this size fit, after dropping older changes where allowed."""
        size, count = size + _LIST_BYTES, count + OWN_FILES
        if not self.drops:
            with self._opened() as store:
                taken = self._taken(store)
            size += sum(change.size for change in taken) + count * _LINE_BYTES
            count += sum(change.count for change in taken)
        return size <= self.most.size and count <= self.most.count

    def changes(self) -> Iterator[FileChange]:
        """Yield the changes, newest first."""
        with self._opened() as store:
            names = sorted(self._names(store), key=lambda found: found[1], reverse=True)
            for workspace, name in names:
                try:
                    with opened(self.opener, store, (workspace, name)) as folder:
                        cause = Cause(**json.loads(_text(folder, ABOUT)))
                        lines = _text(folder, ITEMS).splitlines()
                        undone = UNDONE in _names(folder)
                except (OSError, ValueError, TypeError):
                    # The process ended while the change was being made or dropped.
                    continue
                items = tuple(item for line in lines if (item := item_of(line)) is not None)
                if items:
                    yield FileChange(
                        id=name, workspace=workspace, cause=cause, items=items, undone=undone
                    )

    @contextmanager
    def open_versions(self, change: FileChange) -> Iterator[int]:
        """Open the folder that holds the former versions of a change."""
        parts = (change.workspace, change.id)
        with self._opened() as store, opened(self.opener, store, parts) as folder:
            yield folder

    def mark_undone(self, change: FileChange) -> None:
        """Mark a change as undone."""
        with self.open_versions(change) as folder:
            os.close(os.open(UNDONE, NEW, 0o600, dir_fd=folder))

    def forget_before(self, moment: datetime) -> int:
        """Drop the changes before a moment, and return their number."""
        return self._forget(lambda _, name: time_of(name) < moment)

    def forget_workspace(self, workspace: str) -> None:
        """Drop all changes to a workspace that is being deleted."""
        self._forget(lambda found, _: found == workspace)

    def forget_path(self, path: tuple[str, ...]) -> None:
        """Drop all changes to the file at a path, with what else they changed."""
        found = {
            (change.workspace, change.id)
            for change in self.changes()
            if any(item.path == path for item in change.items)
        }
        self._forget(lambda *change: change in found)

    def forget_all(self) -> None:
        """Drop all changes."""
        self._forget(lambda *_: True)

    def _forget(self, chosen: Callable[[str, str], bool]) -> int:
        """Drop the changes that are chosen by workspace and id, and return their number."""
        with self._opened() as store:
            dropped = [found for found in self._names(store) if chosen(*found)]
            for workspace, name in dropped:
                drop(self.opener, store, StoredSize(name, workspace))
        return len(dropped)

    def _opened(self) -> AbstractContextManager[int]:
        return opened_in(self.opener, self.base, (STORE, self.user))

    def _names(self, store: int) -> list[tuple[str, str]]:
        found = []
        for workspace in _names(store):
            with opened(self.opener, store, (workspace,)) as folder:
                found += [(workspace, name) for name in _names(folder)]
        return found

    def _taken(self, store: int) -> list[StoredSize]:
        """Return the space that each change takes, oldest first."""
        found = [StoredSize(name, workspace) for workspace, name in self._names(store)]
        for change in found:
            # A caller of `fits` holds no lock, so the change may be dropped meanwhile.
            with (
                suppress(FileNotFoundError),
                opened(self.opener, store, (change.workspace,)) as above,
            ):
                change.size, change.count = measured(self.opener, above, change.id)
        return sorted(found, key=lambda change: change.id)


def _names(folder: int) -> list[str]:
    return os.listdir(folder)


def _text(folder: int, name: str) -> str:
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
        return file.read().decode()
