"""The store of former versions: what changes to a user's files replaced or removed.

It lies beside the workspaces, where no command and no file tool reaches: one folder per user, in it
one per workspace, in it one per change. A change holds what was there before it, by number, and a
list with the path of each.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from bot.changes import Cause, time_of
from bot.values import Clock
from bot.workspaces.beneath import FOLDER, Opener, opened
from bot.workspaces.keeping import (
    ABOUT,
    ITEMS,
    NEW,
    OWN_FILES,
    UNDONE,
    KeptChange,
    Taken,
    drop,
    measured,
)
from bot.workspaces.settings import Usage
from bot.workspaces.versions import FileChange, item_of
from bot.workspaces.writing import make_folders

#: Beside the folders of the users; none of those has such a name.
STORE = ".former"
#: What a change takes besides its files, at most: its cause, and a long path. And what each file
#: takes in its list, as a rule.
_LIST_BYTES, _LINE_BYTES = 20_000, 400


class FormerVersions:
    """The former versions of one user's files.

    Its methods block. Whoever changes something here holds the lock of the user's files.

    Args:
        opener: Opens below a folder.
        base: The folder of all workspaces.
        user: The name of the user's folder.
        most: The store never holds more: the oldest changes are dropped first.
        now: The time.
        drops: Drop the oldest changes to make room for a new one; otherwise a change that does not
            fit beside them is refused.
    """

    def __init__(
        self,
        opener: Opener,
        base: Path,
        user: str,
        *,
        most: Usage,
        now: Clock,
        drops: bool = True,
    ) -> None:
        self._opener = opener
        self._base = base
        self._user = user
        self._most = most
        self._now = now
        self._drops = drops

    @contextmanager
    def change(self, workspace: str, cause: Cause, *, spared: str = "") -> Iterator[KeptChange]:
        """Begin a change to a workspace: `keep` what it replaces or removes, before it does.

        Args:
            workspace: The name of the workspace in the store.
            cause: The call that makes the change.
            spared: The id of a change that is not dropped to make room.
        """
        with self._opened() as store:
            change = KeptChange(
                self._opener,
                store,
                self._taken(store),
                workspace=workspace,
                cause=cause,
                most=self._most,
                now=self._now(),
                spared=spared,
                drops=self._drops,
            )
            try:
                yield change
            finally:
                change.close()

    def fits(self, size: int, count: int = 1) -> bool:
        """Return whether files of this size can be kept, after dropping what may be dropped."""
        size, count = size + _LIST_BYTES, count + OWN_FILES
        if not self._drops:
            with self._opened() as store:
                taken = self._taken(store)
            size += sum(change.size for change in taken) + count * _LINE_BYTES
            count += sum(change.count for change in taken)
        return size <= self._most.size and count <= self._most.count

    def changes(self) -> Iterator[FileChange]:
        """Return the changes, newest first."""
        with self._opened() as store:
            names = sorted(self._names(store), key=lambda found: found[1], reverse=True)
            for workspace, name in names:
                change = self._read(store, workspace, name)
                if change is not None:
                    yield change

    @contextmanager
    def kept_by(self, change: FileChange) -> Iterator[int]:
        """Open the folder that holds what a change replaced or removed."""
        parts = (change.workspace, change.id)
        with self._opened() as store, opened(self._opener, store, parts) as folder:
            yield folder

    def mark_undone(self, change: FileChange) -> None:
        """Write down that a change was taken back."""
        with self.kept_by(change) as folder:
            os.close(os.open(UNDONE, NEW, 0o600, dir_fd=folder))

    def forget_before(self, moment: datetime) -> int:
        """Drop the changes before a moment, and return how many there were."""
        with self._opened() as store:
            old = [found for found in self._names(store) if time_of(found[1]) < moment]
            for workspace, name in old:
                drop(self._opener, store, Taken(name, workspace))
        return len(old)

    def forget_workspace(self, workspace: str) -> None:
        """Drop all changes to a workspace that is deleted."""
        with self._opened() as store:
            for found, name in self._names(store):
                if found == workspace:
                    drop(self._opener, store, Taken(name, workspace))

    @contextmanager
    def _opened(self) -> Iterator[int]:
        self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
        base = os.open(self._base, FOLDER)
        try:
            make_folders(self._opener, base, (STORE, self._user))
            with opened(self._opener, base, (STORE, self._user)) as store:
                yield store
        finally:
            os.close(base)

    def _names(self, store: int) -> list[tuple[str, str]]:
        found = []
        for workspace in _names(store):
            with opened(self._opener, store, (workspace,)) as folder:
                found += [(workspace, name) for name in _names(folder)]
        return found

    def _taken(self, store: int) -> list[Taken]:
        """Return the room that each change takes, oldest first."""
        found = {
            (workspace, name): Taken(name, workspace) for workspace, name in self._names(store)
        }
        for (workspace, name), change in found.items():
            # Whoever only asks what fits holds no lock: it may be dropped meanwhile.
            with (
                suppress(FileNotFoundError),
                opened(self._opener, store, (workspace,)) as above,
            ):
                change.size, change.count = measured(self._opener, above, name)
        return sorted(found.values(), key=lambda change: change.id)

    def _read(self, store: int, workspace: str, name: str) -> FileChange | None:
        try:
            with opened(self._opener, store, (workspace, name)) as folder:
                cause = Cause(**json.loads(_text(folder, ABOUT)))
                lines = _text(folder, ITEMS).splitlines()
                undone = UNDONE in _names(folder)
        except (OSError, ValueError, TypeError):
            # Half made, or half dropped, when the process ended.
            return None
        items = tuple(item for line in lines if (item := item_of(line)) is not None)
        if not items:
            return None
        return FileChange(id=name, workspace=workspace, cause=cause, items=items, undone=undone)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as found:
        return [entry.name for entry in found]


def _text(folder: int, name: str) -> str:
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
        return file.read().decode()
