"""Plans how the changes of a command are merged into a workspace that others may have changed."""

import os
import stat
from collections.abc import Iterable, Iterator, Set
from contextlib import closing
from dataclasses import dataclass, field

from bot.files.opener import Opener, opened
from bot.files.walk import EntryKind
from skills.files.copies import Manifest, open_to_read, stamp_of
from skills.files.layers import ChangedEntry, LayerChanges
from skills.files.recording import most_room
from skills.files.tree import OpenFolders, Parts

#: Most bytes of a name on the usual file systems.
_NAME_BYTES = 255
_PIECE = 1 << 20


@dataclass(slots=True)
class MergePlan:
    """The changes to make to a workspace, in this order.

    Attributes:
        replaced: Files and links that are replaced, with their current state.
        removed: Paths to remove; for a folder that is removed as a whole, only the folder.
        folders: Folders to make, with their permissions.
        puts: Files and links to put in place: their paths in the layer, and in the workspace.
        conflicts: Paths that others changed meanwhile, each with the path that the command's
            version gets instead.
        kept: Paths that the command removed and others changed meanwhile: they stay.
        removed_bytes: Most bytes that the removed paths take in the store of former versions.
        removed_count: Files and folders that are removed.
        size: Bytes that the workspace grows by; negative when it shrinks.
        count: Files and folders that it grows by.
    """

    replaced: dict[Parts, os.stat_result] = field(default_factory=dict)
    removed: list[Parts] = field(default_factory=list)
    folders: list[tuple[Parts, int]] = field(default_factory=list)
    puts: list[tuple[Parts, Parts]] = field(default_factory=list)
    conflicts: list[tuple[Parts, Parts]] = field(default_factory=list)
    kept: list[Parts] = field(default_factory=list)
    removed_bytes: int = 0
    removed_count: int = 0
    size: int = 0
    count: int = 0


def untouched(
    opener: Opener, written: Iterable[ChangedEntry], layer: int, lower: int, before: Manifest
) -> frozenset[Parts]:
    """Return the files and links of a layer whose content is unchanged since the start.

    Args:
        opener: Opens below a folder.
        written: The entries that the command wrote.
        layer: Descriptor of its layer.
        lower: Descriptor of the workspace as it was when the command started.
        before: The manifest of the workspace at that time.
    """
    found = set()
    with (
        closing(OpenFolders(opener, layer)) as mine,
        closing(OpenFolders(opener, lower)) as former,
    ):
        for each in written:
            was = before.get(each.parts)
            is_like = was is not None and was.kind is each.kind and was.size == each.state.st_size
            if is_like and each.kind is not EntryKind.FOLDER:
                above = mine.above(each.parts), former.above(each.parts)
                if _is_same(each.kind, *((one, each.parts[-1]) for one in above)):
                    found.add(each.parts)
    return frozenset(found)


@dataclass(eq=False, slots=True)
class MergePlanner:
    """Makes the plan for one layer; the caller holds the lock of the workspace.

    Attributes:
        opener: Opens below a folder.
        workspace: Descriptor of the workspace as it is now.
        layer: Descriptor of the command's layer.
        before: The manifest of the workspace when the command started.
        same: Paths that the command wrote with unchanged content.
    """

    opener: Opener
    workspace: int
    layer: int
    before: Manifest
    same: Set[Parts]
    plan: MergePlan = field(default_factory=MergePlan)
    _folders: OpenFolders = field(init=False)
    _gone: set[Parts] = field(default_factory=set)
    _planned: set[Parts] = field(default_factory=set)
    #: Folders of the layer, and the folders of the workspace that receive their content.
    _targets: dict[Parts, Parts] = field(default_factory=lambda: {(): ()})

    def __post_init__(self) -> None:
        self._folders = OpenFolders(self.opener, self.workspace)

    def make(self, changes: LayerChanges) -> MergePlan:
        """Return the plan for these changes."""
        with closing(self._folders):
            for parts in sorted(changes.removed, key=len, reverse=True):
                self._remove(parts)
            self.plan.removed = sorted(each for each in self._gone if each[:-1] not in self._gone)
            for written in changes.written:
                if written.kind is EntryKind.FOLDER:
                    self._folder(written.parts, written.state)
                else:
                    self._put(written)
            return self.plan

    def _remove(self, parts: Parts) -> None:
        now = self._now(parts)
        if now is None:
            return
        removed = self._is_unchanged(parts, now)
        if EntryKind.of(now) is self.before[parts].kind is EntryKind.FOLDER:
            with opened(self.opener, self.workspace, parts) as folder, os.scandir(folder) as rest:
                removed = all((*parts, entry.name) in self._gone for entry in rest)
        if not removed:
            self.plan.kept.append(parts)
            return
        self._gone.add(parts)
        self.plan.removed_bytes += most_room(parts, now)
        self.plan.removed_count += 1
        self.plan.count -= 1
        self.plan.size -= now.st_size if stat.S_ISREG(now.st_mode) else 0

    def _folder(self, parts: Parts, state: os.stat_result | None) -> Parts:
        """Return the target of a folder of the layer; a new folder is added to the plan."""
        if parts in self._targets:
            return self._targets[parts]
        target = (*self._folder(parts[:-1], None), parts[-1])
        now = self._now(target)
        if now is not None and EntryKind.of(now) is not EntryKind.FOLDER:
            target = self._conflict(target)
            now = None
        if now is None and target not in self._planned:
            self._planned.add(target)
            self.plan.folders.append((target, 0o700 if state is None else state.st_mode))
            self.plan.count += 1
        self._targets[parts] = target
        return target

    def _put(self, written: ChangedEntry) -> None:
        target = (*self._folder(written.parts[:-1], None), written.parts[-1])
        now = self._now(target)
        size = written.state.st_size if written.kind is EntryKind.FILE else 0
        if now is not None and not self._is_unchanged(target, now):
            # Others wrote the same, or the command changed only the time.
            if written.parts in self.same or self._is_there(written, target):
                return
            target, now = self._conflict(target), None
        if now is None:
            self.plan.count += 1
        else:
            self.plan.size -= now.st_size if stat.S_ISREG(now.st_mode) else 0
            # If the content is the same, no former version is needed.
            if written.parts not in self.same:
                self.plan.replaced[target] = now
        self._planned.add(target)
        self.plan.size += size
        self.plan.puts.append((written.parts, target))

    def _is_unchanged(self, parts: Parts, now: os.stat_result) -> bool:
        """Return True if a file or link is the version of the start."""
        return EntryKind.of(now) is not EntryKind.FOLDER and stamp_of(now) == self.before.get(parts)

    def _is_there(self, written: ChangedEntry, target: Parts) -> bool:
        """Return True if the workspace has the command's content already, written by others."""
        with (
            opened(self.opener, self.layer, written.parts[:-1]) as mine,
            opened(self.opener, self.workspace, target[:-1]) as theirs,
        ):
            state = os.stat(target[-1], dir_fd=theirs, follow_symlinks=False)
            if EntryKind.of(state) is not written.kind or state.st_size != written.state.st_size:
                return False
            return _is_same(written.kind, (mine, written.parts[-1]), (theirs, target[-1]))

    def _conflict(self, target: Parts) -> Parts:
        """Return a free path for a version that must not replace the present one."""
        for number in range(1, len(self.before) + len(self._planned) + 100_000):
            end = f".conflict-{number}"
            name, most = target[-1], _NAME_BYTES - len(end)
            if len(encoded := os.fsencode(name)) > most:
                name = encoded[:most].decode(errors="ignore")
            free = (*target[:-1], name + end)
            if free not in self._planned and self._now(free) is None:
                self.plan.conflicts.append((target, free))
                return free
        raise AssertionError("There are more names than files.")

    def _now(self, parts: Parts) -> os.stat_result | None:
        # A folder that is still to be made is empty, whatever has its name now.
        if parts in self._gone or parts[:-1] in self._planned:
            return None
        try:
            above = self._folders.above(parts)
            return os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _is_same(kind: EntryKind, one: tuple[int, str], two: tuple[int, str]) -> bool:
    if kind is EntryKind.LINK:
        targets = {os.readlink(name, dir_fd=above) for above, name in (one, two)}
        return len(targets) == 1
    with (
        os.fdopen(open_to_read(*one), "rb") as first,
        os.fdopen(open_to_read(*two), "rb") as second,
    ):
        pieces: Iterator[tuple[bytes, bytes]] = iter(
            lambda: (first.read(_PIECE), second.read(_PIECE)), (b"", b"")
        )
        return all(mine == theirs for mine, theirs in pieces)
