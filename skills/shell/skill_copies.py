"""Keeps copies of the folders of Agent Skills, which commands see read-only.

The folders themselves are not shown: they may hold links, sockets and hard links of other files,
their modes may be closed to the account of a command, and the mount table would name their paths.
"""

import asyncio
import fcntl
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bot.catalog.files import CHECK_SECONDS, CHECK_SHARE
from bot.catalog.skill_files import copy_files, entries_to_copy
from bot.catalog.skills import AgentSkill, SkillCatalog
from bot.disk import DiskReserve
from bot.errors import ToolError
from bot.files.opener import FOLDER, opened_path
from bot.files.walk import FolderEntry
from bot.tasks import Tasks
from skills.base import ToolContext

log = logging.getLogger(__name__)

#: Most sets of skills whose copies are kept; users of one role share one.
MOST_SETS = 16

#: The entries of the folder of each skill, in the order of the skills.
Contents = tuple[tuple[AgentSkill, tuple[FolderEntry, ...]], ...]


@dataclass(eq=False)
class CopiedFolders:
    """The copied folders of a set of skills.

    Attributes:
        path: Holds the folders by the names of the skills.
        contents: The entries at the last look.
        looked: The time of that look, in seconds of the monotonic clock.
        pause: The seconds until the next look.
        users: The number of commands that see the copy.
    """

    path: Path
    contents: Contents
    looked: float
    pause: float
    users: int = 0


class SkillCopies:
    """Copies the folders of the Agent Skills that a command may use; changed folders anew.

    Args:
        catalog: The Agent Skills.
        folder: An empty folder for the copies.
        reserve: The part of the disk that stays free.
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        catalog: SkillCatalog,
        folder: Path,
        *,
        reserve: DiskReserve | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._folder = folder
        self._reserve = reserve or DiskReserve()
        self._now = monotonic
        self._tasks = Tasks()
        self._lock = threading.Lock()
        self._made = 0
        self._copies: dict[frozenset[str], CopiedFolders] = {}
        self._reported: set[str] = set()

    @asynccontextmanager
    async def shown(self, context: ToolContext) -> AsyncIterator[Path | None]:
        """Return a folder with the folders of the skills that a caller may use.

        The folder does not change until the end of the block.

        Returns:
            The folder; `None` for no skills.

        Raises:
            ToolError: The copies cannot be made.
        """
        known = self._catalog.by_name
        usable = await context.usable_skills(known)
        skills = [known[name] for name in sorted(usable)]
        if not skills:
            yield None
            return
        taking = self._tasks.start(self._taken(skills), name="copy skills")
        try:
            copy = await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The thread ends later; no command sees its copy.
            taking.add_done_callback(self._give_up)
            raise
        if isinstance(copy, ToolError):
            raise copy
        try:
            yield copy.path
        finally:
            await asyncio.to_thread(self._release, copy)

    async def _taken(self, skills: Sequence[AgentSkill]) -> CopiedFolders | ToolError:
        try:
            return await asyncio.to_thread(self._take, skills)
        except ToolError as error:
            return error
        except OSError as error:
            log.warning("The files of skills cannot be copied: %s", error)
            return ToolError(
                "Nothing was run: the files of the skills could not be copied for the sandbox "
                f"({error.strerror}). Tell the user that an admin has to look at the disk."
            )

    def _give_up(self, taking: "asyncio.Task[CopiedFolders | ToolError]") -> None:
        if not taking.cancelled() and isinstance(copy := taking.result(), CopiedFolders):
            self._release(copy)

    def _take(self, skills: Sequence[AgentSkill]) -> CopiedFolders:
        """Return the copy of these skills, and count one more command that sees it."""
        key = frozenset(skill.name for skill in skills)
        with self._lock:
            copy = self._copies.pop(key, None)
            now = self._now()
            if copy is None or not 0 <= now - copy.looked < copy.pause:
                contents = tuple(self._contents(skills))
                pause = max(CHECK_SECONDS, (self._now() - now) / CHECK_SHARE)
                if copy is not None and copy.contents == contents:
                    copy.looked, copy.pause = now, pause
                else:
                    former, copy = copy, CopiedFolders(self._copied(contents), contents, now, pause)
                    if former is not None and not former.users:
                        _remove(former.path)
            # The sets are in the order of their last use.
            self._copies[key] = copy
            copy.users += 1
            for other in list(self._copies)[:-MOST_SETS]:
                if not self._copies[other].users:
                    _remove(self._copies.pop(other).path)
            return copy

    def _release(self, copy: CopiedFolders) -> None:
        with self._lock:
            copy.users -= 1
            if not copy.users and copy not in self._copies.values():
                _remove(copy.path)

    def _contents(
        self, skills: Sequence[AgentSkill]
    ) -> Iterator[tuple[AgentSkill, tuple[FolderEntry, ...]]]:
        for skill in skills:
            try:
                yield skill, entries_to_copy(skill, self._catalog.opener)
            except ToolError as error:
                if (text := str(error)) not in self._reported:
                    self._reported.add(text)
                    log.warning("Commands do not see it. %s", text)

    def _copied(self, contents: Contents) -> Path:
        size = sum(entry.size for _, entries in contents for entry in entries)
        with self._reserve.promised(size):
            self._made += 1
            path = self._folder / str(self._made)
            path.mkdir(mode=0o755)
            try:
                path.chmod(0o755)
                for skill, entries in contents:
                    copy = path / skill.name
                    copy.mkdir(mode=0o755)
                    copy.chmod(0o755)
                    with opened_path(copy) as target:
                        copy_files(skill, entries, self._catalog.opener, target)
            except BaseException:
                _remove(path)
                raise
        return path


@contextmanager
def own_folder(above: Path) -> Iterator[Path]:
    """Make a folder of this process, and remove it at the end of the block.

    Folders of processes that were killed are removed as well: their locks are free.
    """
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(above):
        for left in above.iterdir():
            with suppress(OSError), _locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
                _remove(left)
        folder = Path(tempfile.mkdtemp(dir=above))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


@contextmanager
def _locked(folder: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    with opened_path(folder, FOLDER | os.O_NOFOLLOW) as descriptor:
        fcntl.flock(descriptor, kind)
        yield


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
