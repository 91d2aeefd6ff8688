"""The disk reserve: the last part of a disk, which is closed to files of users."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from bot.errors import ToolError
from bot.setting_types import MOST_DISK_BYTES
from bot.values import Live, Settings


class DiskSettings(Settings):
    """Everything under `disk:`."""

    reserve_bytes: int = Field(1_000_000_000, ge=0, le=MOST_DISK_BYTES)
    """The space that is kept free on the disks of the workspaces and of the database, in bytes:
    below it no command begins, and nothing is downloaded or attached.
    """

    reserve_percent: float = Field(5, ge=0, le=100)
    """The same as a part of the disk; the smaller of both counts."""


class DiskFullError(ToolError):
    """A disk has no more space left than its reserve.

    Attributes:
        state: The sentences for an admin; the text of the error adds one for a model.
    """

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"{state} Tell the user.")


@dataclass(frozen=True, slots=True)
class DiskReserve:
    """Refuses writes that would use the reserve of a disk.

    Attributes:
        settings: The size of the reserve.
        folders: Folders on the disks, which need not exist yet. Without any, every write is
            allowed.
    """

    settings: Live[DiskSettings] = field(default_factory=DiskSettings)
    folders: Sequence[Path] = ()
    _promises: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    _lock: threading.Lock = field(
        default_factory=threading.Lock, init=False, repr=False, compare=False
    )

    @contextmanager
    def promised(self, needed: int) -> Iterator[None]:
        """Reserve this many bytes during the block; concurrent requests must fit in addition.

        A request for 0 bytes is not checked.

        Raises:
            DiskFullError: A disk would have less space left than its reserve.
        """
        with self._lock:
            if needed:
                self.check(needed)
            self._promises.append(needed)
        try:
            yield
        finally:
            with self._lock:
                self._promises.remove(needed)

    def check(self, needed: int = 0) -> None:
        """Check that this many bytes fit; blocks for some µs.

        Raises:
            DiskFullError: A disk would have less space left than its reserve.
        """
        settings = self.settings()
        for folder in self.folders:
            path = folder.absolute()
            there = next(each for each in (path, *path.parents) if each.exists())
            found = os.statvfs(there)
            share = settings.reserve_percent / 100
            reserve = min(settings.reserve_bytes, int(found.f_blocks * found.f_frsize * share))
            if found.f_bavail * found.f_frsize - needed - sum(self._promises) < reserve:
                raise DiskFullError(
                    "The disk of this machine is nearly full. Its last "
                    f"{reserve / 1_000_000:,.0f} MB are kept free, and nothing new is stored until "
                    "an admin of the machine has made room."
                )


def spoken(size: int) -> str:
    """Return a size as text: `1 byte`, `12 kB`, `3.4 MB`."""
    if size < 1_000:
        return "1 byte" if size == 1 else f"{size} bytes"
    return f"{size / 1_000:.3g} kB" if size < 999_500 else f"{size / 1_000_000:,.1f} MB"
