"""What a user reads in texts and blocks, whom these would ping, and which links are masked."""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from bot.values import Json

Kind = Literal["mrkdwn", "markdown", "plain", "ping"]

#: Slack understands these wherever it parses text, code included; we count them in any case and
#: spelling, since a test must rather see one too many.
_BROADCAST = re.compile(r"<!(channel|here|everyone|group)(?:\|[^<>]*)?>", re.IGNORECASE)
_GROUP = re.compile(r"<!subteam\^([A-Z0-9]+)(?:\|[^<>]*)?>", re.IGNORECASE)
_USER = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>", re.IGNORECASE)
_AT_NAME = re.compile(r"(?<![\w<!])@([a-z0-9][a-z0-9._-]*)", re.IGNORECASE)
_CONTROL = re.compile(r"<([^<>]+)>")
_MASKED_MRKDWN = re.compile(r"<((?:https?|mailto)[^<>|]*)\|([^<>]+)>", re.IGNORECASE)
_MASKED_MARKDOWN = re.compile(r"\[([^\]\n]+)\]\(\s*<?([^)\s>]+)")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_BROADCASTS = ("channel", "here", "everyone")


@dataclass(frozen=True, slots=True)
class Surface:
    """One piece of text, and how Slack treats it; `ping` is an element that mentions by itself."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Names:
    """Who is called what.

    Attributes:
        users: Names of people by id.
        groups: Handles of user groups by id.
    """

    users: Mapping[str, str]
    groups: Mapping[str, str]


# --- surfaces -----------------------------------------------------------------------------------


def surfaces(value: object) -> Iterator[Surface]:
    """Find every text in blocks, attachments or chunks, however deep."""
    if isinstance(value, list):
        for item in value:
            yield from surfaces(item)
    if not isinstance(value, dict):
        return
    text = value.get("text")
    match value.get("type"):
        case "mrkdwn":
            yield Surface("mrkdwn", str(text))
        case "markdown" | "markdown_text":
            yield Surface("markdown", str(text))
        case "plain_text" | "raw_text" | "text":
            yield Surface("plain", str(text))
        case "user":
            yield Surface("ping", f"<@{value.get('user_id')}>")
        case "usergroup":
            yield Surface("ping", f"<!subteam^{value.get('usergroup_id')}>")
        case "broadcast":
            yield Surface("ping", f"<!{value.get('range')}>")
        case "link":
            yield Surface("mrkdwn", f"<{value.get('url')}|{text or value.get('url')}>")
        case _:
            yield from _of_unknown(value)


def _of_unknown(value: Json) -> Iterator[Surface]:
    for key, item in value.items():
        if isinstance(item, str) and key in {"title", "details", "output", "pretext", "text"}:
            # Attachments and tasks: Slack parses their texts.
            yield Surface("mrkdwn", item)
        elif isinstance(item, dict | list):
            yield from surfaces(item)


# --- pings --------------------------------------------------------------------------------------


def pings(found: Iterator[Surface], names: Names, *, by_name: bool = False) -> list[str]:
    """Return the mentions that would notify somebody, each once: `<!here>`, `<@U1>` ...

    Args:
        found: Where to look.
        names: Who is called what.
        by_name: Plain `@name` counts too (`link_names`, `parse: full`).
    """
    mentions: list[str] = []
    for surface in found:
        if surface.kind != "plain":
            mentions += _mentions(surface.text)
            if by_name:
                mentions += _mentions_by_name(surface.text, names)
    return list(dict.fromkeys(mentions))


def _mentions(text: str) -> list[str]:
    return [
        *(f"<!{word.lower()}>" for word in _BROADCAST.findall(text)),
        *(f"<!subteam^{group.upper()}>" for group in _GROUP.findall(text)),
        *(f"<@{user.upper()}>" for user in _USER.findall(text)),
    ]


def _mentions_by_name(text: str, names: Names) -> list[str]:
    found = []
    for word in _AT_NAME.findall(text):
        name = word.lower().rstrip("._-")
        if name in _BROADCASTS:
            found.append(f"<!{name}>")
        found += [f"<@{id_}>" for id_, user in names.users.items() if user == name]
        found += [f"<!subteam^{id_}>" for id_, group in names.groups.items() if group == name]
    return found


# --- links --------------------------------------------------------------------------------------


def masked_links(found: Iterator[Surface]) -> list[tuple[str, str]]:
    """Return (label, address) of every link whose label is not its address."""
    links: list[tuple[str, str]] = []
    for surface in found:
        if surface.kind == "mrkdwn":
            links += [(label, url) for url, label in _MASKED_MRKDWN.findall(surface.text)]
        if surface.kind == "markdown":
            links += _MASKED_MARKDOWN.findall(_CODE.sub("", surface.text))
    return [(label, url) for label, url in links if html.unescape(label) != html.unescape(url)]


# --- reading ------------------------------------------------------------------------------------


def shown(text: str, names: Names) -> str:
    """Return a parsed text as a user sees it: links with their address, mentions by name."""
    text = _CONTROL.sub(lambda match: _show_control(match[1], names), text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _show_control(inner: str, names: Names) -> str:
    target, _, label = inner.partition("|")
    if target.startswith("@"):
        return f"@{names.users.get(target[1:], label or target[1:])}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!subteam^"):
        return f"@{names.groups.get(target.removeprefix('!subteam^'), label)}"
    if target.startswith("!date^"):
        return label
    if target.startswith("!"):
        return f"@{target[1:]}"
    if not target.startswith(("http://", "https://", "mailto:")):
        return f"<{inner}>"
    return f"{label} ({target})" if label and label != target else target


def show_surface(surface: Surface, names: Names) -> str:
    """Return one piece as a user sees it."""
    return surface.text if surface.kind == "plain" else shown(surface.text, names)


def visible(block: Json, viewer: str) -> Json:
    """Return a block without the elements that this user does not get to see.

    Args:
        block: From a message.
        viewer: A user's id; empty sees everything.
    """
    if "elements" not in block or not viewer:
        return block
    return block | {"elements": [e for e in block["elements"] if may_see(e, viewer)]}


def may_see(element: Json, viewer: str) -> bool:
    """Whether a user sees this button."""
    allowed = element.get("visible_to_user_ids")
    return allowed is None or viewer in allowed


def read_block(block: Json, names: Names, viewer: str = "") -> str:
    """Return what a user reads in a block; buttons are in square brackets."""
    seen = visible(block, viewer)
    if seen.get("type") in {"actions", "context_actions"}:
        labels = [_label(element, names) for element in seen["elements"]]
        return " ".join(f"[{label}]" for label in labels)
    accessory = seen.get("accessory")
    between = {"context": " ", "rich_text": ""}.get(str(seen.get("type")), "\n")
    rest = {key: value for key, value in seen.items() if key != "accessory"}
    text = between.join(show_surface(surface, names) for surface in surfaces(rest))
    if accessory and may_see(accessory, viewer):
        text += f" [{_label(accessory, names)}]"
    return text


def _label(element: Json, names: Names) -> str:
    text = element.get("text") or element.get("placeholder") or element.get("alt_text") or {}
    if isinstance(text, dict):
        return show_surface(next(surfaces(text), Surface("plain", element["type"])), names)
    return str(text)
