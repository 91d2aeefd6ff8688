"""Compiles patterns from models with RE2, whose time grows only linearly with the text.

Python's `re` never receives a pattern from a model: some expressions would run for years.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import re2

from bot.errors import ToolError

MOST_CHARACTERS = 1_000

#: Makes `^` and `$` match at the ends of a line.
_PREFIX = "(?m)"

#: Largest compiled program: with a larger one, RE2 takes seconds for a page of text.
MOST_INSTRUCTIONS = 5_000
_MEMORY = 2 << 20

# One call takes at most 30 ns for each byte and instruction, and it cannot be interrupted.
_WORK_AT_ONCE = 30_000_000
_LEAST_AT_ONCE, _MOST_AT_ONCE = 6_000, 1_000_000

_WILDCARDS = {"*": "[^/]*", "?": "[^/]"}


class _Match(Protocol):
    def start(self) -> int: ...
    def end(self) -> int: ...


class _Compiled(Protocol):
    @property
    def programsize(self) -> int: ...
    def search(self, text: bytes, pos: int, endpos: int) -> _Match | None: ...
    def fullmatch(self, text: bytes) -> object | None: ...


@dataclass(frozen=True, slots=True)
class Expression:
    """A regular expression that matches within single lines."""

    compiled: _Compiled

    def pieces(self, content: bytes) -> Iterator[tuple[int, int]]:
        """Return the ranges of a content, each small enough to search in one call."""
        fitting = _WORK_AT_ONCE // max(1, self.compiled.programsize)
        return pieces(content, max(_LEAST_AT_ONCE, min(fitting, _MOST_AT_ONCE)))

    def find(self, content: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Return start and end of the first match, or `None`."""
        found = self.compiled.search(content, start, end)
        return None if found is None else (found.start(), found.end())


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern of paths, such as `src/**/*.{js,ts}`.

    Attributes:
        names: The pattern split at slashes.
    """

    compiled: _Compiled
    names: tuple[str, ...]

    def fits(self, path: str) -> bool:
        """Return True if a path matches."""
        # File names may hold bytes that are no text.
        return self.compiled.fullmatch(os.fsencode(path)) is not None


def pieces(content: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of at most `size` bytes, which end after a line where possible."""
    start = 0
    while start < len(content):
        end = min(start + size, len(content))
        if end < len(content):
            end = content.rfind(b"\n", start, end) + 1 or end
        yield start, end
        start = end


def expression(pattern: str, *, ignore_case: bool = False) -> Expression:
    """Compile a regular expression from a model.

    Raises:
        ToolError: The expression is invalid, or would take too long.
    """
    if not pattern:
        raise ToolError("The pattern is empty: give what to look for.")
    _check(pattern)
    return Expression(_compiled(f"{_PREFIX}{pattern}", ignore_case=ignore_case))


def path_pattern(pattern: str) -> PathPattern:
    """Compile a pattern of paths.

    `*` and `?` match within one name, `**` matches folders at any depth, `[a-z]` one of these
    characters, `{a,b}` one of these texts.

    Raises:
        ToolError: The pattern is invalid.
    """
    if not pattern.strip("/") or ".." in pattern.split("/"):
        raise ToolError("Give a pattern of paths in the workspace, such as `**/*.py`.")
    pattern = pattern.strip("/")
    _check(pattern)
    translated = ""
    at, braces = 0, 0
    while at < len(pattern):
        rest = pattern[at:]
        length = 1
        if rest.startswith("**/") and (at == 0 or pattern[at - 1] == "/"):
            length = 3
            translated += "(?:.*/)?"
        elif rest.startswith("**"):
            length = len(rest) - len(rest.lstrip("*"))
            translated += ".*"
        elif rest[0] == "[" and (end := rest.find("]", 2)) > 0:
            length = end + 1
            negation = "^" if rest[1] in "!^" else ""
            listed = rest[1 + len(negation) : end].replace("\\", "\\\\")
            listed = listed.replace("[", "\\[").replace("^", "\\^")
            translated += f"[{negation}{'/' if negation else ''}{listed}]"
        elif rest[0] == "{" and "}" in rest and not braces:
            braces = 1
            translated += "(?:"
        elif rest[0] in ",}" and braces:
            braces = int(rest[0] == ",")
            translated += "|" if braces else ")"
        else:
            translated += _WILDCARDS.get(rest[0]) or re2.escape(rest[0])
        at += length
    return PathPattern(_compiled(translated), tuple(pattern.split("/")))


def _check(pattern: str) -> None:
    if len(pattern) > MOST_CHARACTERS:
        raise ToolError(f"The pattern has {len(pattern):,} characters: give a shorter one.")
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise ToolError(
            "The pattern cannot be read: it holds half of a character. Leave that out."
        ) from None


def _compiled(text: str, *, ignore_case: bool = False) -> _Compiled:
    options = re2.Options()
    options.log_errors = False
    options.never_nl = options.never_capture = True
    options.max_mem = _MEMORY
    options.case_sensitive = not ignore_case
    try:
        compiled: _Compiled = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        reason = reason.replace(_PREFIX, "")
        raise ToolError(
            f"The pattern cannot be read ({reason}). It must be an RE2 expression, which "
            "has no look-around and no back references; put a backslash before characters that "
            "stand for themselves."
        ) from None
    if compiled.programsize > MOST_INSTRUCTIONS:
        raise ToolError("The pattern repeats too much: use smaller counts, or `*` and `+`.")
    return compiled
