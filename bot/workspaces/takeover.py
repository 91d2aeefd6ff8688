"""Carries out the plan for a layer: everything that may fail comes before the first change.

What takes long comes before others have to wait: contents are copied first, and under the lock of
the user's files there are only renames.
"""

import ctypes
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache

from bot.errors import ToolError
from bot.workspaces.beneath import Opener, opened
from bot.workspaces.copies import copy_file, make_folder
from bot.workspaces.keeping import KeptChange, NotKeptError
from bot.workspaces.layers import Written
from bot.workspaces.planning import Plan
from bot.workspaces.tree import OpenFolders, Parts, remove_tree
from bot.workspaces.walk import Kind


class PartlyDoneError(Exception):
    """The system refused a change after others had been made."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What a command wrote, on the disk beside the workspace.

    Attributes:
        folder: Holds the files and links, opened.
        names: Their names in it, by their paths in the layer.
    """

    folder: int
    names: Mapping[Parts, str]


def stage(opener: Opener, written: Iterable[Written], layer: int, folder: int) -> Staged:
    """Copy the files and links of a layer to an empty folder on the disk of the workspace.

    Raises:
        OSError: They could not be copied.
    """
    names: dict[Parts, str] = {}
    with closing(OpenFolders(opener, layer)) as folders:
        for each in written:
            if each.kind is not Kind.FOLDER:
                names[each.parts] = name = str(len(names))
                copy_file(folders.above(each.parts), each.parts[-1], folder, name, each.state)
    if names:
        # A file that is renamed before its content is on the disk may be empty after a power cut.
        _sync(folder)
    return Staged(folder, names)


def carry_out(
    opener: Opener, plan: Plan, workspace: int, lower: int, staged: Staged, change: KeptChange
) -> list[Parts]:
    """Carry out a plan; nobody else may write to the workspace meanwhile.

    Args:
        opener: Opens what is below a folder.
        plan: What to do.
        workspace: The workspace, opened.
        lower: The workspace as it was when the command started, opened. It loses what is kept.
        staged: What the command wrote.
        change: Keeps what is replaced or removed.

    Returns:
        What could not be kept, since it is larger than all that is kept.

    Raises:
        OSError: It could not be done, and the workspace is as it was.
        ToolError: Former versions would be pushed out that must stay; likewise.
        PartlyDoneError: A part of it was done.
    """
    places: dict[Parts, str] = {}
    try:
        for parts, state in plan.replaced.items():
            with suppress(NotKeptError):
                if stat.S_ISREG(state.st_mode):
                    places[parts] = change.place_for(parts, state)
                else:
                    # The list holds all of a link.
                    change.keep(workspace, parts, removed=False)
                    places[parts] = ""
        change.check_room(plan.removed_bytes, plan.removed_count)
    except BaseException:
        change.discard()
        raise
    lost = [parts for parts in plan.replaced if parts not in places]
    try:
        lost += _remove_all(opener, plan, workspace, change)
        with (
            closing(OpenFolders(opener, workspace)) as folders,
            closing(OpenFolders(opener, lower)) as former,
        ):
            for parts, mode in plan.folders:
                make_folder(folders.above(parts), parts[-1], mode & 0o755 | 0o700)
            for put in plan.puts:
                name, to = staged.names[put.source], put.target[-1]
                above = folders.above(put.target)
                os.rename(name, to, src_dir_fd=staged.folder, dst_dir_fd=above)
                if place := places.get(put.target):
                    # Our own name for what was there: nothing is copied, and no file is seen with
                    # a name too many.
                    change.fill(place, former.above(put.target), to)
    except (OSError, ToolError) as error:
        raise PartlyDoneError(str(error)) from error
    return lost


def _remove_all(opener: Opener, plan: Plan, workspace: int, change: KeptChange) -> Iterator[Parts]:
    """Remove what is to be removed, and yield what is not kept."""
    for parts in plan.removed:
        try:
            change.keep(workspace, parts, removed=True)
        except NotKeptError:
            yield parts
        else:
            continue
        with opened(opener, workspace, parts[:-1]) as above:
            try:
                os.unlink(parts[-1], dir_fd=above)
            except IsADirectoryError:
                remove_tree(opener, above, parts[-1])


def _sync(descriptor: int) -> None:
    if _libc().syncfs(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
