"""Undoes a change to files: restores the former versions and overwrites no later work."""

import errno
import os
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field

from bot.errors import ToolError
from bot.files.opener import MOST_NAME_BYTES, state_of
from skills.files.recording import ChangeRecorder, TooLargeToStoreError
from skills.files.settings import Change
from skills.files.versions import FileChange, FormerItem, FormerKind
from skills.files.workspace import Workspace
from skills.files.writing import missing, opened_made

_BESIDE = 1_000


@dataclass(slots=True)
class Restored:
    """The outcome of an undo.

    Attributes:
        back: Paths that are as before.
        beside: Paths that hold something else now, each with the path of its former version.
        removed: Paths that an undo had created and that are removed again.
        failed: Paths that are not restored, each with the reason.
        id: The id of the undo, which can be undone itself; empty when nothing changed.
    """

    back: list[str] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    id: str = ""


def restore(workspace: Workspace, change: FileChange) -> Restored:
    """Restore the paths that a change replaced or removed, as far as they are stored.

    Later content at a path stays, and the former version is put beside it. The state before the
    undo is stored, as before every change.

    Raises:
        ToolError: The change is not stored any more, or was undone already.
    """
    with workspace.changing(spared=change.id) as (folder, undo):
        newest = list(workspace.former.changes())
        now = next((each for each in newest if each.id == change.id), None)
        if now is None:
            raise ToolError("Its former versions are not kept any more.")
        if now.undone:
            raise ToolError("It was undone already.")
        # Paths that an earlier, incomplete undo restored.
        begun = (each for each in newest if each.cause.undoes == now.id and not each.undone)
        back = {item.path for each in begun for item in each.items}
        # Paths that changed after the change, without changes that were undone.
        later: list[tuple[str, ...]] = []
        taken_back: set[str] = set()
        for each in newest:
            if each.id == now.id:
                break
            if each.workspace != now.workspace or each.id in taken_back:
                continue
            if each.cause.undoes and not any(item.beside for item in each.items):
                taken_back.add(each.cause.undoes)
            else:
                later += [item.path for item in each.items]
        restoring = _Restoring(workspace, folder, undo, later, back)
        with workspace.former.open_versions(now) as kept:
            for item in now.items:
                try:
                    restoring.restore(kept, item)
                except (OSError, ToolError, TooLargeToStoreError) as error:
                    restoring.outcome.failed.append((_spelled(item.path), _reason(error)))
        outcome = restoring.outcome
        outcome.id = undo.id
        if not outcome.failed:
            workspace.former.mark_undone(now)
    return outcome


@dataclass(frozen=True, slots=True)
class _Restoring:
    """Performs one undo, path by path."""

    workspace: Workspace
    folder: int
    undo: ChangeRecorder
    changed: Sequence[tuple[str, ...]]
    back: Set[tuple[str, ...]]
    outcome: Restored = field(default_factory=Restored)

    def restore(self, kept: int, item: FormerItem) -> None:
        """Restore one path to its state before the change.

        Raises:
            OSError, ToolError, TooLargeToStoreError: The path stays as it is.
        """
        before = state_of(self.workspace.opener, self.folder, item.path)
        if item.kind is FormerKind.NOTHING:
            # Remove the content that the change created.
            if before is not None:
                if self._changed_since(item):
                    raise ToolError("it was changed since, and stays")
                self.undo.keep(self.folder, item.path, removed=True)
                self.outcome.removed.append(_spelled(item.path))
            return
        if item.kind is not FormerKind.LINK:
            try:
                os.stat(str(item.number), dir_fd=kept, follow_symlinks=False)
            except FileNotFoundError:
                if item.path not in self.back:
                    raise
                self.outcome.back.append(_spelled(item.path))
                return
        path = item.path
        if before is not None and (item.removed or self._changed_since(item)):
            path, before = self._free_path(item.path), None
        made = missing(self.workspace.opener, self.folder, path) - 1 + item.count
        size = 0 if before is None else before.st_size
        self.workspace.check_total(Change(size, item.size, made))
        if before is None:
            self.undo.made(path, beside=path != item.path)
        else:
            self.undo.keep(self.folder, path, removed=False)
        self._put(kept, item, path, clear=before is not None and item.kind is FormerKind.FOLDER)
        if path == item.path:
            self.outcome.back.append(_spelled(path))
        else:
            self.outcome.beside.append((_spelled(item.path), _spelled(path)))

    def _put(self, kept: int, item: FormerItem, path: tuple[str, ...], *, clear: bool) -> None:
        """Move a former version to a path; `clear` removes the file there, whose copy is stored."""
        name = str(item.number)
        with opened_made(self.workspace.opener, self.folder, path[:-1]) as above:
            if clear:
                # A folder can only be moved to a free path.
                with suppress(FileNotFoundError):
                    os.unlink(path[-1], dir_fd=above)
            if item.kind is FormerKind.LINK:
                # Made in the store and renamed, so that it replaces the present file atomically.
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=kept)
                os.symlink(item.target, name, dir_fd=kept)
            elif item.kind is FormerKind.FILE:
                os.chmod(name, item.mode | 0o600, dir_fd=kept)
            os.rename(name, path[-1], src_dir_fd=kept, dst_dir_fd=above)

    def _changed_since(self, item: FormerItem) -> bool:
        """Return True if a later change touched this path, a folder above or content below it."""
        path = item.path
        return any(
            path[: len(other)] == other or other[: len(path)] == path for other in self.changed
        )

    def _free_path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        for number in range(1, _BESIDE):
            ending = f".restored-{number}"
            name = os.fsencode(path[-1])[: MOST_NAME_BYTES - len(ending)].decode(errors="ignore")
            beside = (*path[:-1], name + ending)
            if state_of(self.workspace.opener, self.folder, beside) is None:
                return beside
        raise ToolError("too many former versions are beside it already")


def _spelled(path: Sequence[str]) -> str:
    return "/".join(path)


def _reason(error: Exception) -> str:
    if isinstance(error, ToolError):
        return str(error)
    if isinstance(error, TooLargeToStoreError):
        return "what is there now is too large to be kept"
    if isinstance(error, FileNotFoundError):
        return "its former version is not kept any more"
    number = error.errno if isinstance(error, OSError) else 0
    if number in {errno.ENOTDIR, errno.ELOOP}:
        return "something else is in the place of its folder"
    return os.strerror(number or errno.EIO)
