"""Copies files and folder trees, and stamps files to detect later versions."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bot.files.opener import FILE, Opener
from bot.files.walk import TEMPORARY, EntryKind
from skills.files.tree import Level, Parts, levels, opened_by_force

#: Permission bits that are kept from a command, and those that the bot always needs.
_MODE, _FILE_MODE, _FOLDER_MODE = 0o755, 0o600, 0o700
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identifies one version of the file at a path.

    All writes replace a file by a new one, so the inode number of a present file is enough; size
    and time cover inode numbers that the system reuses.
    """

    kind: EntryKind
    number: int
    size: int
    changed: int


#: The content of a workspace at one moment.
Manifest = Mapping[Parts, Stamp]


def stamp_of(state: os.stat_result) -> Stamp:
    """Return the stamp of a file, folder or link."""
    kind = EntryKind.of(state)
    if kind is EntryKind.FOLDER:
        return Stamp(kind, 0, 0, 0)
    return Stamp(kind, state.st_ino, state.st_size, state.st_mtime_ns)


def tidy_mode(state: os.stat_result) -> int:
    """Return the permissions for a copy: without setuid and always accessible to the bot."""
    needed = _FOLDER_MODE if stat.S_ISDIR(state.st_mode) else _FILE_MODE
    return state.st_mode & _MODE | needed


def link_tree(opener: Opener, source: int, target: int, account: int | None) -> Manifest:
    """Hard-link every file of a folder into an empty one, and return the manifest.

    Where the system allows no hard link, the second tree holds a copy.

    Args:
        opener: Opens below a folder.
        source: Descriptor of the workspace.
        target: Descriptor of the empty folder.
        account: Uid and gid that shall own everything when the bot is root, since an overlay hides
            files of other accounts. `None` changes no owner.
    """
    if account is not None:
        os.fchown(source, account, account)
        os.fchown(target, account, account)
    manifest: dict[Parts, Stamp] = {}
    for level, twin in _twins(opener, source, target):
        for name, state in level.entries:
            if TEMPORARY.fullmatch(name) or EntryKind.of(state) is EntryKind.OTHER:
                continue
            manifest[(*level.parts, name)] = stamp_of(state)
            if account is not None and {state.st_uid, state.st_gid} != {account}:
                os.chown(name, account, account, dir_fd=level.descriptor, follow_symlinks=False)
            if stat.S_ISDIR(state.st_mode):
                make_folder(twin, name, tidy_mode(state), account)
            else:
                above = level.descriptor
                try:
                    os.link(name, name, src_dir_fd=above, dst_dir_fd=twin, follow_symlinks=False)
                except OSError:
                    # Too many hard links, or a disk that supports none.
                    copy_file(above, name, twin, name, state)
                    if account is not None:
                        os.chown(name, account, account, dir_fd=twin, follow_symlinks=False)
    return manifest


def copy_tree(opener: Opener, source: int, target: int, account: int | None) -> Manifest:
    """Copy a folder into an empty one, and return the manifest of the copy.

    Raises:
        OSError: The copy does not fit on the disk, or failed.
    """
    copied: dict[Parts, Stamp] = {}
    for level, twin in _twins(opener, source, target):
        for name, state in level.entries:
            if EntryKind.of(state) is EntryKind.OTHER:
                continue
            if stat.S_ISDIR(state.st_mode):
                make_folder(twin, name, tidy_mode(state), account)
            else:
                copy_file(level.descriptor, name, twin, name, state)
                if account is not None:
                    os.chown(name, account, account, dir_fd=twin, follow_symlinks=False)
            found = os.stat(name, dir_fd=twin, follow_symlinks=False)
            copied[(*level.parts, name)] = stamp_of(found)
    return copied


def make_folder(above: int, name: str, mode: int, account: int | None = None) -> None:
    """Make a folder with exactly these permissions, ignoring the umask."""
    os.mkdir(name, 0o700, dir_fd=above)
    os.chmod(name, mode, dir_fd=above)
    if account is not None:
        os.chown(name, account, account, dir_fd=above, follow_symlinks=False)


def copy_file(above: int, name: str, target: int, as_name: str, state: os.stat_result) -> None:
    """Copy a file with tidied permissions and its time; copy a link as a link."""
    if stat.S_ISLNK(state.st_mode):
        os.symlink(os.readlink(name, dir_fd=above), as_name, dir_fd=target)
        return
    with (
        os.fdopen(open_to_read(above, name), "rb") as source,
        os.fdopen(os.open(as_name, _WRITE, 0o600, dir_fd=target), "wb") as file,
    ):
        if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            raise OSError(f"{name} is no file any more")
        shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fchmod(file.fileno(), tidy_mode(state))
        os.utime(file.fileno(), ns=(state.st_mtime_ns, state.st_mtime_ns))


def open_to_read(above: int, name: str) -> int:
    """Open a file to read it; add the permission first where it is missing."""
    try:
        return os.open(name, FILE | os.O_NOFOLLOW, dir_fd=above)
    except PermissionError:
        os.chmod(name, 0o600, dir_fd=above)
        return os.open(name, FILE | os.O_NOFOLLOW, dir_fd=above)


def _twins(opener: Opener, source: int, target: int) -> Iterator[tuple[Level, int]]:
    for level in levels(opener, source):
        with opened_by_force(opener, target, level.parts) as twin:
            yield level, twin
