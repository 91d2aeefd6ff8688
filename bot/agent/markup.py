"""Splits Markdown into blocks (fences, tables, prose), and prose into parts; judges links (pure).

Platforms disagree about what is code. So a text is parsed once, and written again in a form that
all of them read alike: fences at the start of a line, and no unpaired backtick.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

#: A complete link with a label of one line; other link-like text counts as text.
LINK = (
    r"\[(?P<label>(?:[^\[\]\\`\n<>]|`[^`\[\]\n]+`){1,200})\]"
    r"\(<?(?P<url>https?://[^\s<>()\[\]\"'\\`|]+(?:\([^\s<>()\[\]\"'\\`|]*\)[^\s<>()\[\]\"'\\`|]*)*)>?\)"
)
_LINK = re.compile(LINK, re.IGNORECASE)

#: Text that turns the brackets before it into a link whose address the reader does not see.
_LEADS = re.compile(
    r"\]\((?=\s*<?(?:[a-z][a-z0-9+.-]*://|//|www\.|(?:mailto|tel|data|javascript|discord|slack):))",
    re.IGNORECASE,
)

_MARKS = re.compile(r"[*_~|`\\]")
_DOTS = str.maketrans(dict.fromkeys("。｡．․‧·∙⋅•ꓸ۔", "."))
_AUTHORITY = re.compile(r"//+([^\s/?#]*)")
_DOTTED = re.compile(r"(?:[^\W_]|-)+(?:\.(?:[^\W_]|-)+)+")
_WORD = re.compile(r"[^\W\d_]{3}")
_SCHEME = re.compile(r"https?\s*[^\w\s]")
_SUFFIXES = (
    "c cfg conf css csv h html ini ipynb js json jsx lock log sql toml ts tsx txt xml yaml yml"
)
#: Suffixes of file names that are no top-level domains.
_FILES = frozenset(_SUFFIXES.split())

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
_DELIMITERS = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")
_EDGE = re.compile(r"(?<!\\)\|")


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
    info = opened["info"].split(None, 1)
    if not any(line.strip() for line in code):
        text = _unfenced(" ".join(info))
        return Block(MarkupKind.FENCE, text, closed=closed, empty=True), at
    # Text after the opening backticks that is no language becomes the first line.
    named = bool(info) and _LANGUAGE.fullmatch(info[0]) is not None
    text = _unfenced("\n".join([*info[named:], *code]))
    return Block(MarkupKind.FENCE, text, info[0] if named else "", closed), at


def _unfenced(code: str) -> str:
    return _FENCES.sub(lambda match: GRAVE * len(match.group()), code)


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


def cells(line: str) -> tuple[str, ...]:
    """Return the cells of a row."""
    inner = line.strip().removeprefix("|")
    parts = [part.strip().replace("\\|", "|") for part in _EDGE.split(inner)]
    return tuple(parts[:-1] if len(parts) > 1 and not parts[-1] else parts)


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


# -- links ---------------------------------------------------------------------------------------


def misleads(label: str, url: str) -> bool:
    """Return True if a link must not hide its address behind this label.

    This is so if the label names another host, if the label has neither letters nor digits, and if
    the address itself misleads: `https://bank.example@evil.example`.
    """
    shown = unicodedata.normalize("NFKC", _MARKS.sub("", label)).translate(_DOTS).casefold()
    try:
        authority = urlsplit(url).netloc.casefold()
        host = _bare(urlsplit(url).hostname or "")
    except ValueError:
        return True
    if not host or "@" in authority or not any(letter.isalnum() for letter in shown):
        return True
    named = [_bare(each.rpartition("@")[2].partition(":")[0]) for each in _AUTHORITY.findall(shown)]
    named += [_bare(each) for each in _DOTTED.findall(shown) if _names_host(each)]
    if not named and _SCHEME.search(shown):
        return True
    return any(name != host for name in named)


def unmasked(code: str) -> str:
    """Return code in which no link misleads, even on a platform that does not show it as code."""
    if "](" not in code:
        return code
    honest = {
        link.end("label")
        for link in _LINK.finditer(code)
        if not misleads(link["label"], link["url"])
    }
    return _LEADS.sub(lambda found: found.group() if found.start() in honest else "] (", code)


def _bare(host: str) -> str:
    return host.removeprefix("www.").rstrip(".")


def _names_host(dotted: str) -> bool:
    *before, last = dotted.split(".")
    if len(before) == 1 and last in _FILES:
        return False
    if last.isdecimal() or len(last) == 1:
        return len(before) == 3 or _WORD.search(dotted) is not None
    return True
