"""Converts tables of Markdown for platforms that do not show tables (pure)."""

import re
from collections.abc import Sequence
from unicodedata import combining, east_asian_width

from bot.agent.links import LINK

#: Widest aligned table. A wider table becomes a list of its rows, since wrapped code is unreadable.
WIDEST = 72

_DELIMITERS = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")
_EDGE = re.compile(r"(?<!\\)\|")
#: Code, links and formatting in a cell; underscores inside a name such as `a__b` do not format.
_MARKUP = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.*?[^`])(?P=ticks)(?!`)"
    rf"|{LINK}"
    r"|\*\*|~~|(?<!\w)__|__(?!\w)",
    re.IGNORECASE,
)

Row = tuple[str, ...]


def table_end(lines: Sequence[str], at: int) -> int:
    """Return the index of the line after the table that begins at `at`; `at` without a table."""
    if at + 1 >= len(lines) or "|" not in lines[at] or "|" not in lines[at + 1]:
        return at
    if not _DELIMITERS.fullmatch(lines[at + 1]):
        return at
    if len(cells(lines[at])) != len(cells(lines[at + 1])):
        return at
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return end


def cells(line: str) -> Row:
    """Return the cells of a row."""
    inner = line.strip().removeprefix("|")
    parts = [part.strip().replace("\\|", "|") for part in _EDGE.split(inner)]
    return tuple(parts[:-1] if len(parts) > 1 and not parts[-1] else parts)


def aligned(lines: Sequence[str]) -> str:
    """Return a table as lines for a fixed-width font; empty if it is wider than `WIDEST`."""
    head, *rows = [tuple(_plain(cell) for cell in cells(line)) for line in _rows(lines)]
    rows = [_fitted(row, len(head)) for row in rows]
    widths = [max(1, *(_width(row[n]) for row in (head, *rows))) for n in range(len(head))]
    if sum(widths) + 3 * (len(widths) - 1) > WIDEST:
        return ""
    rule = "-+-".join("-" * width for width in widths)
    shown = [
        " | ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        )
        for row in (head, *rows)
    ]
    return "\n".join(line.rstrip() for line in [shown[0], rule, *shown[1:]])


def listed(lines: Sequence[str]) -> str:
    """Return a table as a list of its rows, in Markdown."""
    head, *rows = [cells(line) for line in _rows(lines)]
    found = []
    for row in rows or [head]:
        first, *others = _fitted(row, len(head)) if rows else row
        named = [
            f"{name}: {cell}" if name and rows else cell
            for name, cell in zip(head[1:], others, strict=True)
            if cell
        ]
        found.append(f"- {' · '.join([first, *named] if first else named)}")
    return "\n".join(found)


def _rows(lines: Sequence[str]) -> list[str]:
    return [lines[0], *lines[2:]]


def _fitted(row: Row, width: int) -> Row:
    """Return a row with `width` cells, the number of the head; the last takes surplus cells."""
    if len(row) > width:
        return (*row[: width - 1], " | ".join(row[width - 1 :]))
    return (*row, *[""] * (width - len(row)))


def _plain(cell: str) -> str:
    return _MARKUP.sub(_unmarked, cell)


def _unmarked(match: re.Match[str]) -> str:
    if match["ticks"]:
        code: str = match["code"]
        return code.strip()
    return f"{_plain(match['label'])} ({match['url']})" if match["url"] else ""


def _width(text: str) -> int:
    return sum(
        2 if east_asian_width(each) in "WF" else 0 if combining(each) else 1 for each in text
    )
