"""Splits Markdown into blocks (fences, tables, prose), and prose into parts (pure).

Platforms disagree about what is code. So a text is parsed once, and written again in a form that
all of them read alike: fences at the start of a line, and no unpaired backtick.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from bot.agent.links import LINK
from bot.agent.tables import table_end

#: Replaces backticks where three of them would end a fence.
GRAVE = "\u2035"

_OPENS = re.compile(
    r"(?P<quote>[ \t]*+(?:>[ \t]?)*+)(?P<bullet>(?:[-*+]|\d{1,9}[.)])[ \t]++)?(?P<indent>[ \t]*+)"
    r"(?P<marker>`{3,}(?=[^`]*\Z)|~{3,}(?=[^~]*\Z))(?P<info>.*)"
)
_QUOTED = re.compile(r"[ \t]*(?:>[ \t]?)+")
_FENCES = re.compile("`{3,}")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+.#-]*")
#: Punctuation of scripts without spaces; after an ASCII character it ends an address.
_WIDE = "。，、；：！？（）「」『』【】《》〈〉“”‘’«»"
_INLINE = re.compile(
    r"(?P<escape>\\[\\`\[])"
    r"|(?P<ticks>`+)"
    rf"|!?(?P<link>{LINK})"
    r"|(?P<masks>\]\((?P<bare>[^:/.()\n<]*\))?)"
    r"|(?P<reference>\]:(?=\s*+[^\s:/.]*+[:/.]))"
    rf"|(?P<address><https?://(?:(?!\]\()[^\s<>`])+>|<?https?://(?:[^\s<>`\[\]{_WIDE}]|(?<![!-~])[{_WIDE}])+>?)",
    re.IGNORECASE,
)


class MarkupKind(Enum):
    """The kinds of blocks and of parts."""

    PROSE = "prose"
    FENCE = "fence"
    TABLE = "table"
    TEXT = "text"
    CODE = "code"
    STRAY = "stray"
    ESCAPE = "escape"
    LINK = "link"
    MASKS = "masks"
    REFERENCE = "reference"
    ADDRESS = "address"


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together.

    Attributes:
        text: The source of prose or of a table; the code in a fence.
        language: The language of the code in a fence.
        closed: Whether a fence ends in the text.
        empty: Whether a fence has no code; its text then follows the opening backticks.
    """

    kind: MarkupKind
    text: str
    language: str = ""
    closed: bool = True
    empty: bool = False


@dataclass(frozen=True, slots=True)
class MarkupPart:
    """A part of a line.

    Attributes:
        text: The source; for a code span, the code without its backticks.
        label: The label of a link.
        url: The address of a link.
        ticks: The backticks at each end of a span.
        bare: Whether the brackets of `](…)` hold no address.
    """

    kind: MarkupKind
    text: str
    label: str = ""
    url: str = ""
    ticks: str = ""
    bare: bool = False


def blocks(text: str) -> Iterator[Block]:
    """Split Markdown into blocks, which contain every word of it in order."""
    lines = text.split("\n")
    prose: list[str] = []
    at = 0
    while at < len(lines):
        opened, end = _OPENS.fullmatch(lines[at]), at
        if opened is None:
            end = table_end(lines, at)
        if opened is None and end == at:
            prose.append(lines[at])
            at += 1
            continue
        if opened is not None and opened["bullet"]:
            bullet = opened["bullet"].strip()
            prose.append(bullet if bullet[0].isdigit() else "•")
        if prose:
            yield Block(MarkupKind.PROSE, "\n".join(prose))
            prose = []
        if opened is None:
            yield Block(MarkupKind.TABLE, "\n".join(lines[at:end]))
            at = end
            continue
        block, at = _fence(lines, at, opened)
        if block.text:
            yield block
    if prose:
        yield Block(MarkupKind.PROSE, "\n".join(prose))


def _fence(lines: list[str], opening: int, opened: re.Match[str]) -> tuple[Block, int]:
    """Return a fence, and the index of the line after it."""
    quoted = ">" in opened["quote"]
    indent = len(opened["bullet"] or "") + len(opened["indent"])
    indent += 0 if quoted else len(opened["quote"])
    marker = opened["marker"]
    code = []
    at = opening + 1
    closed = False
    while at < len(lines) and not closed:
        line = lines[at]
        if quoted and not _QUOTED.match(line):
            break
        if quoted:
            line = _QUOTED.sub("", line, count=1)
        at += 1
        end = line.strip()
        closed = len(end) >= len(marker) and not end.strip(marker[0])
        if not closed:
            code.append(line[min(indent, len(line) - len(line.lstrip(" \t"))) :])
    return _coded(opened["info"].split(None, 1), code, closed=closed), at


def _coded(info: list[str], code: list[str], *, closed: bool) -> Block:
    """Return a fence; text after its backticks that is no language becomes its first line."""
    if not any(line.strip() for line in code):
        return Block(MarkupKind.FENCE, _unfenced(" ".join(info)), closed=closed, empty=True)
    named = bool(info) and _LANGUAGE.fullmatch(info[0]) is not None
    text = _unfenced("\n".join([*info[named:], *code]))
    return Block(MarkupKind.FENCE, text, info[0] if named else "", closed)


def _unfenced(code: str) -> str:
    return _FENCES.sub(lambda match: GRAVE * len(match.group()), code)


def parts(prose: str) -> Iterator[MarkupPart]:
    """Split lines of text into parts."""
    done = at = 0
    while (match := _INLINE.search(prose, at)) is not None:
        at = match.end()
        part = MarkupPart(MarkupKind.STRAY, match.group())
        if ticks := match["ticks"]:
            # A span ends in the line in which it begins.
            stop = prose.find("\n", at)
            run = re.compile(f"(?<!`)`{{{len(ticks)}}}(?!`)")
            if closing := run.search(prose, at, len(prose) if stop < 0 else stop):
                part = MarkupPart(MarkupKind.CODE, prose[at : closing.start()], ticks=ticks)
                at = closing.end()
        elif match["link"]:
            part = MarkupPart(MarkupKind.LINK, match["link"], match["label"], match["url"])
        elif match["masks"]:
            part = MarkupPart(MarkupKind.MASKS, "](", bare=match["bare"] is not None)
        else:
            kinds = {"escape": MarkupKind.ESCAPE, "reference": MarkupKind.REFERENCE}
            kind = next((kinds[name] for name in kinds if match[name]), MarkupKind.ADDRESS)
            part = MarkupPart(kind, match.group())
        if done < match.start():
            yield MarkupPart(MarkupKind.TEXT, prose[done : match.start()])
        yield part
        if part.kind is MarkupKind.MASKS:
            at = match.start("masks") + 2
        done = at
    if done < len(prose):
        yield MarkupPart(MarkupKind.TEXT, prose[done:])
