"""Workspaces: a folder of files for each person, and for a run where that is asked for."""

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from bot.changes import Cause
from bot.disk import DiskReserve
from bot.values import Clock, Identity, utc_now
from bot.workspaces.beneath import Opener, best_opener, told
from bot.workspaces.former import STORE, FormerVersions
from bot.workspaces.restoring import Restored, restore
from bot.workspaces.settings import Usage, WorkspaceSettings
from bot.workspaces.versions import FileChange
from bot.workspaces.workspace import OWN, RUNS, Workspace
from skills.base import ToolContext

#: What one person's calls may do at the same time: the threads are everyone's.
AT_ONCE = 2

#: The least room for the lists of what is kept, besides what is kept.
_LIST_BYTES = 50_000

_NOBODY = Cause(user_id="", work_id="", run_id=None)

Result = TypeVar("Result")


class Workspaces:
    """Everyone's workspaces.

    Args:
        settings: Where they are, and what each may hold.
        opener: How files are opened; as well as this system can by default.
        reserve: The part of the disk that no files get; nothing by default.
    """

    def __init__(
        self,
        settings: WorkspaceSettings,
        *,
        opener: Opener | None = None,
        reserve: DiskReserve | None = None,
    ) -> None:
        self._settings = settings
        self._opener = opener or best_opener()
        self._base = Path(settings.folder)
        self._reserve = reserve or DiskReserve()
        self._room: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, context: ToolContext) -> Workspace:
        """Return the workspace of a call. Another person's can never be reached from there."""
        names = [OWN]
        if context.own_workspace:
            names = [RUNS, _opaque(context.own_workspace)]
        user, drops = _opaque(context.user.key), not context.spares_former
        return self._workspace(user, names, context.cause, context.now, drops=drops)

    def _workspace(
        self, user: str, names: Sequence[str], cause: Cause, now: Clock, *, drops: bool = True
    ) -> Workspace:
        return Workspace(
            self._settings,
            self._opener,
            self._base,
            user,
            names,
            former=self._former(user, now, drops=drops),
            cause=cause,
            reserve=self._reserve,
        )

    def _former(self, user: str, now: Clock, *, drops: bool = True) -> FormerVersions:
        size, count = self._settings.user_bytes, self._settings.user_files
        # As large as the workspaces may be, and some room for its own lists.
        most = Usage(size + size // 20 + _LIST_BYTES, 2 * count)
        return FormerVersions(self._opener, self._base, user, most=most, now=now, drops=drops)

    def scratch(self) -> Workspace:
        """Return a workspace that belongs to no user, to try something in."""
        return self._workspace("scratch", [OWN], _NOBODY, utc_now)

    async def use(self, context: ToolContext, work: Callable[[Workspace], Result], /) -> Result:
        """Do some work on the files of a call, in a thread."""
        key = context.user.key
        room = self._room.get(key)
        if room is None:
            room = self._room[key] = asyncio.Semaphore(AT_ONCE)
        async with room:
            return await asyncio.to_thread(work, self.of(context))

    def changes(self, user: Identity) -> list[FileChange]:
        """Return the changes to a user's files that can be undone, newest first; it blocks.

        Nobody else's are ever among them.
        """
        former = self._former(_opaque(user.key), utc_now)
        with told(()):
            return list(former.changes())

    def undo(
        self, user: Identity, change: FileChange, now: Clock, *, command_id: str = ""
    ) -> Restored:
        """Take a change to a user's files back; it blocks.

        Raises:
            ToolError: It cannot be taken back; the text has the reason.
        """
        names = [OWN] if change.workspace == OWN else [RUNS, change.workspace]
        cause = Cause(user_id=user.key, work_id=command_id, run_id=None, undoes=change.id)
        workspace = self._workspace(_opaque(user.key), names, cause, now)
        with told(()):
            return restore(workspace, change)

    def forget_former(self, before: datetime) -> int:
        """Drop the former versions of changes before then, everyone's; it blocks.

        Returns:
            How many changes there were.
        """
        dropped = 0
        for folder in self._base.glob(f"{STORE}/*"):
            with self._workspace(folder.name, [OWN], _NOBODY, utc_now).alone():
                dropped += self._former(folder.name, utc_now).forget_before(before)
        return dropped

    def forget_runs(self, before: datetime) -> int:
        """Delete the workspaces of runs that nothing was put into since then; it blocks.

        Returns:
            How many there were.
        """
        old = [
            folder
            for folder in self._base.glob(f"*/{RUNS}/*")
            if folder.lstat().st_mtime < before.timestamp()
        ]
        for folder in old:
            user = folder.parent.parent.name
            with self._workspace(user, [RUNS, folder.name], _NOBODY, utc_now).alone():
                self._former(user, utc_now).forget_workspace(folder.name)
            # What is in it may be hostile: this follows no link on its way, and one whose folders
            # are nested deeper than it can go must not keep the others from being deleted.
            with suppress(RecursionError):
                shutil.rmtree(folder, ignore_errors=True)
        return len(old)


def _opaque(value: str) -> str:
    """Return a name for a folder: it tells nobody whose it is, and is safe as a name."""
    return hashlib.blake2b(value.encode(), digest_size=16, person=b"workspace").hexdigest()
