"""Snapshots a workspace when a command starts, and merges its changes when it ends."""

import errno
import fcntl
import logging
import os
import secrets
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from bot.errors import ToolError
from bot.files.opener import FOLDER, Opener, opened, shown
from skills.files.copies import Manifest, copy_tree, link_tree
from skills.files.layers import NestedTooDeepError, copy_changes, overlay_changes
from skills.files.merging import PartlyMergedError, carry_out, stage
from skills.files.planning import MergePlanner, untouched
from skills.files.settings import Change, Quota
from skills.files.tree import remove_tree
from skills.files.workspace import COMMANDS, LOWER, Workspace

log = logging.getLogger(__name__)

#: Longest wait for other writers before the changes of a command are given up, in seconds.
MERGE_SECONDS = 120.0
_NEW = "new"
_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The outcome of merging the changes of a command.

    Attributes:
        problem: The reason why changes are missing in the workspace, in sentences; else empty.
        conflicts: Paths that others changed meanwhile, each with the path that the command's
            version got instead.
        kept: Paths that the command removed and others changed meanwhile: they are still there.
        left_out: Number of devices, pipes and sockets, which are never taken over.
        can_be_undone: Former versions of replaced or removed paths are stored.
        lost: Paths that were replaced or removed for good.
    """

    problem: str = ""
    conflicts: tuple[tuple[str, str], ...] = ()
    kept: tuple[str, ...] = ()
    left_out: int = 0
    can_be_undone: bool = False
    lost: tuple[str, ...] = ()


class Snapshot:
    """A workspace as it was when a command started. Its methods block: call them in a thread.

    Args:
        workspace: The workspace.
        account: Uid and gid that shall own all files, when the bot is root.

    Attributes:
        path: The folder that shows the workspace as it was.

    Raises:
        ToolError: Others were writing to the workspace for too long, or the disk is nearly full.
        OSError: The snapshot could not be made.
    """

    def __init__(self, workspace: Workspace, account: int | None = None) -> None:
        self._workspace = workspace
        self._opener = workspace.opener
        self.account = account
        self._copied: Manifest | None = None
        workspace.reserve.check()
        name = secrets.token_hex(8)
        self.path: Path = workspace.all_path.absolute() / COMMANDS / name / LOWER
        with ExitStack() as undone:
            commands = undone.enter_context(workspace.opened((COMMANDS,)))
            with workspace.alone() as folder:
                clear_abandoned(self._opener, commands)
                os.mkdir(name, 0o700, dir_fd=commands)
                place = self._opener(commands, (name,), FOLDER)
                undone.callback(os.close, place)
                # Held until the process ends: without the lock the next snapshot deletes this
                # folder.
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                undone.callback(remove_tree, self._opener, commands, name)
                for each in (LOWER, _NEW):
                    os.mkdir(each, 0o700, dir_fd=place)
                self._lower = self._opener(place, (LOWER,), FOLDER)
                undone.callback(os.close, self._lower)
                self._manifest = link_tree(self._opener, folder, self._lower, account)
            self._place = place
            self._end = undone.pop_all()

    def __len__(self) -> int:
        """Return the number of files and folders in the snapshot."""
        return len(self._manifest)

    @property
    def quota(self) -> Quota:
        """The limits of the workspace."""
        return self._workspace.quota

    def copy_into(self, layer: int) -> None:
        """Copy the snapshot into a layer that is no overlay.

        Raises:
            OSError: The workspace does not fit into it.
        """
        self._copied = copy_tree(self._opener, self._lower, layer, self.account)

    def merge(self, layer: int) -> MergeResult:
        """Merge the changes of a command into the workspace; all of its processes have ended."""
        try:
            if self._copied is None:
                changes = overlay_changes(self._opener, layer, self._manifest)
            else:
                changes = copy_changes(self._opener, layer, self._manifest, self._copied)
            written = changes.written
            if not changes.removed and not written:
                return MergeResult(left_out=changes.left_out)
            size = sum(each.state.st_size + _BLOCK for each in written)
            with ExitStack() as stack:
                # Slow work comes before the lock.
                with self._workspace.reserve.promised(size):
                    same = untouched(self._opener, written, layer, self._lower, self._manifest)
                    new = stack.enter_context(opened(self._opener, self._place, (_NEW,)))
                    names = stage(self._opener, written, layer, new)
                folder, change = stack.enter_context(
                    self._workspace.changing(seconds=MERGE_SECONDS)
                )
                plan = MergePlanner(self._opener, folder, layer, self._manifest, same).make(changes)
                self._workspace.check_total(Change(0, plan.size, plan.count))
                lost = carry_out(self._opener, plan, folder, self._lower, new, names, change)
            # A folder that stayed only because of kept paths in it is not named.
            inner = {path[:length] for path in plan.kept for length in range(1, len(path))}
            return MergeResult(
                conflicts=tuple((shown(theirs), shown(mine)) for theirs, mine in plan.conflicts),
                kept=tuple(sorted(shown(path) for path in set(plan.kept) - inner)),
                left_out=changes.left_out,
                can_be_undone=bool(change.id),
                lost=tuple(shown(parts) for parts in lost),
            )
        except NestedTooDeepError:
            return _discarded("its folders are nested too deep.")
        except ToolError as error:
            return _discarded(str(error))
        except PartlyMergedError as error:
            log.exception("Only a part of a command's changes was taken over")
            return MergeResult(
                f"Only a part of its changes to files was kept ({error}). Look at it."
            )
        except OSError as error:
            log.warning("The changes of a command were discarded", exc_info=True)
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                return _discarded("the disk of this machine is full. Tell the user.")
            return _discarded(f"they could not be stored ({os.strerror(error.errno or 0)}).")

    def close(self) -> None:
        """Delete the snapshot."""
        self._end.close()


def clear_abandoned(opener: Opener, commands: int) -> None:
    """Delete the snapshots of processes that have died; the caller holds the lock."""
    for name in os.listdir(commands):
        with suppress(FileNotFoundError), opened(opener, commands, (name,)) as place:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            remove_tree(opener, commands, name)


def _discarded(reason: str) -> MergeResult:
    return MergeResult(
        f"All its changes to files were discarded, and the workspace is as before: {reason}"
    )
