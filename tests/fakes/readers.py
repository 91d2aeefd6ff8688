"""How Discord and Slack read a message, as far as links and pings go: written from their side."""

import html
import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

# The rules of Discord's client in its order, each tried at every character.
_DISCORD_RULES = {
    "code": re.compile(r"```(?:([a-z0-9_+\-.#]+?)\n)?\n*([^\n][\s\S]*?)\n*```", re.IGNORECASE),
    "escape": re.compile(r"\\[^0-9A-Za-z\s]"),
    "address": re.compile(r"<[^: >]+:/[^ >]+>"),
    "preview": re.compile(r"(?:https?|steam)://[^\s<]+[^<.,:;\"'\]\s]"),
    "masked": re.compile(
        r"\[(?P<label>(?:\[[^\]]*\]|[^\[\]])*)\]\(\s*<?"
        r"(?P<url>(?:[a-z][\w.+-]*://|//|(?:mailto|tel|discord|data):)[^)\s>]*)",
        re.IGNORECASE,
    ),
    "inline": re.compile(r"(`+)([\s\S]*?[^`])\1(?!`)"),
}

#: A mail address names nobody.
_MAIL = r"(?!(?<=[\w.+-]@)(?:everyone|here|channel)[\w-]*\.[a-z])"
_DISCORD_PINGS = re.compile(
    rf"@(?=everyone|here){_MAIL}\w+|<@[!&]?\d+>|<#\d+>|</[-\w ]+:\d+>|<id:\w+>", re.IGNORECASE
)
_SLACK_PINGS = re.compile(rf"@(?=everyone|here|channel){_MAIL}\w+", re.IGNORECASE)
_PATHS = re.compile(r"(?<=https://)([^\s/]+)/\S*", re.IGNORECASE)
#: `1.aa.1` and `1.aa.b` are versions.
_HOSTS = re.compile(
    r"//([^\s/]*)|((?:[\w-]*[^\W_][\w-]*\.)+[a-z]{2,})(?!\.(?:\d|[a-z](?![\w-])))", re.IGNORECASE
)


def discord_finds(text: str, what: str) -> list[str]:
    """Return what Discord shows as `masked` links that mislead, or as `preview` of an address."""
    return [
        match.group()
        for match, rule in _discord_reads(text)
        if rule == what and (what != "masked" or misleading(match["label"], match["url"]))
    ]


def _discord_reads(text: str) -> Iterator[tuple[re.Match[str], str]]:
    at = 0
    while at < len(text):
        for name, rule in _DISCORD_RULES.items():
            if match := rule.match(text, at):
                yield match, name
                at = match.end()
                break
        else:
            at += 1


def discord_pings(text: str) -> list[str]:
    """Return what pings, or looks as if, outside code and addresses."""
    rest, done = "", 0
    for match, rule in _discord_reads(text):
        rest += text[done : match.start()]
        rest += " " if rule in {"code", "inline", "address", "preview"} else match.group()
        done = match.end()
    return _DISCORD_PINGS.findall(rest + text[done:])


def slack_pings(text: str) -> list[str]:
    """Return Slack's control sequences, in code too, and the names of everybody outside code.

    Names notify nobody, since `link_names` is off; they are broken so as not to look as if.
    """
    lines = [
        re.sub(r"`.*`", " ", html.unescape(line))
        for token in MarkdownIt("commonmark").parse(text)
        if token.type == "inline"
        for line in token.content.split("\n")
    ]
    return [
        *re.findall(r"<[^>]*>?", text),
        *_SLACK_PINGS.findall(_PATHS.sub(r"\1 ", " ".join(lines))),
    ]


def slack_links(text: str) -> list[str]:
    """Return the targets of links and images in Slack's Markdown block that mislead."""
    found = []
    tokens = _all_tokens(MarkdownIt("commonmark").parse(text))
    for at, token in enumerate(tokens):
        target = str(token.attrs.get("href", token.attrs.get("src", "")))
        if token.type == "image" and re.search(r"[:/.]", target):
            found.append(target)
        if token.type == "link_open" and re.search(r"[:/.]", target):
            end = next(n for n in range(at, len(tokens)) if tokens[n].type == "link_close")
            label = "".join(each.content for each in tokens[at:end])
            found += [target] if misleading(label, target) else []
    return found


def misleading(label: str, url: str) -> bool:
    """Return True if the label of a link shows nothing, or another host than its address."""
    host = re.sub(r"^[\w+.-]*:?/*|[/?#].*$", "", url.lower())
    named = {(match[1] or match[2]).lower() for match in _HOSTS.finditer(label)}
    blank = not any(letter.isalnum() for letter in label)
    return blank or "\n" in label or not url.lower().startswith("http") or bool(named - {host})


def open_fences(text: str) -> list[str]:
    """Return the code fences of a Markdown text that are never closed."""
    lines = text.split("\n")
    found = []
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "fence" and token.map:
            last = lines[token.map[1] - 1].strip(" \t>")
            if token.map[1] - token.map[0] < 2 or not last.startswith(token.markup):
                found.append(token.markup + token.info)
    return found


def _all_tokens(tokens: list[Token]) -> list[Token]:
    return [inner for token in tokens for inner in [token, *_all_tokens(token.children or [])]]
