"""Packs entries into ZIP archives of a limited size."""

import asyncio
import zipfile
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO

#: Space that an entry takes besides its content and its name, in bytes.
_ENTRY_BYTES = 150
#: Space for the last entry, which tells about the others.
_ABOUT_BYTES = 30_000
#: Most names of entries that are listed as left out.
_MOST_NAMES = 200


@dataclass(slots=True)
class _Archive:
    """An archive that is being written."""

    target: IO[bytes]
    moment: datetime
    size: int = 0
    _zip: zipfile.ZipFile = field(init=False)

    def __post_init__(self) -> None:
        self._zip = zipfile.ZipFile(self.target, "w", zipfile.ZIP_DEFLATED)

    def add(self, name: str, content: bytes) -> None:
        """Add an entry."""
        entry = zipfile.ZipInfo(name, self.moment.timetuple()[:6])
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o600 << 16
        self._zip.writestr(entry, content)

    def close(self) -> IO[bytes]:
        """Complete the archive."""
        self._zip.close()
        return self.target


async def packed(
    entries: AsyncIterator[tuple[str, bytes | None]],
    *,
    room: int | None,
    about: Callable[[list[str]], str],
    new: Callable[[], IO[bytes]],
    moment: datetime,
) -> AsyncGenerator[IO[bytes], None]:
    """Yield archives of the entries, in order.

    Args:
        entries: The names and contents; `None` for what cannot be read.
        room: Most bytes of an archive; `None` for no limit. A larger entry is left out.
        about: Returns the text of the last archive's `README.txt` for the entries left out.
        new: Opens the file of an archive.
        moment: The time of the entries.
    """
    archive, left_out = _Archive(new(), moment), []
    async for name, content in entries:
        size = 0
        if content is not None and room is not None:
            size = await asyncio.to_thread(_size, name, content)
        if content is None or (room is not None and size > room - _ABOUT_BYTES):
            left_out.append(name)
            continue
        if room is not None and archive.size + size > room - _ABOUT_BYTES:
            yield archive.close()
            archive = _Archive(new(), moment)
        archive.size += size
        await asyncio.to_thread(archive.add, name, content)
    more = len(left_out) - _MOST_NAMES
    names = [*left_out[:_MOST_NAMES], *([f"and {more} more"] if more > 0 else [])]
    archive.add("README.txt", about(names).encode())
    yield archive.close()


def _size(name: str, content: bytes) -> int:
    return len(zlib.compress(content)) + 2 * len(name.encode()) + _ENTRY_BYTES
