"""Carries out the plan for a layer: everything that may fail comes before the first change."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import closing
from functools import cache

from bot.workspaces.beneath import Opener, opened
from bot.workspaces.copies import copy_file, make_folder
from bot.workspaces.keeping import KeptChange, NotKeptError
from bot.workspaces.planning import Plan
from bot.workspaces.tree import OpenFolders, Parts, remove_tree


class PartlyDoneError(Exception):
    """The system refused a change after others had been made."""


def carry_out(
    opener: Opener, plan: Plan, workspace: int, layer: int, staging: int, change: KeptChange
) -> list[Parts]:
    """Carry out a plan.

    Args:
        opener: Opens what is below a folder.
        plan: What to do.
        workspace: The workspace, opened.
        layer: The layer of the command, opened.
        staging: An empty folder on the disk of the workspace, opened.
        change: Keeps what is replaced or removed.

    Returns:
        What could not be kept, since it is larger than all that is kept.

    Raises:
        OSError: It could not be done, and the workspace is as it was.
        PartlyDoneError: A part of it was done.
    """
    with closing(OpenFolders(opener, layer)) as folders:
        for number, put in enumerate(plan.puts):
            above = folders.above(put.source)
            copy_file(above, put.source[-1], staging, str(number), put.state)
    if plan.puts:
        # A file that is renamed before its content is on the disk may be empty after a power cut.
        _sync(staging)
    try:
        lost = [parts for parts in plan.replaced if not _kept(change, workspace, parts)]
    except BaseException:
        change.discard()
        raise
    try:
        lost += _remove_all(opener, plan, workspace, change)
        _put_all(opener, plan, workspace, staging)
    except OSError as error:
        raise PartlyDoneError(error.strerror) from error
    return lost


def _kept(change: KeptChange, workspace: int, parts: Parts, *, removed: bool = False) -> bool:
    try:
        change.keep(workspace, parts, removed=removed)
    except NotKeptError:
        return False
    return True


def _remove_all(opener: Opener, plan: Plan, workspace: int, change: KeptChange) -> Iterator[Parts]:
    """Remove what is to be removed, and yield what is not kept."""
    for parts in plan.removed:
        if _kept(change, workspace, parts, removed=True):
            continue
        yield parts
        with opened(opener, workspace, parts[:-1]) as above:
            try:
                os.unlink(parts[-1], dir_fd=above)
            except IsADirectoryError:
                remove_tree(opener, above, parts[-1])


def _put_all(opener: Opener, plan: Plan, workspace: int, staging: int) -> None:
    with closing(OpenFolders(opener, workspace)) as folders:
        for parts, mode in plan.folders:
            make_folder(folders.above(parts), parts[-1], mode & 0o755 | 0o700)
        for number, put in enumerate(plan.puts):
            above = folders.above(put.target)
            os.rename(str(number), put.target[-1], src_dir_fd=staging, dst_dir_fd=above)


def _sync(descriptor: int) -> None:
    if _libc().syncfs(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
