"""Reads, writes and walks one folder of files safely, even if its content is hostile."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from bot.changes import Cause
from bot.disk import DiskReserve, spoken
from bot.errors import ToolError
from bot.files.opener import (
    Opener,
    opened,
    opened_file,
    opened_path,
    parts_of,
    shown,
    state_of,
    tool_errors,
)
from bot.files.walk import DEEPEST, TEMPORARY, USUALLY_SKIPPED, EntryKind, FolderEntry, FolderWalk
from skills.files.former import FormerVersions
from skills.files.recording import ChangeRecorder, TooLargeToStoreError
from skills.files.settings import Change, Quota, SpaceUsage, WorkspaceSettings, check_total
from skills.files.tree import levels, opened_by_force, remove_tree
from skills.files.writing import (
    LOCK_SECONDS,
    missing,
    one_writer,
    opened_in,
    opened_made,
    replace_file,
)

#: Most entries that one walk visits, and its timeout.
MOST_ENTRIES = 50_000
WALK_SECONDS = 10.0

#: In a user's folder: their own workspace, and those of their runs. The writers' lock is beside
#: them.
OWN, RUNS = "own", "runs"
#: In a user's folder: one folder per running command, which holds its snapshot.
COMMANDS, LOWER = "commands", "lower"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcome of a write.

    Attributes:
        created: The file did not exist before.
        size: Its bytes now.
        kept: The former version is stored, and can be restored.
        lost: The former content was too large to be stored.
    """

    created: bool
    size: int
    kept: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class WorkspaceWalk:
    """A walk through a folder, or over one file.

    Attributes:
        folder: Descriptor of the folder.
        parts: Its path from the top of the workspace.
        found: The entries in it, at all depths; or only the requested file.
        until: Deadline, by the monotonic clock.
    """

    folder: int
    parts: tuple[str, ...]
    found: "FolderWalk | list[FolderEntry]"
    until: float

    @property
    def cut(self) -> bool:
        """True if the walk ended before it saw everything."""
        return isinstance(self.found, FolderWalk) and self.found.cut

    @property
    def entries(self) -> Iterator[FolderEntry]:
        """The entries, without files that are being written."""
        return (each for each in self.found if not TEMPORARY.fullmatch(each.parts[-1]))

    def path(self, entry: FolderEntry) -> str:
        """Return the path of an entry from the top of the workspace."""
        return "/".join((*self.parts, *entry.parts))


@dataclass(eq=False, slots=True)
class Workspace:
    """One folder of files. Its methods block: call them in a thread.

    Its file operations raise `ToolError` with a sentence for the model.
    """

    settings: WorkspaceSettings
    opener: Opener
    base: Path
    user: str
    names: Sequence[str]
    _: KW_ONLY
    former: FormerVersions
    cause: Cause
    reserve: DiskReserve = field(default_factory=DiskReserve)

    @property
    def path(self) -> Path:
        """The path of the folder. Its content may be hostile: open it with `opened`."""
        return self.base.joinpath(self.user, *self.names)

    @property
    def name(self) -> str:
        """The name of the workspace in the store of former versions."""
        return self.names[-1]

    @property
    def all_path(self) -> Path:
        """The folder of all workspaces of the user: this one and those of their runs."""
        return self.base / self.user

    @property
    def quota(self) -> Quota:
        """The limits of all workspaces of the user or place together."""
        return self.settings.quota_of(self.user)

    @property
    def most_bytes(self) -> int:
        """The size limit of a file that is read or written, in bytes."""
        return self.settings.file_bytes

    @contextmanager
    def opened(self, names: Sequence[str] = ()) -> Iterator[int]:
        """Open the folder, or another one of its user; it is created on first use."""
        with (
            self._user_folder() as user,
            opened_made(self.opener, user, names or self.names) as folder,
        ):
            yield folder

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        parts = _file_parts(path)
        with tool_errors(parts), self.opened() as folder:
            return self.read_in(folder, parts)

    def read_in(self, folder: int, parts: Sequence[str]) -> bytes:
        """Return the content of a file below the opened folder.

        Raises:
            ToolError: The path is no file, or the file is too large.
            OSError: The file cannot be opened.
        """

        def own_names(state: os.stat_result) -> int:
            """Count the file's own hard links: each running command adds one."""
            found = 1
            for place in (self.all_path / COMMANDS).glob(f"*/{LOWER}"):
                with suppress(OSError), opened_path(place) as lower:
                    twin = state_of(self.opener, lower, parts)
                    found += twin is not None and os.path.samestat(twin, state)
            return found

        most = self.most_bytes
        with opened_file(self.opener, folder, parts, own_names) as (descriptor, state):
            if state.st_size <= most:
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    content = file.read(most + 1)
                if len(content) <= most:
                    return content
            raise ToolError(
                f"{shown(parts)} has {spoken(max(state.st_size, most + 1))}, and {spoken(most)} is "
                "the most that is read: take the part that matters with the shell if you have it."
            )

    def write(self, path: str, content: bytes) -> WriteResult:
        """Create a file, or replace its content."""
        return self._replace(_file_parts(path), lambda _: content)

    def edit(self, path: str, change: Callable[[bytes], bytes]) -> WriteResult:
        """Replace the content of a file by `change(content)`, under the writers' lock."""
        parts = _file_parts(path)
        return self._replace(parts, lambda folder: change(self.read_in(folder, parts)))

    def delete_copy(self, path: str, is_copy: Callable[[bytes], bool]) -> None:
        """Delete a file for good, without a former version, if `is_copy(content)`."""
        parts = _file_parts(path)
        with tool_errors(parts), self.alone() as folder:
            if is_copy(self.read_in(folder, parts)):
                with opened(self.opener, folder, parts[:-1]) as above:
                    os.unlink(parts[-1], dir_fd=above)

    def delete_all(self) -> None:
        """Delete all workspaces of the user or place for good, with their former versions."""
        with tool_errors(()), self._user_folder() as user, one_writer(user, LOCK_SECONDS):
            for name in (OWN, RUNS, COMMANDS):
                with suppress(FileNotFoundError):
                    remove_tree(self.opener, user, name)
            self.former.forget_all()

    @contextmanager
    def changing(
        self, *, spared: str = "", seconds: float = LOCK_SECONDS
    ) -> Iterator[tuple[int, ChangeRecorder]]:
        """Open the folder under the writers' lock, and begin a change that can be undone.

        Callers call `keep` of the change before they replace or remove a path.

        Args:
            spared: The id of a change that is not dropped to make room for this one.
            seconds: Longest wait for other writers.

        Raises:
            ToolError: Other writers held the lock for longer than `seconds`.
        """
        with (
            self.alone(seconds) as folder,
            self.former.change(self.name, self.cause, spared=spared) as change,
        ):
            yield folder, change

    @contextmanager
    def alone(self, seconds: float = LOCK_SECONDS) -> Iterator[int]:
        """Open the folder under the writers' lock.

        Raises:
            ToolError: Other writers held the lock for longer than `seconds`.
        """
        with (
            self._user_folder() as user,
            one_writer(user, seconds),
            opened_made(self.opener, user, self.names) as folder,
        ):
            yield folder

    @contextmanager
    def walk(
        self,
        path: str,
        *,
        deepest: int = DEEPEST,
        skip: frozenset[str] = USUALLY_SKIPPED,
        seconds: float = WALK_SECONDS,
    ) -> Iterator["WorkspaceWalk"]:
        """Walk through a folder, or over one file, in a bounded time."""
        parts = parts_of(path)
        until = time.monotonic() + seconds
        with tool_errors(parts), self.opened() as folder:
            state = state_of(self.opener, folder, parts)
            if state is not None and EntryKind.of(state) is EntryKind.FILE:
                entry = FolderEntry(parts[-1:], EntryKind.FILE, state.st_size, state.st_mtime_ns)
                with opened(self.opener, folder, parts[:-1]) as above:
                    yield WorkspaceWalk(above, parts[:-1], [entry], until)
            else:
                with opened(self.opener, folder, parts) as below:
                    walk = FolderWalk(
                        self.opener,
                        below,
                        most=MOST_ENTRIES,
                        deepest=deepest,
                        skip=skip.difference(parts),
                        until=until,
                    )
                    yield WorkspaceWalk(below, parts, walk, until)

    def usage(self) -> SpaceUsage:
        """Return the space that all workspaces of the user take together."""
        with tool_errors(()), self._user_folder() as user:
            # Without the lock a temporary file may belong to a writer at work.
            return self._usage(user, tidy=False)

    def can_restore(self, path: str) -> bool:
        """Return True if no former version would be lost by a write to a path."""
        parts = _file_parts(path)
        with tool_errors(parts), self.opened() as folder:
            state = state_of(self.opener, folder, parts)
        return state is None or self.former.fits(state.st_size)

    def can_restore_all(self) -> bool:
        """Return True if no former version would be lost, whatever a command does."""
        usage = self.usage()
        return self.former.fits(usage.size, usage.count)

    def check_total(self, change: Change) -> None:
        """Raise if a change would exceed the quota; the caller holds the writers' lock.

        Raises:
            ToolError: The change would exceed a limit.
        """
        with self._user_folder() as user:
            check_total(self.quota, self._usage(user), change)

    def _replace(self, parts: Sequence[str], content_in: Callable[[int], bytes]) -> WriteResult:
        with tool_errors(parts), self.alone() as folder, ExitStack() as stack:
            content = content_in(folder)
            before = state_of(self.opener, folder, parts)
            made = missing(self.opener, folder, parts)
            change = Change(before.st_size if before else 0, len(content), made)
            if change.after > self.most_bytes:
                raise ToolError(
                    f"The file would have {spoken(change.after)}, and {spoken(self.most_bytes)} is "
                    "the most: shorten it, or split it into several files."
                )
            self.check_total(change)
            if made or change.after > change.before:
                self.reserve.check(change.after + change.before)
            differs = before is not None and EntryKind.of(before) is EntryKind.FILE
            if differs and change.before == change.after:
                # A repeated call writes the same content again.
                with suppress(ToolError):
                    differs = self.read_in(folder, parts) != content
            kept = False
            if differs:
                former = stack.enter_context(self.former.change(self.name, self.cause))
                with suppress(TooLargeToStoreError):
                    former.keep(folder, parts, removed=False)
                    kept = True
            try:
                replace_file(self.opener, folder, parts, content)
            except BaseException:
                if kept:
                    former.discard()
                raise
        return WriteResult(before is None, len(content), kept=kept, lost=differs and not kept)

    def _user_folder(self) -> AbstractContextManager[int]:
        """Open the folder that holds all files of the user."""
        return opened_in(self.opener, self.base, (self.user,))

    def _usage(self, user: int, *, tidy: bool = True) -> SpaceUsage:
        """Measure the space taken, without temporary files.

        `tidy` deletes these: the caller holds the lock, so that their writers have died.
        """
        size = count = 0
        for name in (OWN, RUNS):
            with suppress(FileNotFoundError), opened_by_force(self.opener, user, (name,)) as top:
                for level in levels(self.opener, top):
                    for entry, state in level.entries:
                        kind = EntryKind.of(state)
                        if kind is EntryKind.FILE and TEMPORARY.fullmatch(entry):
                            if tidy:
                                os.unlink(entry, dir_fd=level.descriptor)
                            continue
                        size += state.st_size if kind is EntryKind.FILE else 0
                        count += 1
        return SpaceUsage(size, count)


def _file_parts(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if not parts:
        raise ToolError("Name a file: give its path from the top of the workspace.")
    return parts
