"""Reads the changes of a command from the layer that holds its writes."""

import os
import stat
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from bot.files.opener import Opener
from bot.files.walk import EntryKind
from skills.files.copies import Manifest, stamp_of
from skills.files.tree import Level, Parts, levels

#: Most nested folders that are taken over. The file tools allow fewer.
MOST_LEVELS = 200

#: The attribute with which the kernel's overlay marks a folder that hides the one below it.
_OPAQUE = "user.overlay.opaque"


class NestedTooDeepError(Exception):
    """The layer has more nested folders than `MOST_LEVELS`."""


@dataclass(frozen=True, slots=True)
class ChangedEntry:
    """A file, folder or link that a command made or changed.

    Attributes:
        parts: Its path in the workspace, which is also its path in the layer.
        state: Its `lstat` result in the layer.
    """

    parts: Parts
    state: os.stat_result

    @property
    def kind(self) -> EntryKind:
        """The kind of the entry."""
        return EntryKind.of(self.state)


@dataclass(slots=True)
class LayerChanges:
    """The changes that a command made.

    Attributes:
        removed: Paths of the workspace that the command removed, or replaced by another kind.
        written: Entries made or changed; a folder comes before its content.
        left_out: Number of devices, pipes and sockets, which are not taken over.
    """

    removed: set[Parts] = field(default_factory=set)
    written: list[ChangedEntry] = field(default_factory=list)
    left_out: int = 0


def overlay_changes(opener: Opener, layer: int, before: Manifest) -> LayerChanges:
    """Return the changes recorded in the upper layer of an overlay.

    Raises:
        NestedTooDeepError: Folders are nested deeper than `MOST_LEVELS`.
    """
    reader = _ChangeCollector(before)
    for level in _bounded(opener, layer):
        opaque = False
        with suppress(OSError):
            opaque = os.getxattr(level.descriptor, _OPAQUE) == b"y"
        if level.parts and opaque:
            reader.changes.removed.update(reader.below(level.parts))
        for name, state in level.entries:
            parts = (*level.parts, name)
            if stat.S_ISCHR(state.st_mode) and state.st_rdev == 0:
                reader.remove(parts)
            else:
                reader.see(parts, state)
    return reader.changes


def copy_changes(opener: Opener, layer: int, before: Manifest, copied: Manifest) -> LayerChanges:
    """Return the differences between a layer and the copy of the workspace that was put into it.

    Args:
        opener: Opens below a folder.
        layer: Descriptor of the layer.
        before: The manifest of the workspace at the start.
        copied: The manifest of its copy in the layer.

    Raises:
        NestedTooDeepError: Folders are nested deeper than `MOST_LEVELS`.
    """
    reader = _ChangeCollector(before)
    seen: set[Parts] = set()
    for level in _bounded(opener, layer):
        for name, state in level.entries:
            parts = (*level.parts, name)
            seen.add(parts)
            if copied.get(parts) != stamp_of(state):
                reader.see(parts, state)
    reader.changes.removed.update(parts for parts in copied if parts not in seen)
    return reader.changes


class _ChangeCollector:
    """Collects the changes; `before` is the manifest of the workspace at the start."""

    def __init__(self, before: Manifest) -> None:
        self._before = before
        self._in_order = sorted(before)
        self.changes = LayerChanges()

    def see(self, parts: Parts, state: os.stat_result) -> None:
        """Record an entry that is in the layer."""
        kind, was = EntryKind.of(state), self._before.get(parts)
        if was is not None and (was.kind is EntryKind.FOLDER) != (kind is EntryKind.FOLDER):
            self.remove(parts)
        else:
            self.changes.removed.discard(parts)
        if kind is EntryKind.OTHER:
            self.remove(parts)
            self.changes.left_out += 1
        elif kind is not EntryKind.FOLDER or was is None or was.kind is not EntryKind.FOLDER:
            self.changes.written.append(ChangedEntry(parts, state))

    def remove(self, parts: Parts) -> None:
        """Record that a path of the start is gone, with everything below it."""
        was = self._before.get(parts)
        if was is not None:
            self.changes.removed.add(parts)
            if was.kind is EntryKind.FOLDER:
                self.changes.removed.update(self.below(parts))

    def below(self, parts: Parts) -> Iterator[Parts]:
        """Yield the paths of the start in a folder, at all depths."""
        depth = len(parts)
        for index in range(bisect_right(self._in_order, parts), len(self._in_order)):
            if self._in_order[index][:depth] != parts:
                return
            yield self._in_order[index]


def _bounded(opener: Opener, layer: int) -> Iterator[Level]:
    for level in levels(opener, layer):
        if len(level.parts) > MOST_LEVELS:
            raise NestedTooDeepError
        yield level
