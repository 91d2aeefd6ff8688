"""Markdown as Discord and Slack show it: code unchanged, links honest, nobody pinged (pure).

See `docs/decisions/0029-markup.md`.
"""

import html
import re
from collections.abc import Iterator

from bot.agent.links import misleads, unmasked
from bot.agent.markup import GRAVE, Block, Kind, Part, blocks, parts
from bot.agent.tables import aligned, listed

# A part of a mail address (`me@here.com`) pings nobody.
_PING = r"@(?={names})(?!(?<=[\w.+-]@)(?:{names})[\w-]*\.[a-z])"
_DISCORD_PING = re.compile(_PING.format(names="everyone|here"), re.IGNORECASE)
_SLACK_PING = re.compile(_PING.format(names="everyone|here|channel"), re.IGNORECASE)
_DISCORD_MARKUP = re.compile(r"<(?=@[!&]?\d|#\d|/[^<>\n]{1,120}:\d|id:)")

#: Discord has three levels of headings.
_LOW_HEADING = re.compile(r"^#{4,6}[ \t]++(.+)$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}[ \t]++(.+)$", re.MULTILINE)
#: Bold text; code and addresses before it are passed over, code in it is part of it.
_BOLD = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`)|https?://\S+"
    r"|\*\*(?=\S)(?P<bold>(?:`[^`\n]+`|[^*`\n])+?)(?<=\S)\*\*",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"^[ \t]*(?:&gt;[ \t]?)+", re.MULTILINE)

#: What Discord may read as the start of `<a:/b>`, which may go on in the next line.
_SPACE = re.compile(r"\s")
_DANGLING = re.compile(r"<[^ <>\n]*$", re.MULTILINE)
#: Where Discord could miss the start of a fence: formatting and labels go on over lines.
_DOUBTFUL = re.compile(r"[\[<*_~|`\\]")
_AFTER_A_URL = ".,;:!?)]}'\"*_~|。，、；：！？）」』】》〉”’»"
#: Discord shows a link whose label holds an address as it is written.
_IN_LABEL = re.compile(r"https?://", re.IGNORECASE)
_TICKS = re.compile("`+")


def for_discord(markdown: str, *, links: bool) -> str:
    """Return plain Markdown for Discord.

    Args:
        markdown: Clean, without secrets.
        links: Labels may stand for addresses, where they do not mislead about them.
    """
    shown: list[str] = []
    certain, addresses = True, ":/" in markdown
    for block in blocks(markdown):
        if block.kind is Kind.FENCE:
            text = _fence(block, block.text if certain else unmasked(block.text))
        elif block.kind is Kind.TABLE and (table := aligned(block.text.split("\n"))):
            text = f"```\n{_without_fences(unmasked(table))}\n```"
        else:
            prose = listed(block.text.split("\n")) if block.kind is Kind.TABLE else block.text
            text = _discord_prose(prose, links=links, addresses=addresses)
            certain = certain and _DOUBTFUL.search(text) is None
        shown.append(text)
    return _joined(shown)


def for_slack(markdown: str, *, links: bool, growing: bool = False, older: bool = False) -> str:
    """Return plain Markdown for Slack, its three characters escaped.

    Args:
        markdown: Clean, without secrets.
        links: Labels may stand for addresses, where they do not mislead about them.
        growing: More of the text follows: a fence at its end stays open.
        older: For Slack's older dialect: no headings, tables and labels of links.
    """
    shown: list[str] = []
    for block in blocks(markdown):
        if block.kind is Kind.FENCE:
            if growing and not block.closed:
                text = "" if block.empty else f"```{block.language}\n{block.text}"
            else:
                text = _fence(block, block.text)
            text = html.escape(text, quote=False)
        elif block.kind is Kind.TABLE and older:
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
    """Return a part of a line for Discord, in which every address is seen."""
    return _discord_prose(text, links=False, addresses=":/" in text)


def in_slack_line(text: str) -> str:
    """Return a part of a line for Slack, escaped, in which every address is seen."""
    return html.escape(_slack_text(text, links=False), quote=False)


def _spelled(prose: str, *, links: bool, in_labels: bool) -> Iterator[Part]:
    """Take lines of text to pieces; links that may not be links become text with an address.

    Args:
        prose: Lines of text.
        links: Labels may stand for addresses.
        in_labels: Labels may hold addresses.
    """
    for part in parts(prose):
        shown = links and (in_labels or _IN_LABEL.search(part.label) is None)
        if part.kind is not Kind.LINK or (shown and not misleads(part.label, part.url)):
            yield part
            continue
        if part.label.rstrip("/") == part.url.rstrip("/"):
            yield Part(Kind.ADDRESS, f"<{part.url}>")
            continue
        yield Part(Kind.TEXT, "[")
        yield from parts(part.label)
        yield from (Part(Kind.TEXT, "] ("), Part(Kind.ADDRESS, f"<{part.url}>"))
        yield Part(Kind.TEXT, ")")


# --- Discord ------------------------------------------------------------------------------------


def _discord_prose(prose: str, *, links: bool, addresses: bool) -> str:
    pieces: list[str] = []
    # Discord takes `steam://x` and `<a:/x>` for addresses, backticks and line ends included.
    swallows = False
    text = _LOW_HEADING.sub(_bold_line, prose)
    for part in _spelled(text, links=links, in_labels=False):
        piece = _discord_part(part, pieces[-1] if pieces else "")
        if part.kind is Kind.CODE and swallows and addresses:
            piece = f" {piece}"
        *spaces, word = _SPACE.split(piece)
        begins = ":/" in word or "<" in word or (swallows and not spaces)
        swallows = begins and part.kind is not Kind.ADDRESS
        pieces.append(piece)
    text = "".join(pieces)
    return _DANGLING.sub(r"\g<0> ", text) if addresses else text


def _discord_part(part: Part, before: str) -> str:
    match part.kind:
        case Kind.CODE:
            return _span(unmasked(part.text))
        case Kind.STRAY:
            return "\\`" * len(part.text)
        case Kind.LINK:
            return f"[{_discord_text(part.label)}](<{part.url}>)"
        case Kind.MASKS:
            return "](" if part.bare else "] ("
        case Kind.ADDRESS:
            # A backslash would take the bracket's meaning away.
            return f"{' ' if before.endswith(chr(92)) else ''}{_without_preview(part.text)}"
        case Kind.TEXT:
            return _discord_text(part.text)
        case _:
            return part.text


def _discord_text(text: str) -> str:
    return _DISCORD_MARKUP.sub("< ", _DISCORD_PING.sub("@ ", text))


def _without_preview(address: str) -> str:
    """Return an address in `<>`, less the punctuation of the sentence around it."""
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
    """Return code in backticks that every reader pairs alike."""
    runs = {len(run) for run in _TICKS.findall(code)}
    size = 1 if 1 not in runs else 2
    if size in runs:
        code = code.replace("`", GRAVE)
        size = 1
    return f"{'`' * size}{code}{'`' * size}"


# --- Slack --------------------------------------------------------------------------------------


def _slack_prose(prose: str, *, links: bool, older: bool) -> str:
    text = _BOLD.sub(_single_stars, _HEADING.sub(_bold_line, prose)) if older else prose
    escaped = html.escape(_slack_text(text, links=links), quote=False)
    # Alone it is no markup of Slack's.
    return _QUOTE.sub(lambda match: match.group().replace("&gt;", ">"), escaped)


def _single_stars(match: re.Match[str]) -> str:
    return f"*{match['bold']}*" if match["bold"] else match.group()


def _slack_text(text: str, *, links: bool) -> str:
    pieces: list[str] = []
    # Without its brackets an address ends where a space or punctuation follows.
    bracketed = False
    for part in _spelled(text, links=links, in_labels=True):
        before = pieces[-1] if pieces else ""
        piece = _slack_part(part, before)
        if bracketed and piece[:1].isalnum():
            piece = f" {piece}"
        bracketed = part.kind is Kind.ADDRESS and part.text.endswith(">")
        pieces.append(piece)
    return "".join(pieces)


def _slack_part(part: Part, before: str) -> str:
    match part.kind:
        case Kind.CODE:
            return f"{part.ticks}{unmasked(part.text)}{part.ticks}"
        case Kind.LINK:
            return f"[{_SLACK_PING.sub('@ ', part.label)}]({part.url})"
        case Kind.MASKS:
            return "] ("
        case Kind.REFERENCE:
            return "] :"
        case Kind.ADDRESS:
            return _bare_address(_without_names(part.text), before)
        case Kind.TEXT:
            return _SLACK_PING.sub("@ ", part.text)
        case _:
            return part.text


def _without_names(address: str) -> str:
    """Return an address whose host is not `@here`; in a path such as `/@here` the name stays."""
    rest = address.partition("//")[2]
    named = "//" in rest or _SLACK_PING.search(rest.partition("/")[0])
    return _SLACK_PING.sub("@ ", address) if named else address


def _bare_address(address: str, before: str) -> str:
    if not (address.startswith("<") and address.endswith(">")):
        return address
    return f"{' ' if before[-1:].isalnum() else ''}{address[1:-1]}"
