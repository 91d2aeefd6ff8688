"""What files of some folders say, by name: read again when they change, whatever is broken."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from bot.errors import ConfigError

log = logging.getLogger(__name__)

#: How old a look at the folders may be.
LOOK_SECONDS = 1.0
MOST_FILES = 500

Item = TypeVar("Item")

_Stamp = tuple[tuple[str, ...], tuple[tuple[str, int, int], ...]]


@dataclass(frozen=True, slots=True)
class Found:
    """A file to read.

    Attributes:
        folder: The folder of the configuration that it is in.
        label: What people call it.
    """

    path: Path
    folder: Path
    label: str


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to read.

    Attributes:
        problems: What is wrong with the folders, a sentence each.
    """

    files: tuple[Found, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry(Generic[Item]):
    """What a file says.

    Attributes:
        warnings: What is in it and is not used, a sentence each.
    """

    name: str
    item: Item
    warnings: Sequence[str] = field(default=())


class Collection(Generic[Item]):
    """Everything that was read, by name.

    An item of a later folder takes the place of one with its name in an earlier one. A file that
    cannot be used is reported and left out, or stays as it was when it could.

    Args:
        kind: What the items are, for sentences: one, and several.
        look: Says what there is to read now.
        read: Reads one file; raises `ConfigError` with a sentence that names it.
        monotonic: A clock in seconds that never goes back.

    Attributes:
        problems: What is wrong with files, and what is in them that is not used, a sentence each.
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
        """All items, as their files are now."""
        self._refresh()
        return dict(self._items)

    def read(self) -> None:
        """Read everything."""
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
        """Let what a file said stay as it was before the file was broken."""
        for name, owner in self._owners.items():
            if owner.path == broken.path and name in self._items:
                items[name], owners[name] = self._items[name], owner


def missing(folders: Iterable[Path], kind: str, key: str) -> tuple[str, ...]:
    """Return a sentence for each folder that is not there, with the key that names it."""
    return tuple(
        f"The folder {folder} of {kind} is not there: make it, or change `{key}`."
        for folder in folders
        if not folder.is_dir()
    )


def _stamp(seen: Look) -> _Stamp:
    """Return what tells whether anything has changed."""
    stamps = []
    for found in seen.files:
        try:
            stat = found.path.stat()
        except OSError:
            continue
        stamps.append((str(found.path), stat.st_mtime_ns, stat.st_size))
    return seen.problems, tuple(stamps)
