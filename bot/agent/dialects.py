"""Converts Markdown for Discord and Slack: code unchanged, links honest, no pings (pure).

See `docs/decisions/0029-markup.md`.
"""

import html
import re
from collections.abc import Iterator, Sequence
from unicodedata import combining, east_asian_width

from bot.agent.markup import (
    GRAVE,
    LINK,
    Block,
    MarkupKind,
    MarkupPart,
    blocks,
    cells,
    misleads,
    parts,
    unmasked,
)
from bot.agent.plain import LIMIT
from bot.agent.sanitizer import safe_markdown, without_echoes

# A part of a mail address (`me@here.com`) is no ping.
_PING = r"@(?={names})(?!(?<=[\w.+-]@)(?:{names})[\w-]*\.[a-z])"
_DISCORD_PING = re.compile(_PING.format(names="everyone|here"), re.IGNORECASE)
_SLACK_PING = re.compile(_PING.format(names="everyone|here|channel"), re.IGNORECASE)
_DISCORD_MARKUP = re.compile(r"<(?=@[!&]?\d|#\d|/[^<>\n]{1,120}:\d|id:)")

#: Discord has three levels of headings.
_LOW_HEADING = re.compile(r"^#{4,6}[ \t]++(.+)$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}[ \t]++(.+)$", re.MULTILINE)
#: Bold text. Code and addresses before it are skipped; code inside it belongs to it.
_BOLD = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`)|https?://\S+"
    r"|\*\*(?=\S)(?P<bold>(?:`[^`\n]+`|[^*`\n])+?)(?<=\S)\*\*",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"^[ \t]*(?:&gt;[ \t]?)+", re.MULTILINE)

#: Text that Discord may read as the start of `<a:/b>`, which may continue on the next line.
_SPACE = re.compile(r"\s")
_DANGLING = re.compile(r"<[^ <>\n]*$", re.MULTILINE)
#: Characters after which Discord may miss the start of a fence: formatting and labels span lines.
_DOUBTFUL = re.compile(r"[\[<*_~|`\\]")
_AFTER_A_URL = ".,;:!?)]}'\"*_~|。，、；：！？）」』】》〉”’»"
#: Discord shows the source of a link whose label contains an address.
_IN_LABEL = re.compile(r"https?://", re.IGNORECASE)
_TICKS = re.compile("`+")

#: Widest aligned table. A wider table becomes a list of its rows, since wrapped code is unreadable.
WIDEST = 72

#: Code, links and formatting in a cell; underscores inside a name such as `a__b` do not format.
_MARKUP = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.*?[^`])(?P=ticks)(?!`)"
    rf"|{LINK}"
    r"|\*\*|~~|(?<!\w)__|__(?!\w)",
    re.IGNORECASE,
)


def for_discord(raw: str, *, limit: int = LIMIT, links: bool = True) -> str:
    """Return Markdown for Discord in which code is unchanged, no link misleads and nothing pings.

    Split it afterwards; send it with `AllowedMentions.none()` and without embeds.

    Args:
        raw: Markdown.
        limit: The most characters of `raw` to use.
        links: Whether labels may replace addresses; `False` to keep every address visible.
    """
    markdown = safe_markdown(raw, limit=limit)
    shown: list[str] = []
    certain, addresses = True, ":/" in markdown
    for block in blocks(markdown):
        if block.kind is MarkupKind.FENCE:
            text = _fence(block, block.text if certain else unmasked(block.text))
        elif block.kind is MarkupKind.TABLE and (table := aligned(block.text.split("\n"))):
            text = _fenced_table(unmasked(table))
        else:
            prose = listed(block.text.split("\n")) if block.kind is MarkupKind.TABLE else block.text
            text = _discord_prose(prose, links=links, addresses=addresses)
            certain = certain and _DOUBTFUL.search(text) is None
        shown.append(text)
    return "\n".join(shown)


def for_slack(
    raw: str,
    *,
    limit: int = LIMIT,
    links: bool = True,
    growing: bool = False,
    older: bool = False,
) -> str:
    """Return text for Slack in which code is unchanged, no link misleads and nothing pings.

    Escaping is the last step: no converter may come after it. Send it with unfurling off.

    Args:
        raw: Markdown.
        limit: The most characters of `raw` to use.
        links: Whether labels may replace addresses; `False` to keep every address visible.
        growing: Whether more text follows; a fence at the end then stays open.
        older: Whether to write Slack's older dialect, without headings, tables and link labels.
    """
    shown: list[str] = []
    for block in blocks(safe_markdown(raw, limit=limit)):
        if block.kind is MarkupKind.FENCE:
            if growing and not block.closed:
                text = "" if block.empty else f"```{block.language}\n{without_echoes(block.text)}"
            else:
                text = _fence(block, block.text)
            text = html.escape(text, quote=False)
        elif block.kind is MarkupKind.TABLE and older:
            lines = block.text.split("\n")
            table = aligned(lines)
            text = (
                html.escape(_fenced_table(table), quote=False)
                if table
                else _slack_prose(listed(lines), links=False, older=True)
            )
        else:
            text = _slack_prose(block.text, links=links and not older, older=older)
        shown.append(text)
    return "\n".join(shown)


def _fence(block: Block, code: str) -> str:
    # Quotes, bullets and backticks hid the line of an echo until here.
    ended = without_echoes(code)
    ended = ended if block.closed else ended.rstrip("\n")
    return f"```{block.language}\n{ended}\n```" if ended.strip() else ""


def _fenced_table(table: str) -> str:
    shown = without_echoes(table).replace("```", GRAVE * 3)
    return f"```\n{shown}\n```"


def in_discord_line(raw: str) -> str:
    """Return a part of a line for Discord in which every address is visible."""
    text = safe_markdown(raw, limit=len(raw) + LIMIT)
    return _discord_prose(text, links=False, addresses=":/" in text)


def in_slack_line(raw: str) -> str:
    """Return a part of a line for Slack, escaped, in which every address is visible."""
    text = safe_markdown(raw, limit=len(raw) + LIMIT)
    return html.escape(_slack_text(text, links=False), quote=False)


def _spelled(prose: str, *, links: bool, in_labels: bool) -> Iterator[MarkupPart]:
    """Split lines of text into parts; a forbidden link becomes text with an address.

    Args:
        prose: Lines of text.
        links: Whether labels may replace addresses.
        in_labels: Whether labels may contain addresses.
    """
    for part in parts(prose):
        shown = links and (in_labels or _IN_LABEL.search(part.label) is None)
        if part.kind is not MarkupKind.LINK or (shown and not misleads(part.label, part.url)):
            yield part
            continue
        if part.label.rstrip("/") == part.url.rstrip("/"):
            yield MarkupPart(MarkupKind.ADDRESS, f"<{part.url}>")
            continue
        yield MarkupPart(MarkupKind.TEXT, "[")
        yield from parts(part.label)
        yield from (
            MarkupPart(MarkupKind.TEXT, "] ("),
            MarkupPart(MarkupKind.ADDRESS, f"<{part.url}>"),
        )
        yield MarkupPart(MarkupKind.TEXT, ")")


# --- Discord ------------------------------------------------------------------------------------


def _discord_prose(prose: str, *, links: bool, addresses: bool) -> str:
    pieces: list[str] = []
    # Discord reads `steam://x` and `<a:/x>` as addresses, including backticks and line ends.
    swallows = False
    text = _LOW_HEADING.sub(_bold_line, prose)
    for part in _spelled(text, links=links, in_labels=False):
        match part.kind:
            case MarkupKind.CODE:
                piece = f"{' ' * (swallows and addresses)}{_span(unmasked(part.text))}"
            case MarkupKind.STRAY:
                piece = "\\`" * len(part.text)
            case MarkupKind.LINK:
                piece = f"[{_discord_text(part.label)}](<{part.url}>)"
            case MarkupKind.MASKS:
                piece = "](" if part.bare else "] ("
            case MarkupKind.ADDRESS:
                # A preceding backslash would escape the bracket.
                escapes = bool(pieces) and pieces[-1].endswith("\\")
                piece = f"{' ' * escapes}{_without_preview(part.text)}"
            case MarkupKind.TEXT:
                piece = _discord_text(part.text)
            case _:
                piece = part.text
        *spaces, word = _SPACE.split(piece)
        begins = ":/" in word or "<" in word or (swallows and not spaces)
        swallows = begins and part.kind is not MarkupKind.ADDRESS
        pieces.append(piece)
    text = "".join(pieces)
    return _DANGLING.sub(r"\g<0> ", text) if addresses else text


def _discord_text(text: str) -> str:
    return _DISCORD_MARKUP.sub("< ", _DISCORD_PING.sub("@ ", text))


def _without_preview(address: str) -> str:
    """Return an address in `<>`, with the punctuation of the sentence left outside."""
    if address.startswith("<") and address.endswith(">"):
        return address
    opening, closing = address.startswith("<"), address.endswith(">")
    whole = address[opening : len(address) - closing]
    url = whole.rstrip(_AFTER_A_URL)
    tail = whole[len(url) :]
    inside = min(max(url.count("(") - url.count(")"), 0), len(tail) - len(tail.lstrip(")")))
    return f"{'<' * opening}<{url}{tail[:inside]}>{tail[inside:]}{'>' * closing}"


def _bold_line(match: re.Match[str]) -> str:
    title = match[1].rstrip(" \t#").replace("**", "")
    return f"**{title}**" if title else match.group()


def _span(code: str) -> str:
    """Return code in backticks that every platform pairs alike."""
    runs = {len(run) for run in _TICKS.findall(code)}
    size = 1 if 1 not in runs else 2
    if size in runs:
        code = code.replace("`", GRAVE)
        size = 1
    return f"{'`' * size}{code}{'`' * size}"


# --- Slack --------------------------------------------------------------------------------------


def _slack_prose(prose: str, *, links: bool, older: bool) -> str:
    text = prose
    if older:
        text = _BOLD.sub(
            lambda match: f"*{match['bold']}*" if match["bold"] else match.group(),
            _HEADING.sub(_bold_line, prose),
        )
    escaped = html.escape(_slack_text(text, links=links), quote=False)
    # A `>` alone is no markup of Slack.
    return _QUOTE.sub(lambda match: match.group().replace("&gt;", ">"), escaped)


def _slack_text(text: str, *, links: bool) -> str:
    pieces: list[str] = []
    # Without its brackets an address ends at a space or at punctuation.
    bracketed = False
    # Slack pairs an unpaired backtick across lines: what follows may be part of another label.
    certain = True
    for part in _spelled(text, links=links, in_labels=True):
        before = pieces[-1] if pieces else ""
        certain = certain and part.kind is not MarkupKind.STRAY
        match part.kind:
            case MarkupKind.CODE if not certain:
                piece = f"{part.ticks}{part.text.replace('](', '] (')}{part.ticks}"
            case MarkupKind.CODE:
                piece = f"{part.ticks}{unmasked(part.text)}{part.ticks}"
            case MarkupKind.LINK:
                label = _SLACK_PING.sub("@ ", part.label)
                piece = f"[{label}]{'' if certain else ' '}({part.url})"
            case MarkupKind.MASKS:
                piece = "] ("
            case MarkupKind.REFERENCE:
                piece = "] :"
            case MarkupKind.ADDRESS:
                piece, rest = part.text, part.text.partition("//")[2]
                # A ping (`@here`) as the host; a path such as `/@here` stays.
                if "//" in rest or _SLACK_PING.search(rest.partition("/")[0]):
                    piece = _SLACK_PING.sub("@ ", piece)
                if piece.startswith("<") and piece.endswith(">"):
                    piece = f"{' ' if before[-1:].isalnum() else ''}{piece[1:-1]}"
            case MarkupKind.TEXT:
                piece = _SLACK_PING.sub("@ ", part.text)
            case _:
                piece = part.text
        if bracketed and piece[:1].isalnum():
            piece = f" {piece}"
        bracketed = part.kind is MarkupKind.ADDRESS and part.text.endswith(">")
        pieces.append(piece)
    return "".join(pieces)


# --- tables -------------------------------------------------------------------------------------


def aligned(lines: Sequence[str]) -> str:
    """Return a table as lines for a fixed-width font; empty if it is wider than `WIDEST`."""
    head, *rows = [tuple(map(_plain, cells(line))) for line in (lines[0], *lines[2:])]
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
    head, *rows = [cells(line) for line in (lines[0], *lines[2:])]
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


def _fitted(row: tuple[str, ...], width: int) -> tuple[str, ...]:
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
