"""Workspaces: a folder of files for each person, and for a run where that is asked for."""

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from bot.workspaces.beneath import Opener, best_opener, told
from bot.workspaces.settings import WorkspaceSettings
from bot.workspaces.workspace import OWN, RUNS, Workspace
from skills.base import ToolContext

#: What one person's calls may do at the same time: the threads are everyone's.
AT_ONCE = 2

Result = TypeVar("Result")


class Workspaces:
    """Everyone's workspaces.

    Args:
        settings: Where they are, and what each may hold.
        opener: How files are opened; as well as this system can by default.
    """

    def __init__(
        self,
        settings: WorkspaceSettings,
        *,
        opener: Opener | None = None,
    ) -> None:
        self._settings = settings
        self._opener = opener or best_opener()
        self._room: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, context: ToolContext) -> Workspace:
        """Return the workspace of a call. Another person's can never be reached from there."""
        names = [OWN]
        if context.own_workspace and context.run_id is not None:
            names = [RUNS, _opaque(context.run_id)]
        user = _opaque(context.user.key)
        return Workspace(self._settings, self._opener, Path(self._settings.folder), user, names)

    def folder_of(self, context: ToolContext) -> Path:
        """Return the folder of a call, for a sandbox to show to a command; it blocks.

        What is in it may be hostile: open nothing below it by a path.
        """
        workspace = self.of(context)
        with told(()), workspace.opened():
            return workspace.path.absolute()

    def all_folder_of(self, context: ToolContext) -> Path:
        """Return the folder with all workspaces of who calls: what is in it shares their room."""
        return self.of(context).all_path.absolute()

    async def use(self, context: ToolContext, work: Callable[[Workspace], Result], /) -> Result:
        """Do some work on the files of a call, in a thread."""
        key = context.user.key
        room = self._room.get(key)
        if room is None:
            room = self._room[key] = asyncio.Semaphore(AT_ONCE)
        async with room:
            return await asyncio.to_thread(work, self.of(context))

    def forget_runs(self, before: datetime) -> int:
        """Delete the workspaces of runs that nothing was put into since then; it blocks.

        Returns:
            How many there were.
        """
        old = [
            folder
            for folder in Path(self._settings.folder).glob(f"*/{RUNS}/*")
            if folder.lstat().st_mtime < before.timestamp()
        ]
        for folder in old:
            # What is in it may be hostile: this follows no link on its way, and one whose folders
            # are nested deeper than it can go must not keep the others from being deleted.
            with suppress(RecursionError):
                shutil.rmtree(folder, ignore_errors=True)
        return len(old)


def _opaque(value: str) -> str:
    """Return a name for a folder: it tells nobody whose it is, and is safe as a name."""
    return hashlib.blake2b(value.encode(), digest_size=16, person=b"workspace").hexdigest()
