"""Looking through files: by their names, and for what stands in them."""

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bot.errors import ToolError
from bot.workspaces.patterns import Expression, PathPattern
from bot.workspaces.walk import USUALLY_SKIPPED, Entry, Kind
from bot.workspaces.workspace import WALK_SECONDS, Looking, Workspace

#: What is looked at to tell a text from something else.
_HEAD = 8_192
#: The part of a line that is taken over.
_LINE_BYTES = 400


@dataclass(frozen=True, slots=True)
class Hit:
    """A line in which something was found.

    Attributes:
        line: Its number, from 1.
    """

    path: str
    line: int
    text: str


@dataclass(slots=True)
class Found:
    """What a search found.

    Attributes:
        looked: Files that were looked at.
        too_large: Files that were not, for their size.
        more: There may be more than this.
    """

    hits: list[Hit]
    looked: int = 0
    too_large: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for.

    Attributes:
        path: The folder or file to look in.
        files: The files to look at; `None` for all.
        names_only: One hit in each file is enough.
        most: Hits to return.
        seconds: The time to look for them.
    """

    expression: Expression
    path: str
    files: PathPattern | None
    names_only: bool
    most: int
    seconds: float = WALK_SECONDS


def newest(
    workspace: Workspace, path: str, pattern: PathPattern, most: int
) -> tuple[list[str], bool]:
    """Return the files that fit, the last changed first, and whether there may be more."""
    with workspace.walk(path, skip=USUALLY_SKIPPED.difference(pattern.names)) as looking:
        fitting = (
            entry
            for entry in looking.entries
            if entry.kind is Kind.FILE and pattern.fits(entry.path)
        )
        found = heapq.nlargest(most + 1, fitting, key=lambda entry: entry.changed)
        return [looking.path(entry) for entry in found[:most]], looking.cut or len(found) > most


def search(workspace: Workspace, question: Question) -> Found:
    """Return the lines that hold what is looked for, in the order of the files' names."""
    found = Found([])
    names = question.files.names if question.files else ()
    skip = USUALLY_SKIPPED.difference(names)
    with workspace.walk(question.path, skip=skip, seconds=question.seconds) as looking:
        for entry in looking.entries:
            if entry.kind is not Kind.FILE or not _wanted(question, entry):
                continue
            content = _content(workspace, looking, entry, found)
            for hit in _hits(question.expression, looking, entry, content):
                if len(found.hits) >= question.most:
                    found.more = True
                    return found
                found.hits.append(hit)
                if question.names_only:
                    break
            if time.monotonic() > looking.until:
                found.more = True
                return found
        found.more = looking.cut
    return found


def _wanted(question: Question, entry: Entry) -> bool:
    return question.files is None or question.files.fits(entry.path)


def _content(workspace: Workspace, looking: Looking, entry: Entry, found: Found) -> bytes:
    """Return a text, or nothing for what is none or cannot be read."""
    if entry.size > workspace.most_bytes:
        found.too_large += 1
        return b""
    try:
        content = workspace.read_in(looking.folder, entry.parts)
    except (OSError, ToolError):
        # It is no file by now, or not one that may be read.
        return b""
    found.looked += 1
    if b"\0" in content[:_HEAD]:
        return b""
    return content.replace(b"\r\n", b"\n").removesuffix(b"\n")


def _hits(expression: Expression, looking: Looking, entry: Entry, content: bytes) -> Iterator[Hit]:
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
            yield Hit(path, line, _shown(content[begin:stop], match[0] - begin))
            at = stop + 1


def _shown(line: bytes, at: int) -> str:
    """Return a line, of a long one what is around the match."""
    if len(line) <= _LINE_BYTES:
        return line.decode(errors="replace")
    start = max(0, min(at - _LINE_BYTES // 4, len(line) - _LINE_BYTES))
    end = start + _LINE_BYTES
    text = line[start:end].decode(errors="replace")
    return f"{'…' if start else ''}{text}{'…' if end < len(line) else ''}"
