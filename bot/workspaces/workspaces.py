"""Workspaces: a folder of files for each person, and for a run where that is asked for."""

import asyncio
import hashlib
from collections.abc import Callable
from enum import StrEnum
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


class Scope(StrEnum):
    """Whose files a call sees."""

    USER = "user"
    RUN = "run"


#: Says which workspace a call is for; whoever calls cannot.
Choose = Callable[[ToolContext], Scope]


def everyone_own(context: ToolContext) -> Scope:
    """Choose the person's workspace, whichever run asks."""
    return Scope.USER


class Workspaces:
    """Everyone's workspaces.

    Args:
        settings: Where they are, and what each may hold.
        choose: Which one a call is for.
        opener: How files are opened; as well as this system can by default.
    """

    def __init__(
        self,
        settings: WorkspaceSettings,
        *,
        choose: Choose = everyone_own,
        opener: Opener | None = None,
    ) -> None:
        self._settings = settings
        self._choose = choose
        self._opener = opener or best_opener()
        self._room: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, context: ToolContext) -> Workspace:
        """Return the workspace of a call. Another person's can never be reached from there."""
        names = [OWN]
        if self._choose(context) is Scope.RUN and context.run_id is not None:
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

    async def use(self, context: ToolContext, work: Callable[[Workspace], Result], /) -> Result:
        """Do some work on the files of a call, in a thread."""
        key = context.user.key
        room = self._room.get(key)
        if room is None:
            room = self._room[key] = asyncio.Semaphore(AT_ONCE)
        async with room:
            return await asyncio.to_thread(work, self.of(context))


def _opaque(value: str) -> str:
    """Return a name for a folder: it tells nobody whose it is, and is safe as a name."""
    return hashlib.blake2b(value.encode(), digest_size=16, person=b"workspace").hexdigest()
