"""Carries out the plan for a layer: all steps that may fail come before the first change.

Slow work is done before the lock is held: contents are copied first, and under the lock of the
user's files there are only renames.
"""

import ctypes
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

from bot.errors import ToolError
from bot.files.opener import Opener, opened
from bot.files.walk import EntryKind
from skills.files.copies import copy_file, make_folder
from skills.files.layers import ChangedEntry
from skills.files.planning import MergePlan
from skills.files.recording import ChangeRecorder, TooLargeToStoreError
from skills.files.tree import OpenFolders, Parts, remove_tree


class PartlyMergedError(Exception):
    """A change failed after others had been made."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The files and links that a command wrote, copied to the disk of the workspace.

    Attributes:
        folder: Descriptor of the folder that holds them.
        names: Their names in it, by their paths in the layer.
    """

    folder: int
    names: Mapping[Parts, str]


def stage(opener: Opener, written: Iterable[ChangedEntry], layer: int, folder: int) -> Staged:
    """Copy the files and links of a layer to an empty folder on the disk of the workspace.

    Raises:
        OSError: They could not be copied.
    """
    names: dict[Parts, str] = {}
    with closing(OpenFolders(opener, layer)) as folders:
        for each in written:
            if each.kind is not EntryKind.FOLDER:
                names[each.parts] = name = str(len(names))
                copy_file(folders.above(each.parts), each.parts[-1], folder, name, each.state)
    # A file that is renamed before its content is on the disk may be empty after a power cut.
    if names and ctypes.CDLL(None, use_errno=True).syncfs(folder):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return Staged(folder, names)


def carry_out(
    opener: Opener, plan: MergePlan, folder: int, lower: int, staged: Staged, change: ChangeRecorder
) -> list[Parts]:
    """Carry out a plan; the caller holds the lock of the workspace.

    Args:
        opener: Opens below a folder.
        plan: The plan.
        folder: Descriptor of the workspace.
        lower: Descriptor of the workspace as it was when the command started. Former versions are
            moved out of it.
        staged: The files and links that the command wrote.
        change: Stores the former versions.

    Returns:
        The paths whose former versions are larger than the store, and so are lost.

    Raises:
        OSError: The plan failed, and the workspace is unchanged.
        ToolError: Former versions would be dropped that must stay; the workspace is unchanged.
        PartlyMergedError: A part of the plan was carried out.
    """
    places: dict[Parts, str] = {}
    try:
        for parts, state in plan.replaced.items():
            with suppress(TooLargeToStoreError):
                if stat.S_ISREG(state.st_mode):
                    places[parts] = change.place_for(parts, state)
                else:
                    # A link is stored in the list alone.
                    change.keep(folder, parts, removed=False)
                    places[parts] = ""
        change.check_room(plan.removed_bytes, plan.removed_count)
    except BaseException:
        change.discard()
        raise
    lost = [parts for parts in plan.replaced if parts not in places]
    try:
        for parts in plan.removed:
            try:
                change.keep(folder, parts, removed=True)
            except TooLargeToStoreError:
                lost.append(parts)
                with opened(opener, folder, parts[:-1]) as above:
                    try:
                        os.unlink(parts[-1], dir_fd=above)
                    except IsADirectoryError:
                        remove_tree(opener, above, parts[-1])
        with (
            closing(OpenFolders(opener, folder)) as folders,
            closing(OpenFolders(opener, lower)) as former,
        ):
            for parts, mode in plan.folders:
                make_folder(folders.above(parts), parts[-1], mode & 0o755 | 0o700)
            for put in plan.puts:
                name, to = staged.names[put.source], put.target[-1]
                above = folders.above(put.target)
                os.rename(name, to, src_dir_fd=staged.folder, dst_dir_fd=above)
                if place := places.get(put.target):
                    # The snapshot's hard link to the former file is moved: nothing is copied, and
                    # no file has an extra link.
                    change.fill(place, former.above(put.target), to)
    except (OSError, ToolError) as error:
        raise PartlyMergedError(str(error)) from error
    return lost
