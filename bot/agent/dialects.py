"""Converts Markdown for Discord and Slack: code unchanged, links honest, no pings (pure).

See `docs/decisions/0029-markup.md`.
"""

import html
import re
from collections.abc import Iterator

from bot.agent.links import misleads, unmasked
from bot.agent.markup import GRAVE, Block, MarkupKind, MarkupPart, blocks, parts
from bot.agent.tables import aligned, listed

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


def for_discord(markdown: str, *, links: bool) -> str:
    """Return plain Markdown for Discord.

    Args:
        markdown: Clean text without secrets.
        links: Whether labels may replace addresses that they do not misrepresent.
    """
    shown: list[str] = []
    certain, addresses = True, ":/" in markdown
    for block in blocks(markdown):
        if block.kind is MarkupKind.FENCE:
            text = _fence(block, block.text if certain else unmasked(block.text))
        elif block.kind is MarkupKind.TABLE and (table := aligned(block.text.split("\n"))):
            text = f"```\n{_without_fences(unmasked(table))}\n```"
        else:
            prose = listed(block.text.split("\n")) if block.kind is MarkupKind.TABLE else block.text
            text = _discord_prose(prose, links=links, addresses=addresses)
            certain = certain and _DOUBTFUL.search(text) is None
        shown.append(text)
    return _joined(shown)


def for_slack(markdown: str, *, links: bool, growing: bool = False, older: bool = False) -> str:
    """Return plain Markdown for Slack, with `&`, `<` and `>` escaped.

    Args:
        markdown: Clean text without secrets.
        links: Whether labels may replace addresses that they do not misrepresent.
        growing: Whether more text follows; a fence at the end then stays open.
        older: Whether to write Slack's older dialect, without headings, tables and link labels.
    """
    shown: list[str] = []
    for block in blocks(markdown):
        if block.kind is MarkupKind.FENCE:
            if growing and not block.closed:
                text = "" if block.empty else f"```{block.language}\n{block.text}"
            else:
                text = _fence(block, block.text)
            text = html.escape(text, quote=False)
        elif block.kind is MarkupKind.TABLE and older:
            lines = block.text.split("\n")
            table = aligned(lines)
            text = (
                html.escape(f"```\n{_without_fences(table)}\n```", quote=False)
                if table
                else _slack_prose(listed(lines), links=False, older=True)
            )
        else:
            text = _slack_prose(block.text, links=links and not older, older=older)
        shown.append(text)
    return _joined(shown)


def _joined(shown: list[str]) -> str:
    return "\n".join(shown)


def _fence(block: Block, code: str) -> str:
    ended = code if block.closed else code.rstrip("\n")
    return f"```{block.language}\n{ended}\n```" if ended.strip() else ""


def _without_fences(text: str) -> str:
    return text.replace("```", GRAVE * 3)


def in_discord_line(text: str) -> str:
    """Return a part of a line for Discord in which every address is visible."""
    return _discord_prose(text, links=False, addresses=":/" in text)


def in_slack_line(text: str) -> str:
    """Return a part of a line for Slack, escaped, in which every address is visible."""
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
        piece = _discord_part(part, pieces[-1] if pieces else "")
        if part.kind is MarkupKind.CODE and swallows and addresses:
            piece = f" {piece}"
        *spaces, word = _SPACE.split(piece)
        begins = ":/" in word or "<" in word or (swallows and not spaces)
        swallows = begins and part.kind is not MarkupKind.ADDRESS
        pieces.append(piece)
    text = "".join(pieces)
    return _DANGLING.sub(r"\g<0> ", text) if addresses else text


def _discord_part(part: MarkupPart, before: str) -> str:
    match part.kind:
        case MarkupKind.CODE:
            return _span(unmasked(part.text))
        case MarkupKind.STRAY:
            return "\\`" * len(part.text)
        case MarkupKind.LINK:
            return f"[{_discord_text(part.label)}](<{part.url}>)"
        case MarkupKind.MASKS:
            return "](" if part.bare else "] ("
        case MarkupKind.ADDRESS:
            # A preceding backslash would escape the bracket.
            return f"{' ' if before.endswith(chr(92)) else ''}{_without_preview(part.text)}"
        case MarkupKind.TEXT:
            return _discord_text(part.text)
        case _:
            return part.text


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
    for part in _spelled(text, links=links, in_labels=True):
        before = pieces[-1] if pieces else ""
        match part.kind:
            case MarkupKind.CODE:
                piece = f"{part.ticks}{unmasked(part.text)}{part.ticks}"
            case MarkupKind.LINK:
                piece = f"[{_SLACK_PING.sub('@ ', part.label)}]({part.url})"
            case MarkupKind.MASKS:
                piece = "] ("
            case MarkupKind.REFERENCE:
                piece = "] :"
            case MarkupKind.ADDRESS:
                piece = _without_names(part.text)
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


def _without_names(address: str) -> str:
    """Return an address without a ping (`@here`) as its host; a path such as `/@here` stays."""
    rest = address.partition("//")[2]
    named = "//" in rest or _SLACK_PING.search(rest.partition("/")[0])
    return _SLACK_PING.sub("@ ", address) if named else address
