"""Opens files below an open folder, and only there: one look-up that follows no link.

Checking a path first and opening it afterwards is a race: a folder in it can be replaced by a
link in between. So no path here is looked up twice; the opened descriptor is checked and used.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Protocol

from bot.agent.plain import clean
from bot.agent.sanitizer import one_line
from bot.errors import ToolError

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Do not block on a FIFO, and do not become the owner of a terminal.
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

MOST_LEVELS = 32
MOST_NAME_BYTES = 240
#: Names per system call: with 255 bytes each they stay below the kernel's limit of 4,096.
_NAMES_AT_ONCE = 15
MOST_PATH_CHARACTERS = 1_000

# https://man7.org/linux/man-pages/man2/openat2.2.html; the number is the same on every processor.
_OPENAT2 = 437
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 1, 2, 4, 8
_HERE = -100
_TRIES = 20


class Opener(Protocol):
    """Opens files and folders below an open folder."""

    def __call__(self, folder: int, parts: Sequence[str], flags: int, /) -> int:
        """Return a new descriptor of a file or folder; of `folder` itself when `parts` is empty.

        Raises:
            OSError: Nothing is at the path, or the path leads through a link or out of the folder.
        """


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def by_openat2(folder: int, parts: Sequence[str], flags: int) -> int:
    """Open below a folder with `openat2`, which Linux offers for this."""
    with ExitStack() as passed:
        while len(parts) > _NAMES_AT_ONCE:
            folder = _openat2(folder, parts[:_NAMES_AT_ONCE], os.O_PATH | os.O_DIRECTORY)
            # Closes the previous folder: at most two are open at any depth.
            passed.pop_all().close()
            passed.callback(os.close, folder)
            parts = parts[_NAMES_AT_ONCE:]
        return _openat2(folder, parts, flags)


def _openat2(folder: int, parts: Sequence[str], flags: int) -> int:
    path = os.fsencode("/".join(parts) or ".")
    how = _How(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | _NO_XDEV)
    for _ in range(_TRIES):
        opened: int = _syscall()(_OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how))
        if opened >= 0:
            return opened
        # The kernel asks for a retry when something else was renamed at the same moment.
        if (number := ctypes.get_errno()) not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(number, os.strerror(number))


def by_walking(folder: int, parts: Sequence[str], flags: int) -> int:
    """Open below a folder one name at a time, where the system has no `openat2`."""
    device = os.fstat(folder).st_dev
    with ExitStack() as passed:
        for part in parts[:-1]:
            folder = _step(folder, part, FOLDER, device)
            passed.pop_all().close()
            passed.callback(os.close, folder)
        return _step(folder, parts[-1] if parts else None, flags, device)


def best_opener() -> Opener:
    """Return `by_openat2` where the system supports it, else `by_walking`."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.close(by_openat2(_HERE, (), FOLDER))
            return by_openat2
    return by_walking


def parts_of(path: str) -> tuple[str, ...]:
    """Split a path given by a model into names; empty for the workspace itself (pure).

    Raises:
        ToolError: The path is not a valid path in the workspace.
    """
    if len(path) > MOST_PATH_CHARACTERS:
        raise ToolError(f"The path has {len(path):,} characters: give a shorter one.")
    if path == "~" or path.startswith(("/", "~/")):
        raise ToolError(
            f"{shown(path)!r} does not begin in the workspace: give a path from its top folder, "
            "such as notes/today.md."
        )
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise ToolError(f"{shown(path)!r} leaves its folder: give a path without `..`.")
    if clean(path) != path or "\n" in path or "\t" in path:
        raise ToolError(
            f"{shown(path)!r} has characters in it that nobody can see: leave them out."
        )
    if len(parts) > MOST_LEVELS or any(len(part.encode()) > MOST_NAME_BYTES for part in parts):
        raise ToolError(
            f"The path has a name of more than {MOST_NAME_BYTES} bytes, or more than {MOST_LEVELS} "
            "folders in each other: give a shorter one."
        )
    return parts


def shown(path: str | Sequence[str]) -> str:
    """Return a path for an error text."""
    text = path if isinstance(path, str) else "/".join(path)
    return one_line(text or "The workspace", 200)


@contextmanager
def tool_errors(parts: Sequence[str]) -> Iterator[None]:
    """Convert an `OSError` about a path into a `ToolError` with a sentence for the model."""
    try:
        yield
    except OSError as error:
        text = _SENTENCES.get(error.errno or 0, _UNUSABLE)
        reason = os.strerror(error.errno or 0)
        raise ToolError(text.format(name=shown(parts), reason=reason)) from error


@contextmanager
def opened_path(path: Path, flags: int = FOLDER) -> Iterator[int]:
    """Open a trusted path: one of the bot's own, which no user can put a link into.

    Args:
        path: The path.
        flags: The flags; by default those for a folder.
    """
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened(opener: Opener, folder: int, parts: Sequence[str], flags: int = FOLDER) -> Iterator[int]:
    """Open below a folder, and close the descriptor at the end of the block."""
    descriptor = opener(folder, parts, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_file(
    opener: Opener,
    folder: int,
    parts: Sequence[str],
    own_names: Callable[[os.stat_result], int] = lambda _: 1,
) -> Iterator[tuple[int, os.stat_result]]:
    """Open a file to read it.

    Args:
        opener: Opens below a folder.
        folder: Descriptor of the folder.
        parts: The path in the folder.
        own_names: Counts the hard links of the file that the bot made. A file with more links
            could belong to another user.

    Raises:
        ToolError: The path is no regular file, or the file has a foreign hard link.
        OSError: The file cannot be opened.
    """
    with opened(opener, folder, parts, FILE) as descriptor:
        state = os.fstat(descriptor)
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, "")
        if not stat.S_ISREG(state.st_mode):
            raise ToolError(f"{shown(parts)} is a device, a pipe or a socket, and no file.")
        for _ in range(_TRIES):
            state = os.fstat(descriptor)
            # A hard link that is made or removed at this moment is counted on the next try.
            if state.st_nlink <= 1 or own_names(state) >= os.fstat(descriptor).st_nlink:
                break
        else:
            raise ToolError(
                f"{shown(parts)} has several names (hard links), and such files are not read: copy "
                "it, with the shell if you have it, and read the copy."
            )
        yield descriptor, state


def state_of(opener: Opener, folder: int, parts: Sequence[str]) -> os.stat_result | None:
    """Return the `lstat` result of a file, folder or link; `None` if nothing is there."""
    if not parts:
        return os.fstat(folder)
    try:
        with opened(opener, folder, parts[:-1]) as above:
            return os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return None


@cache
def _syscall() -> "ctypes._NamedFuncPointer":
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    function.argtypes = (
        *(ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t),
    )
    return function


def _step(folder: int, name: str | None, flags: int, device: int) -> int:
    if name is not None and (name in {"", ".", ".."} or "/" in name):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        opened = os.open("." if name is None else name, flags, dir_fd=folder)
    except NotADirectoryError:
        if name and stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
    if os.fstat(opened).st_dev != device:
        os.close(opened)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return opened


_LINK = "{name} is a link, or lies behind one, and links are not followed."
_DEVICE = "{name} is a device, a pipe or a socket, and no file."
_FULL = "{name} was not written, since the disk is full. Tell the user."
_FORBIDDEN = "{name} may not be opened: its permissions were changed."
_UNUSABLE = "{name} cannot be used just now ({reason}). Try it again, or go on."
#: Texts for the model by the number of the system's error.
_SENTENCES = {
    errno.ENOENT: "There is no {name}. See file_list or glob for what there is.",
    errno.ELOOP: _LINK,
    errno.EXDEV: _LINK,
    errno.ENOTDIR: (
        "{name} leads through a file as if it were a folder, or is none. See file_list."
    ),
    errno.EISDIR: "{name} is a folder: name a file in it. See file_list for what it holds.",
    errno.ENXIO: _DEVICE,
    errno.EOPNOTSUPP: _DEVICE,
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
}
