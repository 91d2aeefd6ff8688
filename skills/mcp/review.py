"""Shows admins the tools that wait for approval, and resolves the tools they name (pure)."""

import difflib
import json
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bot.agent.sanitizer import one_line
from bot.errors import BadRequestError
from db.mcp_pins import Pin

WIDTH = 90
_MARK_CHARACTERS = 8
_MARKED = re.compile(rf"(?P<tool>.+)@(?P<mark>[0-9a-f]{{{_MARK_CHARACTERS}}})")


def handle(pin: Pin) -> str:
    """Return the name with which to approve a tool or server, with a mark of the shown form."""
    return f"{pin.tool or pin.server}@{pin.offered_hash[:_MARK_CHARACTERS]}"


def check_known(server: str, servers: Collection[str]) -> None:
    """Check that there is a server with this name.

    Raises:
        BadRequestError: There is none; the text names those that there are.
    """
    if server not in servers:
        raise BadRequestError(
            f"There is no MCP server “{one_line(server, 40)}”. There are: "
            f"{', '.join(servers) or 'none'}."
        )


def chosen(server: str, waiting: Sequence[Pin], wanted: Sequence[str]) -> list[Pin]:
    """Return the waiting tools that were named; all of them for no names.

    Raises:
        BadRequestError: A tool does not wait, or not in the form of its mark; approve none.
    """
    if not waiting:
        raise BadRequestError(f"No tool of the MCP server {server} waits for an approval.")
    by_name = {pin.tool: pin for pin in waiting}
    found: dict[str, Pin] = {}
    for name in wanted:
        match = None if name in by_name else _MARKED.fullmatch(name)
        pin = by_name.get(match["tool"] if match else name)
        if pin is None:
            listed = ", ".join(one_line(handle(each), 80) for each in waiting[:20])
            raise BadRequestError(
                f"No tool “{one_line(name, 60)}” of {server} waits for an approval. There are: "
                f"{listed}."
            )
        if match and handle(pin) != name:
            raise BadRequestError(
                f"{one_line(pin.tool, 60)} of {server} has changed again since that was shown: "
                "look at it anew before you approve it."
            )
        found[pin.tool] = pin
    return list(found.values()) or list(waiting)


def chosen_start(pin: Pin | None, given: str) -> Pin:
    """Return the pin of the server that an admin starts.

    Raises:
        BadRequestError: It does not wait, or not in the form of its mark.
    """
    name = one_line(given.partition("@")[0], 40)
    if pin is None or not pin.waits:
        raise BadRequestError(f"The MCP server {name} does not wait for an approval.")
    if "@" in given and handle(pin) != given:
        raise BadRequestError(
            f"The MCP server {name} has changed again since that was shown: look at it anew before "
            "you start it."
        )
    return pin


def difference(pin: Pin) -> list[str]:
    """Return the changes of a tool, line by line: `-` was approved, `+` is offered now."""
    if pin.approved is None:
        return [f"+ {line}" for line in _lines(pin.offered)]
    before, after = list(_lines(pin.approved)), list(_lines(pin.offered))
    found = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return ["…" if line.startswith("@@") else f"{line[0]} {line[1:]}" for line in found]


def _lines(definition: Mapping[str, Any]) -> Iterator[str]:
    schema = json.dumps(definition["schema"], indent=2, sort_keys=True, ensure_ascii=False)
    for line in (*str(definition["description"]).split("\n"), "", *schema.split("\n")):
        yield from textwrap.wrap(
            line, WIDTH, replace_whitespace=False, drop_whitespace=False, expand_tabs=False
        ) or [""]


def described(pin: Pin) -> str:
    """Return the approval status of a tool in a few words."""
    if not pin.waits:
        return f"approved ({pin.approved_by}, {pin.approved_at:%Y-%m-%d %H:%M} UTC)"
    kind = "changed" if pin.approved_hash else "new"
    use = "used" if pin.tool else "started"
    return f"{kind} since {pin.offered_at:%Y-%m-%d %H:%M} UTC: not {use} until it is approved"
