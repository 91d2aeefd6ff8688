"""Reads items from the files of folders, reloads changed files, and tolerates broken ones."""

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from bot.catalog.frontmatter import NoDefinitionError
from bot.errors import ConfigError
from bot.files.walk import USUALLY_SKIPPED

log = logging.getLogger(__name__)

#: The folders of a catalog, or a function that returns those that are configured now.
Folders = Sequence[Path] | Callable[[], Sequence[Path]]

#: Seconds between two checks of the folders for changes.
CHECK_SECONDS = 1.0
MOST_FILES = 1_000
#: The checks of a large folder take at most this part of the time.
CHECK_SHARE = 0.02
#: Most names that one sentence lists.
MOST_NAMED = 4
#: Most entries of folders of agents, and the deepest folder, that are looked at.
MOST_ENTRIES = 20_000
DEEPEST = 8
_README = "README.md"
#: Its folder is an Agent Skill, and the Markdown files in it are no agents.
_SKILL_FILE = "SKILL.md"


class Named(Protocol):
    """An item of a catalog."""

    @property
    def name(self) -> str:
        """The name of the item, unique within a folder."""


Item = TypeVar("Item", bound=Named)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read.

    Attributes:
        folder: The configured folder that holds it.
        label: Its name in messages.
        optional: Whether a file without a definition is another document, and no error.
    """

    path: Path
    folder: Path
    label: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Parsed(Generic[Item]):
    """An item read from a file.

    Attributes:
        warnings: The unused or replaced parts of the file, a sentence each.
    """

    item: Item
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class FolderCount:
    """Counts the files of a folder that should be items, and those that were loaded."""

    files: int = 0
    loaded: int = 0


class FileCatalog(ABC, Generic[Item]):
    """Holds the items read from the files of folders, by name.

    An item of a later folder replaces one of the same name in an earlier folder. A changed file
    applies from then on. An unusable file is reported; its last valid version stays in use, if any.

    Attributes:
        kind: The singular with its article, and the plural of the items, for messages.
        problems: The errors and the unused parts of the files, a sentence each.
        counts: The numbers of files and of loaded ones, by configured folder.
        reports: Whether changes and their problems are logged.
    """

    kind: tuple[str, str]
    reports: bool = True

    def __init__(
        self, folders: Folders, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._where = folders
        self._now = monotonic
        self._items: dict[str, Item] = {}
        self._sources: dict[str, SourceFile] = {}
        self._checked = 0.0
        self._pause = CHECK_SECONDS
        self._fingerprint: object = None
        self.problems: tuple[str, ...] = ()
        self.counts: dict[Path, FolderCount] = {}
        self.read()

    @property
    def _folders(self) -> tuple[Path, ...]:
        """The folders that are configured now."""
        return tuple(self._where() if callable(self._where) else self._where)

    @abstractmethod
    def _find(self) -> tuple[list[SourceFile], list[str]]:
        """List the files to read, and the errors of the folders, a sentence each."""

    @abstractmethod
    def _parse(self, file: SourceFile) -> Parsed[Item]:
        """Read one file.

        Raises:
            ConfigError: The file is unusable; the text is a sentence that names it.
        """

    @property
    def by_name(self) -> dict[str, Item]:
        """The items by name, reloaded if files have changed."""
        if self._now() - self._checked < self._pause:
            return dict(self._items)
        begun = self._checked = self._now()
        found = _fingerprint(*self._find())
        self._pause = max(CHECK_SECONDS, (self._now() - begun) / CHECK_SHARE)
        if found == self._fingerprint:
            return dict(self._items)
        before, logged = self._items, set(self.problems)
        self.read()
        if not self.reports:
            return dict(self._items)
        for problem in self.problems:
            if problem not in logged:
                log.warning("%s", problem)
        changed = [name for name, item in self._items.items() if before.get(name) != item]
        gone = sorted(set(before) - set(self._items))
        log.info(
            "The %s were read again; changed: %s; gone: %s",
            self.kind[1],
            changed or "none",
            gone or "none",
        )
        return dict(self._items)

    def read(self) -> None:
        """Read all files."""
        self._checked = self._now()
        files, problems = self._find()
        self._fingerprint = _fingerprint(files, problems)
        items: dict[str, Item] = {}
        sources: dict[str, SourceFile] = {}
        documents: list[str] = []
        counts: dict[Path, FolderCount] = {}
        one, several = self.kind
        for file in files[:MOST_FILES]:
            count = counts.setdefault(file.folder, FolderCount())
            try:
                parsed = self._parse(file)
            except ConfigError as error:
                earlier = [
                    name for name, source in self._sources.items() if source.path == file.path
                ]
                for name in earlier:
                    items[name], sources[name] = self._items[name], self._sources[name]
                if file.optional and isinstance(error, NoDefinitionError) and not earlier:
                    documents.append(file.label)
                else:
                    count.files += 1
                    problems.append(str(error))
                continue
            problems += parsed.warnings
            count.files += 1
            name = parsed.item.name
            other = sources.get(name)
            if other is not None and other.folder == file.folder:
                if parsed.item == items[name]:
                    # Collections hold one agent in several plugins.
                    count.loaded += 1
                    continue
                problems.append(
                    f"{file.label}: {other.label} has {one} `{name}` already; rename it."
                )
                continue
            items[name], sources[name] = parsed.item, file
            count.loaded += 1
        if documents:
            problems.append(
                f"{listed_shortly(documents)}: without a `name` in front matter a file is not "
                f"{one}, and is left out."
            )
        if len(files) > MOST_FILES:
            problems.append(f"Of {len(files):,} {several} {MOST_FILES:,} are read.")
        self._items, self._sources, self.problems = items, sources, tuple(problems)
        self.counts = counts

    def _missing(self, key: str) -> list[str]:
        """Return a sentence for each missing folder, with its configuration key."""
        return [
            f"The folder {folder} of {self.kind[1]} is not there: make it, or change `{key}`."
            for folder in self._folders
            if not folder.is_dir()
        ]


def expanded(folder: str) -> Path:
    """Return the path of a configured folder, with `~` as the home folder."""
    # Unlike `Path.expanduser`, this leaves an unknown `~name` as it is, which is then missing.
    return Path(os.path.expanduser(folder))  # noqa: PTH111


def listed_shortly(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others (pure)."""
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _fingerprint(files: Iterable[SourceFile], problems: Iterable[str]) -> object:
    """Return a value that changes with the files and with the problems of the folders."""
    stamps = []
    for file in files:
        try:
            stat = file.path.stat()
        except OSError:
            continue
        stamps.append((str(file.path), stat.st_mtime_ns, stat.st_size))
    return tuple(problems), tuple(stamps)


class _TooManyError(Exception):
    """The folders have more entries than are read."""


def agent_files(folder: Path, others: Collection[Path] = ()) -> tuple[list[SourceFile], list[str]]:
    """Return the files that can be agents, outer folders first, and a sentence for each problem.

    Hidden folders, links to folders, and the folders of Agent Skills are not entered.

    Args:
        folder: The folder to read.
        others: Further configured folders, which are read on their own.
    """
    found: list[SourceFile] = []
    problems: list[str] = []
    links: list[str] = []
    try:
        for path, is_link in _walk(folder, others):
            label = path.relative_to(folder).as_posix()
            if is_link:
                links.append(label)
                continue
            # Documents about a collection, such as CLAUDE.md, have names in capitals.
            optional = path.parent != folder or path.stem.isupper()
            found.append(SourceFile(path, folder, label, optional))
    except _TooManyError:
        problems.append(
            f"{folder} has more than {MOST_ENTRIES:,} entries, of which the first are read: name "
            "the folder of the agents in `agents.folders`."
        )
    if links:
        problems.append(
            f"{folder} has links to folders, which are not followed ({listed_shortly(links)}): "
            "name the folders that they lead to in `agents.folders`."
        )
    if not found and folder.is_dir() and any(folder.iterdir()):
        problems.append(
            f"{folder} has no agents: an agent is a file `*.md`, here or in a subfolder. Change "
            "`agents.folders`."
        )
    return found, problems


def _walk(folder: Path, others: Collection[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each Markdown file and, with True, each link to a folder; breadth first."""
    left = MOST_ENTRIES
    folders = [(folder, 0)]
    for here, depth in folders:
        try:
            with os.scandir(here) as entries:
                children = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        left -= len(children)
        if depth and any(entry.name == _SKILL_FILE for entry in children):
            continue
        for entry in children:
            if entry.name.startswith(".") or entry.name in USUALLY_SKIPPED:
                continue
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if depth < DEEPEST and path not in others:
                    folders.append((path, depth + 1))
            elif entry.is_dir():
                yield path, True
            elif path.suffix == ".md" and path.name != _README:
                yield path, False
        if left < 0:
            raise _TooManyError
