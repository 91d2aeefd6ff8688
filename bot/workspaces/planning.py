"""Decides how the changes of a command enter a workspace that others may have changed meanwhile."""

import os
import stat
from collections.abc import Iterable, Iterator, Set
from contextlib import closing
from dataclasses import dataclass, field

from bot.workspaces.beneath import Opener, opened
from bot.workspaces.copies import Manifest, open_to_read, stamp_of
from bot.workspaces.keeping import most_room
from bot.workspaces.layers import Changes, Written
from bot.workspaces.tree import OpenFolders, Parts
from bot.workspaces.walk import Kind, kind_of

#: The most bytes of a name on the usual file systems.
_NAME_BYTES = 255
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Put:
    """One file or link that is taken over.

    Attributes:
        source: Its path in the layer.
        target: Its path in the workspace.
    """

    source: Parts
    target: Parts
    state: os.stat_result


@dataclass(slots=True)
class Plan:
    """What is done to a workspace, in this order.

    Attributes:
        replaced: Files and links that are replaced, as they are so far.
        removed: What goes away; of a folder that goes as a whole, only the folder.
        folders: Folders to make, with their permissions.
        puts: Files and links to put in place.
        conflicts: What somebody else changed meanwhile, with the name that the command's version
            gets instead.
        kept: What the command removed and somebody else changed meanwhile: it stays.
        removed_bytes: The most that what is removed takes in the store of former versions.
        removed_count: Files and folders that are removed.
        size: Bytes that the workspace grows by; negative when it shrinks.
        count: Files and folders that it grows by.
    """

    replaced: dict[Parts, os.stat_result] = field(default_factory=dict)
    removed: list[Parts] = field(default_factory=list)
    folders: list[tuple[Parts, int]] = field(default_factory=list)
    puts: list[Put] = field(default_factory=list)
    conflicts: list[tuple[Parts, Parts]] = field(default_factory=list)
    kept: list[Parts] = field(default_factory=list)
    removed_bytes: int = 0
    removed_count: int = 0
    size: int = 0
    count: int = 0


def untouched(
    opener: Opener, written: Iterable[Written], layer: int, lower: int, before: Manifest
) -> frozenset[Parts]:
    """Return the files and links of a layer whose content is that of the start.

    Args:
        opener: Opens what is below a folder.
        written: What the command wrote.
        layer: Its layer, opened.
        lower: The workspace as it was when the command started, opened.
        before: What it held then.
    """
    found = set()
    with (
        closing(OpenFolders(opener, layer)) as mine,
        closing(OpenFolders(opener, lower)) as former,
    ):
        for each in written:
            was = before.get(each.parts)
            is_like = was is not None and was.kind is each.kind and was.size == each.state.st_size
            if is_like and each.kind is not Kind.FOLDER:
                above = mine.above(each.parts), former.above(each.parts)
                if _is_same(each.kind, *((one, each.parts[-1]) for one in above)):
                    found.add(each.parts)
    return frozenset(found)


class Planner:
    """Makes the plan for one layer; nobody may write to the workspace meanwhile.

    Args:
        opener: Opens what is below a folder.
        workspace: The workspace as it is now, opened.
        layer: The layer of the command, opened.
        before: What the workspace held when the command started.
        same: What the command wrote with the content of then.
    """

    def __init__(
        self,
        opener: Opener,
        workspace: int,
        layer: int,
        before: Manifest,
        same: Set[Parts],
    ) -> None:
        self._opener = opener
        self._workspace, self._layer = workspace, layer
        self._before, self._same = before, same
        self._folders = OpenFolders(opener, workspace)
        self._gone: set[Parts] = set()
        self._planned: set[Parts] = set()
        #: Folders of the layer, and where what is in them goes.
        self._targets: dict[Parts, Parts] = {(): ()}
        self.plan = Plan()

    def make(self, changes: Changes) -> Plan:
        """Return the plan for these changes."""
        with closing(self._folders):
            return self._made(changes)

    def _made(self, changes: Changes) -> Plan:
        for parts in sorted(changes.removed, key=len, reverse=True):
            self._remove(parts)
        self.plan.removed = sorted(parts for parts in self._gone if parts[:-1] not in self._gone)
        for written in changes.written:
            if written.kind is Kind.FOLDER:
                self._folder(written.parts, written.state)
            else:
                self._put(written)
        return self.plan

    def _remove(self, parts: Parts) -> None:
        now = self._now(parts)
        if now is None:
            return
        if kind_of(now) is Kind.FOLDER:
            removed = self._before[parts].kind is Kind.FOLDER and self._is_emptied(parts)
        else:
            removed = self._is_unchanged(parts, now)
        if not removed:
            self.plan.kept.append(parts)
            return
        self._gone.add(parts)
        self.plan.removed_bytes += most_room(parts, now)
        self.plan.removed_count += 1
        self.plan.count -= 1
        self.plan.size -= now.st_size if stat.S_ISREG(now.st_mode) else 0

    def _is_emptied(self, parts: Parts) -> bool:
        with opened(self._opener, self._workspace, parts) as folder, os.scandir(folder) as listed:
            return all((*parts, entry.name) in self._gone for entry in listed)

    def _folder(self, parts: Parts, state: os.stat_result | None) -> Parts:
        """Return where the content of a folder of the layer goes; the folder is planned if new."""
        if parts in self._targets:
            return self._targets[parts]
        target = (*self._folder(parts[:-1], None), parts[-1])
        now = self._now(target)
        if now is not None and kind_of(now) is not Kind.FOLDER:
            target = self._conflict(target)
            now = None
        if now is None and target not in self._planned:
            self._planned.add(target)
            self.plan.folders.append((target, 0o700 if state is None else state.st_mode))
            self.plan.count += 1
        self._targets[parts] = target
        return target

    def _put(self, written: Written) -> None:
        target = (*self._folder(written.parts[:-1], None), written.parts[-1])
        now = self._now(target)
        size = written.state.st_size if written.kind is Kind.FILE else 0
        if now is not None and not self._is_unchanged(target, now):
            if self._is_needless(written, target):
                return
            target, now = self._conflict(target), None
        if now is None:
            self.plan.count += 1
        else:
            self.plan.size -= now.st_size if stat.S_ISREG(now.st_mode) else 0
            # It is the one of the start.
            if written.parts not in self._same:
                self.plan.replaced[target] = now
        self._planned.add(target)
        self.plan.size += size
        self.plan.puts.append(Put(written.parts, target, written.state))

    def _is_unchanged(self, parts: Parts, now: os.stat_result) -> bool:
        """Return whether a file or link is the one that was there at the start."""
        return kind_of(now) is not Kind.FOLDER and stamp_of(now) == self._before.get(parts)

    def _is_needless(self, written: Written, target: Parts) -> bool:
        """Return whether others wrote the same, or the command changed nothing but the time."""
        return written.parts in self._same or self._is_there(written, target)

    def _is_there(self, written: Written, target: Parts) -> bool:
        """Return whether the workspace has what a command wrote, from somebody else."""
        with (
            opened(self._opener, self._layer, written.parts[:-1]) as mine,
            opened(self._opener, self._workspace, target[:-1]) as theirs,
        ):
            state = os.stat(target[-1], dir_fd=theirs, follow_symlinks=False)
            if kind_of(state) is not written.kind or state.st_size != written.state.st_size:
                return False
            return _is_same(written.kind, (mine, written.parts[-1]), (theirs, target[-1]))

    def _conflict(self, target: Parts) -> Parts:
        """Return a free name for a version that must not replace what is there."""
        for number in range(1, len(self._before) + len(self._planned) + 100_000):
            end = f".conflict-{number}"
            name = _cut(target[-1], _NAME_BYTES - len(end)) + end
            free = (*target[:-1], name)
            if free not in self._planned and self._now(free) is None:
                self.plan.conflicts.append((target, free))
                return free
        raise AssertionError("There are more names than files.")

    def _now(self, parts: Parts) -> os.stat_result | None:
        # A folder that is still to be made is empty, whatever has its name so far.
        if parts in self._gone or parts[:-1] in self._planned:
            return None
        try:
            above = self._folders.above(parts)
            return os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _cut(name: str, size: int) -> str:
    encoded = os.fsencode(name)
    return name if len(encoded) <= size else encoded[:size].decode(errors="ignore")


def _is_same(kind: Kind, one: tuple[int, str], two: tuple[int, str]) -> bool:
    if kind is Kind.LINK:
        first, second = (os.readlink(name, dir_fd=above) for above, name in (one, two))
        return first == second
    return _same_content(one, two)


def _same_content(one: tuple[int, str], two: tuple[int, str]) -> bool:
    with (
        os.fdopen(open_to_read(*one), "rb") as first,
        os.fdopen(open_to_read(*two), "rb") as second,
    ):
        pieces: Iterator[tuple[bytes, bytes]] = iter(
            lambda: (first.read(_PIECE), second.read(_PIECE)), (b"", b"")
        )
        return all(mine == theirs for mine, theirs in pieces)
