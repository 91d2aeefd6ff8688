"""Lists and takes back changes of files, for `/retinue undo`."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bot.agent.sanitizer import one_line
from bot.changes import OwnChange, Undone
from bot.values import Clock, Identity, Place
from skills.files.versions import FileChange, FormerKind
from skills.files.workspaces import Workspaces

#: Most paths named in a line.
_PATHS = 3


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The changes of all users' files: a `bot.changes.ChangeStore`."""

    workspaces: Workspaces
    now: Clock

    async def changes(self, user: Identity, place: Place | None) -> list[OwnChange]:
        """Return a user's changes of the user's own files, and of those of a shared place."""
        owners = [user.key, *([place.files_key] if place is not None else [])]
        return [
            OwnChange(
                id=each.id,
                cause=each.cause,
                undone=each.undone,
                names="\n".join("/".join(item.path) for item in each.items),
                what=_described(each),
                undo=partial(self._undo, owner, user, each),
            )
            for owner in owners
            for each in await asyncio.to_thread(self.workspaces.changes, owner)
            if each.cause.user_id == user.key
        ]

    async def _undo(
        self, owner: str, user: Identity, change: FileChange, command_id: str
    ) -> Undone:
        """Undo a change.

        Raises:
            ToolError: It cannot be undone; the text has the reason.
        """
        restored = await asyncio.to_thread(
            self.workspaces.undo, owner, user, change, self.now, command_id=command_id
        )
        lines = []
        if restored.back:
            lines.append(f"Restored {_paths(restored.back, 2 * _PATHS)}.")
        if restored.removed:
            lines.append(f"Deleted {_paths(restored.removed, 2 * _PATHS)} again.")
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


def _described(change: FileChange) -> str:
    """Return the paths that were deleted, brought back and replaced."""
    groups: dict[str, list[str]] = {"deleted": [], "brought back": [], "replaced": []}
    for item in change.items:
        path = "/".join(item.path)
        if item.removed:
            groups["deleted"].append(path)
        if item.kind is FormerKind.NOTHING:
            groups["brought back"].append(path)
        elif not item.removed:
            groups["replaced"].append(path)
    return ", ".join(f"{done} {_paths(found)}" for done, found in groups.items() if found)


def _paths(paths: Sequence[str], most: int = _PATHS) -> str:
    shown = ", ".join(_code(path) for path in paths[:most])
    more = len(paths) - most
    return f"{shown} and {more} more" if more > 0 else shown


def _code(path: str) -> str:
    return f"`{one_line(path, 80).replace('`', chr(39))}`"
