"""Provides workspaces: a folder of files per user, shared place, and run that requests its own."""

import asyncio
import hashlib
import logging
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from bot.changes import Cause
from bot.disk import DiskReserve
from bot.errors import ToolError
from bot.files.opener import Opener, best_opener, tool_errors
from bot.values import PLACE_FILES, Clock, Identity, utc_now
from skills.base import ToolContext
from skills.files.former import STORE, FormerVersions
from skills.files.restoring import Restored, restore
from skills.files.settings import PLACES, SpaceUsage, WorkspaceSettings
from skills.files.versions import FileChange
from skills.files.workspace import OWN, RUNS, Workspace

log = logging.getLogger(__name__)

#: Concurrent calls per user: the thread pool is shared by all users.
AT_ONCE = 2

#: Least space for the lists of the former versions, besides the versions.
_LIST_BYTES = 50_000

_NOBODY = Cause(user_id="", work_id="", run_id=None)

Result = TypeVar("Result")


class Workspaces:
    """The workspaces of all users.

    Args:
        settings: Their folder and limits.
        opener: Opens files below a folder; by default the best that this system supports.
        reserve: The part of the disk that stays free; none by default.
    """

    def __init__(
        self,
        settings: WorkspaceSettings,
        *,
        opener: Opener | None = None,
        reserve: DiskReserve | None = None,
    ) -> None:
        self._settings = settings
        self.opener = opener or best_opener()
        self._base = Path(settings.folder)
        self._reserve = reserve or DiskReserve()
        self._room: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, context: ToolContext) -> Workspace:
        """Return the workspace of a call: the user's, or the place's in a shared conversation.

        Other workspaces can never be reached from it.
        """
        names = [OWN]
        if context.own_workspace:
            names = [RUNS, opaque(context.own_workspace)]
        user, drops = folder_of(context.files_of), not context.spares_former
        return self._workspace(user, names, context.cause, context.now, drops=drops)

    def _workspace(
        self,
        user: str,
        names: Sequence[str] = (OWN,),
        cause: Cause = _NOBODY,
        now: Clock = utc_now,
        *,
        drops: bool = True,
    ) -> Workspace:
        quota = self._settings.quota_of(user)
        # As large as the workspaces may be, plus space for its own lists.
        most = SpaceUsage(quota.size + quota.size // 20 + _LIST_BYTES, 2 * quota.count)
        return Workspace(
            self._settings,
            self.opener,
            self._base,
            user,
            names,
            former=FormerVersions(self.opener, self._base, user, most=most, now=now, drops=drops),
            cause=cause,
            reserve=self._reserve,
        )

    def owned(self, owner: str) -> Workspace:
        """Return the workspace of a user or of a place, for work that no call does.

        Args:
            owner: The key: see `ToolContext.files_of`.
        """
        return self._workspace(folder_of(owner))

    def scratch(self) -> Workspace:
        """Return a workspace that belongs to no user, for trials."""
        return self._workspace("scratch")

    async def use(self, context: ToolContext, work: Callable[[Workspace], Result], /) -> Result:
        """Run `work` on the workspace of a call, in a thread."""
        key = context.files_of
        room = self._room.get(key)
        if room is None:
            room = self._room[key] = asyncio.Semaphore(AT_ONCE)
        async with room:
            return await asyncio.to_thread(work, self.of(context))

    def put(self, owner: str, cause: Cause, path: str, content: bytes, now: Clock) -> None:
        """Write a file into an owner's workspace; it blocks.

        Raises:
            ToolError: It does not fit there.
        """
        self._workspace(folder_of(owner), [OWN], cause, now).write(path, content)

    def delete_copy(self, owner: str, path: str, digest: str) -> None:
        """Delete an owner's file for good if its content has this SHA-256 digest; it blocks.

        Raises:
            ToolError: There is no such file, or other work is writing.
        """
        workspace = self.owned(owner)
        workspace.delete_copy(path, lambda held: hashlib.sha256(held).hexdigest() == digest)

    def changes(self, owner: str) -> list[FileChange]:
        """Return the changes to an owner's files that can be undone, newest first; it blocks.

        Args:
            owner: The key of a user or of a place: see `ToolContext.files_of`.
        """
        with tool_errors(()):
            return list(self.owned(owner).former.changes())

    def undo(
        self, owner: str, user: Identity, change: FileChange, now: Clock, *, command_id: str = ""
    ) -> Restored:
        """Undo a change to an owner's files for a user; it blocks.

        Raises:
            ToolError: The change cannot be undone; the text has the reason.
        """
        names = [OWN] if change.workspace == OWN else [RUNS, change.workspace]
        cause = Cause(user_id=user.key, work_id=command_id, run_id=None, undoes=change.id)
        workspace = self._workspace(folder_of(owner), names, cause, now)
        with tool_errors(()):
            return restore(workspace, change)

    def forget_former(self, before: datetime) -> int:
        """Drop the former versions of all users' changes before a moment; it blocks.

        Returns:
            The number of changes dropped.
        """
        dropped = 0
        for folder in self._base.glob(f"{STORE}/*"):
            workspace = self._workspace(folder.name)
            with workspace.alone():
                dropped += workspace.former.forget_before(before)
        return dropped

    def forget_runs(self, before: datetime) -> int:
        """Delete the workspaces of runs that nothing was put into since a moment; it blocks.

        Returns:
            The number of workspaces deleted.
        """
        old = [
            folder
            for folder in self._base.glob(f"*/{RUNS}/*")
            if folder.lstat().st_mtime < before.timestamp()
        ]
        for folder in old:
            workspace = self._workspace(folder.parent.parent.name, (RUNS, folder.name))
            with workspace.alone():
                workspace.former.forget_workspace(folder.name)
            # The content may be hostile: `rmtree` follows no link, and a workspace whose folders
            # are nested deeper than it can go must not keep the others from being deleted.
            with suppress(RecursionError):
                shutil.rmtree(folder, ignore_errors=True)
        return len(old)

    def places(self) -> list[str]:
        """Return the names of the folders of places that have files; it blocks."""
        return [
            folder.name
            for folder in self._base.glob(f"{PLACES}*")
            if any((folder / name).exists() for name in (OWN, RUNS))
        ]

    def forget_places(self, folders: Sequence[str], live: Collection[str], most: int) -> int:
        """Delete the files of places, except those with the given keys; it blocks.

        Args:
            folders: The names of the folders, as `places` returned them before `live` was read: the
                files of a place that begins meanwhile are not among them.
            live: The keys of the places that keep their files: see `Place.files_key`.
            most: Most places whose files are deleted.

        Returns:
            The number of places whose files were deleted.
        """
        kept = {folder_of(key) for key in live}
        deleted = 0
        for name in folders:
            if name in kept:
                continue
            if deleted == most:
                break
            try:
                self._workspace(name).delete_all()
                deleted += 1
            except ToolError as error:
                log.warning("The files of a place were not deleted: %s", error)
        return deleted


def folder_of(owner: str) -> str:
    """Return the name of the folder for the files of a user or place, by its key."""
    return f"{PLACES}{opaque(owner)}" if owner.startswith(PLACE_FILES) else opaque(owner)


def opaque(value: str) -> str:
    """Return a hash for use as a folder name: safe as a name, and it identifies nobody."""
    return hashlib.blake2b(value.encode(), digest_size=16, person=b"workspace").hexdigest()
