"""Carries out the plan for a layer: all steps that may fail come before the first change.

Slow work is done before the lock is held: contents are copied first, and under the lock of the
user's files there are only renames.
"""

import ctypes
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress

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


def stage(
    opener: Opener, written: Iterable[ChangedEntry], layer: int, folder: int
) -> dict[Parts, str]:
    """Copy the files and links of a layer to an empty folder on the disk of the workspace.

    Returns:
        Their names in it, by their paths in the layer.

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
    return names


def carry_out(
    opener: Opener,
    plan: MergePlan,
    folder: int,
    lower: int,
    staged: int,
    names: Mapping[Parts, str],
    change: ChangeRecorder,
) -> list[Parts]:
    """Carry out a plan; the caller holds the lock of the workspace.

    Args:
        opener: Opens below a folder.
        plan: The plan.
        folder: Descriptor of the workspace.
        lower: Descriptor of the workspace as it was when the command started. Former versions are
            moved out of it.
        staged: Descriptor of the folder with the files and links that the command wrote.
        names: Their names in it, by their paths in the layer.
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
            for source, target in plan.puts:
                above, name = folders.above(target), target[-1]
                os.rename(names[source], name, src_dir_fd=staged, dst_dir_fd=above)
                if place := places.get(target):
                    # The snapshot's hard link is moved: no copy is made, no link is left.
                    change.fill(place, former.above(target), name)
    except (OSError, ToolError) as error:
        raise PartlyMergedError(str(error)) from error
    return lost
