"""Lists and takes back changes of files, for `/retinue undo`."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bot.agent.sanitizer import one_line
from bot.changes import Cause, Undone
from bot.values import Clock, Identity
from skills.files.restoring import Restored
from skills.files.versions import FileChange, FormerItem, FormerKind
from skills.files.workspaces import Workspaces

#: Most paths named in a line.
_PATHS = 3


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The changes of all users' files: a `bot.changes.ChangeStore`."""

    workspaces: Workspaces
    now: Clock

    async def changes(self, user: Identity) -> list["UndoableFileChange"]:
        """Return a user's changes, newest first."""
        found = await asyncio.to_thread(self.workspaces.changes, user)
        return [UndoableFileChange(each, user, self.workspaces, self.now) for each in found]


@dataclass(frozen=True, slots=True)
class UndoableFileChange:
    """A change of a user's files: a `bot.changes.OwnChange`."""

    change: FileChange
    user: Identity
    workspaces: Workspaces
    now: Clock

    @property
    def id(self) -> str:
        """The id of the change."""
        return self.change.id

    @property
    def cause(self) -> Cause:
        """The call that made it."""
        return self.change.cause

    @property
    def undone(self) -> bool:
        """True if it was undone already."""
        return self.change.undone

    @property
    def names(self) -> str:
        """The paths that it is about, one a line."""
        return "\n".join("/".join(item.path) for item in self.change.items)

    @property
    def what(self) -> str:
        """The paths that were deleted, brought back and replaced."""
        groups = {
            "deleted": [item for item in self.change.items if item.removed],
            "brought back": [item for item in self.change.items if item.kind is FormerKind.NOTHING],
        }
        rest = [
            item
            for item in self.change.items
            if not any(item in group for group in groups.values())
        ]
        groups["replaced"] = rest
        return ", ".join(f"{done} {_names(items)}" for done, items in groups.items() if items)

    async def undo(self, command_id: str) -> Undone:
        """Undo it.

        Raises:
            ToolError: It cannot be undone; the text has the reason.
        """
        return _undone(
            await asyncio.to_thread(
                self.workspaces.undo, self.user, self.change, self.now, command_id=command_id
            )
        )


def _names(items: Sequence[FormerItem]) -> str:
    shown = ", ".join(_code("/".join(item.path)) for item in items[:_PATHS])
    more = len(items) - _PATHS
    return f"{shown} and {more} more" if more > 0 else shown


def _undone(restored: Restored) -> Undone:
    lines = []
    if restored.back:
        lines.append(f"Restored {_paths(restored.back)}.")
    if restored.removed:
        lines.append(f"Deleted {_paths(restored.removed)} again.")
    lines += [
        f"{_code(path)} is something else by now: its former version is beside it, as "
        f"{_code(beside)}."
        for path, beside in restored.beside[:_PATHS]
    ]
    if len(restored.beside) > _PATHS:
        lines.append(f"{len(restored.beside) - _PATHS} more are beside what is there now.")
    lines += [
        f"Not restored: {_code(path)} ({reason.rstrip('.')})."
        for path, reason in restored.failed[:_PATHS]
    ]
    if len(restored.failed) > _PATHS:
        lines.append(f"{len(restored.failed) - _PATHS} more are not restored.")
    done = bool(restored.back or restored.removed or restored.beside)
    text = "\n".join(lines) or "It is as it was before: nothing had to be done."
    return Undone(text, restored.id if done else "", failed=bool(restored.failed) and not done)


def _paths(paths: Sequence[str]) -> str:
    shown = ", ".join(_code(path) for path in paths[: 2 * _PATHS])
    more = len(paths) - 2 * _PATHS
    return f"{shown} and {more} more" if more > 0 else shown


def _code(path: str) -> str:
    return f"`{one_line(path, 80).replace('`', chr(39))}`"
