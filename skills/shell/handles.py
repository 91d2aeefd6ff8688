"""Holds the resources of a running sandbox: its files, pipes, layer and first process."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from skills.shell.host import Host
from skills.shell.recipe import (
    COVERED,
    FILES,
    UPPER,
    WORD,
    Descriptors,
    LayerLimits,
    ShownFolders,
    options,
)
from skills.shell.seccomp import program
from skills.shell.settings import ShellSettings

_FILTERS = re.compile(r"^Seccomp_filters:\t(\d+)$", re.MULTILINE)
#: Before Linux 5.9 this line replaces the count: 2 means at least one filter.
_FILTERED = re.compile(r"^Seccomp:\t(\d+)$", re.MULTILINE)
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StartFiles:
    """The open files of one start; call `started` once the sandbox has inherited its ends.

    Attributes:
        descriptors: The sandbox's ends, by number.
        start_signal: Its standard input: the command begins only when `begin` writes to it.
    """

    def __init__(self) -> None:
        self._theirs = ExitStack()
        self.start_signal, ours = os.pipe2(os.O_CLOEXEC)
        self._theirs.callback(os.close, self.start_signal)
        # A memfd, since a pipe without a reader would kill bubblewrap, and its first process, which
        # waits for a signal from it, would wait for ever.
        self._information = os.fdopen(os.memfd_create("information", os.MFD_CLOEXEC), "r+b", 0)
        # A file object may be closed twice; a descriptor number could be reused by then.
        self._ours = os.fdopen(ours, "wb", 0)
        self.descriptors = Descriptors(
            options=self._file(),
            command=self._file(),
            filter=self._file(),
            information=self._information.fileno(),
            files={path: self._file() for path in (*FILES, *COVERED)},
        )

    def _file(self) -> int:
        descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC)
        self._theirs.callback(os.close, descriptor)
        return descriptor

    def fill(
        self,
        host: Host,
        settings: ShellSettings,
        command: str,
        layer: LayerLimits,
        shown: ShownFolders,
    ) -> None:
        """Write the contents of the files."""
        mine = self.descriptors
        _fill(mine.options, options(host, settings, mine, layer, shown))
        _fill(mine.command, command.encode("utf-8", errors="replace") + b"\n")
        _fill(mine.filter, program(host.machine))
        for path, text in (FILES | COVERED).items():
            _fill(mine.files[path], text.encode())

    def started(self) -> None:
        """Close the sandbox's ends, which the sandbox has inherited."""
        self._theirs.close()

    def begin(self) -> bool:
        """Let the command begin. A command that has not begun when this is closed never does.

        Returns:
            True if a process received the signal; the sandbox may have ended meanwhile.
        """
        try:
            self._ours.write(WORD)
        except BrokenPipeError:
            return False
        return True

    @property
    def first_process(self) -> int | None:
        """The pid of the first process inside, once bubblewrap has written it in full."""
        text = os.pread(self._information.fileno(), 4096, 0)
        try:
            return int(json.loads(text)["child-pid"])
        except (ValueError, KeyError):
            return None

    def close(self) -> None:
        """Close all files that are still open."""
        self._theirs.close()
        self._information.close()
        self._ours.close()


class FirstProcess:
    """The first process inside: when it ends, all others end."""

    def __init__(self, process: int) -> None:
        self._descriptor = os.pidfd_open(process)
        self._status = Path(f"/proc/{process}/status")
        # A bot in a container may have a filter already, which is inherited.
        self._before = _filters(Path("/proc/self/status"))

    def kill(self) -> None:
        """Kill all processes inside at once."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    @property
    def bound(self) -> bool:
        """True if the process would end when the bot is killed: a later step adds its filter."""
        with suppress(OSError):
            return _filters(self._status) > self._before
        return False

    async def gone(self) -> None:
        """Wait until the process has ended."""
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(self._descriptor, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(self._descriptor)

    def close(self) -> None:
        """Close the descriptor of the process."""
        os.close(self._descriptor)


class Layer:
    """The opened layer of one command; it outlives the processes until it is closed.

    Args:
        process: Pid of bubblewrap, whose mount namespace shows the layer.
        limits: The limits that the layer was made with.

    Raises:
        OSError: The layer does not exist, or the system does not limit it.
    """

    def __init__(self, process: int, limits: LayerLimits) -> None:
        theirs, ours = (Path(f"/proc/{each}/ns/mnt").stat() for each in (process, "self"))
        if os.path.samestat(theirs, ours):
            raise OSError("the sandbox has no mount namespace of its own")
        self.descriptor = os.open(f"/proc/{process}/root{UPPER}", _OPEN_FOLDER)
        found = os.fstatvfs(self.descriptor)
        pages = -(-limits.size // found.f_frsize)
        if not (0 < found.f_blocks <= pages and 0 < found.f_files <= limits.count):
            self.close()
            raise OSError("the system does not limit what a command writes")

    @property
    def used(self) -> int:
        """Bytes that the layer takes, including removed files that are still open."""
        found = os.fstatvfs(self.descriptor)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def close(self) -> None:
        """Close the descriptor of the layer."""
        os.close(self.descriptor)


@contextmanager
def opened_process(process: int) -> Iterator[FirstProcess]:
    """Open the first process inside, and kill it at the end of the block at the latest."""
    inside = FirstProcess(process)
    try:
        yield inside
    finally:
        inside.kill()
        inside.close()


def _filters(status: Path) -> int:
    """Return the number of system-call filters of a process."""
    text = status.read_text()
    found = _FILTERS.search(text) or _FILTERED.search(text)
    return int(found[1]) if found else 0


def _fill(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
