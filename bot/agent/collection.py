"""Reads items from the files of folders, reloads changed files, and tolerates broken ones."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from bot.errors import ConfigError

log = logging.getLogger(__name__)

#: Seconds between two checks of the folders for changes.
LOOK_SECONDS = 1.0
MOST_FILES = 500

Item = TypeVar("Item")

_Stamp = tuple[tuple[str, ...], tuple[tuple[str, int, int], ...]]


@dataclass(frozen=True, slots=True)
class Found:
    """A file to read.

    Attributes:
        folder: The configured folder that holds it.
        label: Its name in messages.
    """

    path: Path
    folder: Path
    label: str


@dataclass(frozen=True, slots=True)
class Look:
    """The result of listing the folders.

    Attributes:
        problems: The errors of the folders, a sentence each.
    """

    files: tuple[Found, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry(Generic[Item]):
    """An item read from a file.

    Attributes:
        warnings: The unused parts of the file, a sentence each.
    """

    name: str
    item: Item
    warnings: Sequence[str] = field(default=())


class Collection(Generic[Item]):
    """Holds the items read from files, by name.

    An item of a later folder replaces one of the same name in an earlier folder. An unusable file
    is reported; its last valid version stays in use, if any.

    Args:
        kind: The singular with its article, and the plural of the items, for messages.
        look: Lists the files to read.
        read: Reads one file; raises `ConfigError` with a sentence that names it.
        monotonic: A monotonic clock, in seconds.

    Attributes:
        problems: The errors and the unused parts of the files, a sentence each.
    """

    def __init__(
        self,
        kind: tuple[str, str],
        look: Callable[[], Look],
        read: Callable[[Found], Entry[Item]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._one, self._several = kind
        self._look = look
        self._read_one = read
        self._now = monotonic
        self._items: dict[str, Item] = {}
        self._owners: dict[str, Found] = {}
        self.problems: tuple[str, ...] = ()
        self.read()

    @property
    def by_name(self) -> dict[str, Item]:
        """The items by name, reloaded if files have changed."""
        self._refresh()
        return dict(self._items)

    def read(self) -> None:
        """Read all files."""
        self._looked = self._now()
        seen = self._look()
        self._stamp = _stamp(seen)
        items: dict[str, Item] = {}
        owners: dict[str, Found] = {}
        problems = list(seen.problems)
        for found in seen.files[:MOST_FILES]:
            try:
                entry = self._read_one(found)
            except ConfigError as error:
                problems.append(str(error))
                self._keep(found, items, owners)
                continue
            problems += entry.warnings
            other = owners.get(entry.name)
            if other is not None and other.folder == found.folder:
                problems.append(
                    f"{found.label}: {other.label} has {self._one} `{entry.name}` already; "
                    "rename it."
                )
                continue
            items[entry.name], owners[entry.name] = entry.item, found
        if len(seen.files) > MOST_FILES:
            problems.append(f"Of {len(seen.files):,} {self._several} {MOST_FILES} are read.")
        self._items, self._owners, self.problems = items, owners, tuple(problems)

    def _refresh(self) -> None:
        if self._now() - self._looked < LOOK_SECONDS:
            return
        self._looked = self._now()
        if _stamp(self._look()) == self._stamp:
            return
        before, told = dict(self._items), set(self.problems)
        self.read()
        for problem in self.problems:
            if problem not in told:
                log.warning("%s", problem)
        changed = [name for name, item in self._items.items() if before.get(name) != item]
        gone = sorted(set(before) - set(self._items))
        log.info(
            "The %s were read again; changed: %s; gone: %s",
            self._several,
            changed or "none",
            gone or "none",
        )

    def _keep(self, broken: Found, items: dict[str, Item], owners: dict[str, Found]) -> None:
        """Keep the last valid items of a broken file."""
        for name, owner in self._owners.items():
            if owner.path == broken.path and name in self._items:
                items[name], owners[name] = self._items[name], owner


def missing(folders: Iterable[Path], kind: str, key: str) -> tuple[str, ...]:
    """Return a sentence for each missing folder, with its configuration key."""
    return tuple(
        f"The folder {folder} of {kind} is not there: make it, or change `{key}`."
        for folder in folders
        if not folder.is_dir()
    )


def _stamp(seen: Look) -> _Stamp:
    """Return a value that changes with the files and with the problems of the folders."""
    stamps = []
    for found in seen.files:
        try:
            stat = found.path.stat()
        except OSError:
            continue
        stamps.append((str(found.path), stat.st_mtime_ns, stat.st_size))
    return seen.problems, tuple(stamps)
