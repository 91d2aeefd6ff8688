"""Searches files by name and by content."""

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bot.errors import ToolError
from bot.files.walk import USUALLY_SKIPPED, EntryKind, FolderEntry
from skills.files.patterns import Expression, PathPattern
from skills.files.workspace import WALK_SECONDS, Workspace, WorkspaceWalk

#: Bytes at the start of a file that are checked for NUL to detect binary files.
_HEAD = 8_192
#: Most bytes of a line that are shown.
_LINE_BYTES = 400


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """A line that matched.

    Attributes:
        line: Its number, from 1.
    """

    path: str
    line: int
    text: str


@dataclass(slots=True)
class SearchOutcome:
    """The result of a search.

    Attributes:
        looked: Files that were searched.
        too_large: Files that were skipped for their size.
        more: The search was cut short: there may be more hits.
    """

    hits: list[MatchingLine]
    looked: int = 0
    too_large: int = 0
    more: bool = False


def newest(
    workspace: Workspace, path: str, pattern: PathPattern, most: int
) -> tuple[list[str], bool]:
    """Return the matching files, last changed first, and True if there may be more."""
    with workspace.walk(path, skip=USUALLY_SKIPPED.difference(pattern.names)) as looking:
        fitting = (
            entry
            for entry in looking.entries
            if entry.kind is EntryKind.FILE and pattern.fits(entry.path)
        )
        found = heapq.nlargest(most + 1, fitting, key=lambda entry: entry.changed)
        return [looking.path(entry) for entry in found[:most]], looking.cut or len(found) > most


def search(
    workspace: Workspace,
    expression: Expression,
    path: str = "",
    files: PathPattern | None = None,
    *,
    names_only: bool = False,
    most: int,
    seconds: float = WALK_SECONDS,
) -> SearchOutcome:
    """Return the lines that match, in the order of the files' names.

    Args:
        workspace: The files.
        expression: What to find.
        path: The folder or file to search.
        files: Pattern of the files to search; `None` for all.
        names_only: Stop at the first hit in each file.
        most: Most hits to return.
        seconds: Timeout.
    """
    found = SearchOutcome([])
    skip = USUALLY_SKIPPED.difference(files.names if files else ())
    with workspace.walk(path, skip=skip, seconds=seconds) as looking:
        for entry in looking.entries:
            if entry.kind is not EntryKind.FILE or not (files is None or files.fits(entry.path)):
                continue
            content = _content(workspace, looking, entry, found)
            for hit in _hits(expression, looking, entry, content):
                if len(found.hits) >= most:
                    found.more = True
                    return found
                found.hits.append(hit)
                if names_only:
                    break
            if time.monotonic() > looking.until:
                found.more = True
                return found
        found.more = looking.cut
    return found


def _content(
    workspace: Workspace, looking: WorkspaceWalk, entry: FolderEntry, found: SearchOutcome
) -> bytes:
    """Return the content of a text file; empty for other files and unreadable ones."""
    if entry.size > workspace.most_bytes:
        found.too_large += 1
        return b""
    try:
        content = workspace.read_in(looking.folder, entry.parts)
    except (OSError, ToolError):
        # It has been removed or replaced, or may not be read.
        return b""
    found.looked += 1
    if b"\0" in content[:_HEAD]:
        return b""
    return content.replace(b"\r\n", b"\n").removesuffix(b"\n")


def _hits(
    expression: Expression, looking: WorkspaceWalk, entry: FolderEntry, content: bytes
) -> Iterator[MatchingLine]:
    """Yield the lines that match; of a long one, the part around the match."""
    path = looking.path(entry)
    line, counted, at = 1, 0, 0
    for start, end in expression.pieces(content):
        at = max(at, start)
        while at <= end:
            if time.monotonic() > looking.until:
                return
            match = expression.find(content, at, end)
            if match is None:
                break
            begin = content.rfind(b"\n", 0, match[0]) + 1
            line += content.count(b"\n", counted, begin)
            counted = begin
            stop = content.find(b"\n", match[1])
            stop = len(content) if stop < 0 else stop
            left = max(begin, min(match[0] - _LINE_BYTES // 4, stop - _LINE_BYTES))
            right = min(left + _LINE_BYTES, stop)
            text = content[left:right].decode(errors="replace")
            text = f"{'…' if left > begin else ''}{text}{'…' if right < stop else ''}"
            yield MatchingLine(path, line, text)
            at = stop + 1
