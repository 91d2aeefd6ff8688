"""How Discord and Slack read a message, as far as links and pings go: written from their side."""

import html
import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

# The rules of Discord's client in its order, each tried at every character.
_DISCORD_RULES = {
    "code": re.compile(r"```(?:([a-z0-9_+\-.#]+?)\n)?\n*([^\n][\s\S]*?)\n*```", re.IGNORECASE),
    "escape": re.compile(r"\\[^0-9A-Za-z\s]"),
    "address": re.compile(r"<[^: >]+:/[^ >]+>"),
    "preview": re.compile(r"(?:https?|steam)://[^\s<]+[^<.,:;\"'\]\s]"),
    "masked": re.compile(r"\[(?:\[[^\]]*\]|[^\[\]])*\]\("),
    "inline": re.compile(r"(`+)([\s\S]*?[^`])\1(?!`)"),
}

_DISCORD_PINGS = re.compile(
    r"@(?:everyone|here)|<@[!&]?\d+>|<#\d+>|</[-\w ]+:\d+>|<id:\w+>", re.IGNORECASE
)
_SLACK_PINGS = re.compile(r"@(?:everyone|here|channel)", re.IGNORECASE)


def discord_finds(text: str, what: str) -> list[str]:
    """Return what Discord shows as `masked` links, or as `preview` of an address."""
    found = []
    at = 0
    while at < len(text):
        for name, rule in _DISCORD_RULES.items():
            if match := rule.match(text, at):
                if name == what:
                    found.append(match.group())
                at = match.end()
                break
        else:
            at += 1
    return found


def discord_pings(text: str) -> list[str]:
    """Return what pings, or looks as if: code or not, since the server decides."""
    return _DISCORD_PINGS.findall(text)


def slack_pings(text: str) -> list[str]:
    """Return Slack's control sequences and the names of everybody."""
    return [*re.findall(r"<[^>]*>?|>", text), *_SLACK_PINGS.findall(html.unescape(text))]


def slack_links(text: str) -> list[str]:
    """Return the targets of links and images that Slack's Markdown block would show."""
    found = []
    for token in _all_tokens(MarkdownIt("commonmark").parse(text)):
        if token.type in {"link_open", "image"}:
            target = str(token.attrs.get("href", token.attrs.get("src", "")))
            if re.search(r"[:/.]", target):
                found.append(target)
    return found


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
