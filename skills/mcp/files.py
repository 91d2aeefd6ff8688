"""Reads MCP servers from the JSON files of other programs: `.mcp.json` and the like."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bot.agent.documents import too_deep
from bot.agent.sanitizer import one_line
from bot.config.interpolation import Expansion
from bot.values import Json
from skills.loading_dangers import writable_by_all

MOST_BYTES = 256 * 1024
DEEPEST = 10
#: The key of the servers: Claude, Cursor and most others; VS Code.
_KEYS = ("mcpServers", "servers")
_HTTP = frozenset({"http", "streamable-http", "streamablehttp"})
#: Keys that this bot decides itself, or that have no effect here.
_KNOWN = frozenset({
    "type", "transport", "command", "args", "env", "cwd", "url", "headers", "disabled", "enabled",
})  # fmt: skip
_NO_NAME = re.compile(r"[^a-z0-9]+")


class FileServers(NamedTuple):
    """The servers of a file.

    Attributes:
        servers: The settings of each server, by name, with the values of variables.
        remarks: Sentences on unused keys.
        written: The settings as the file has them, with the names of variables.
    """

    servers: dict[str, Json]
    remarks: list[str]
    written: dict[str, Json]


def read_servers(file: str, environ: Mapping[str, str]) -> FileServers:
    """Return the servers in a file.

    Raises:
        ValueError: The file cannot be used; the text names it, the line, and the remedy.
    """
    path = Path(file).expanduser()
    text = _text_of(path)
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file}, line {error.lineno}: it is no JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError(f"{file} is nested too deeply") from None
    known = document if isinstance(document, dict) else {}
    found = next((known[key] for key in _KEYS if key in known), None)
    if (
        found is None
        and known
        and all(
            isinstance(each, dict) and {"command", "url"} & set(each) for each in known.values()
        )
    ):
        # Plugins of Claude Code have the servers without a key around them.
        found = known
    if not isinstance(found, dict) or too_deep(document, DEEPEST):
        raise ValueError(f"{file} has no `mcpServers` with a server for each name")
    servers: dict[str, Json] = {}
    written: dict[str, Json] = {}
    remarks: list[str] = []
    for given, entry in found.items():
        name = _NO_NAME.sub("-", given.lower()).strip("-")
        where = f"{file}, server {one_line(given, 60)!r}"
        if name in servers:
            raise ValueError(f"{where}: another server is called {name!r} too; rename one")
        if not isinstance(entry, dict):
            raise ValueError(f"{where}: it must be an object with `command` or `url`")  # noqa: TRY004
        expansion = Expansion(environ)
        expanded = expansion.tree(entry)
        assert isinstance(expanded, dict)
        is_off = entry.get("enabled") is False or entry.get("disabled") is True
        for problem in () if is_off else expansion.problems.values():
            raise ValueError(f"{where}{_line_of(text, problem)}: {problem}")
        written[name] = _settings(where, entry)
        servers[name] = dict(written[name]) if is_off else _settings(where, expanded)
        servers[name] |= {"enabled": not is_off, "review_first": True}
        remarks += [
            f"{where}: `{one_line(key, 40)}` is not used" for key in sorted(set(entry) - _KNOWN)
        ]
    return FileServers(servers, remarks, written)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if replaceable := writable_by_all(path):
        # It names programs that run with the rights of the bot.
        raise ValueError(
            f"{replaceable} can be written by everyone on this machine: chmod o-w {replaceable}"
        )
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES // 1024} KB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no UTF-8 text") from None


def _settings(where: str, entry: Json) -> Json:
    """Return an entry in the form of `mcp.servers`; the validator of the settings checks it."""
    kind = str(entry.get("type") or entry.get("transport") or "").lower()
    if kind == "sse":
        raise ValueError(
            f"{where}: the transport `sse` is outdated and not spoken here; use the address for "
            "`http` that the maker of the server names"
        )
    if kind not in {"", "stdio", *_HTTP}:
        raise ValueError(f"{where}: `type` must be stdio or http")
    settings: Json = {}
    if "command" in entry:
        arguments = entry.get("args", [])
        if not isinstance(entry["command"], str) or not isinstance(arguments, list):
            raise ValueError(f"{where}: `command` must be text, and `args` a list")
        settings["command"] = [entry["command"], *map(str, arguments)]
    elif kind == "stdio":
        raise ValueError(f"{where}: it has no `command`")
    names = {"url": "url", "headers": "headers", "env": "environment", "cwd": "folder"}
    settings |= {ours: entry[theirs] for theirs, ours in names.items() if entry.get(theirs)}
    if "command" not in settings and "url" not in settings:
        raise ValueError(f"{where}: it has neither `command` nor `url`")
    for key in ("headers", "environment"):
        if not isinstance(settings.get(key, {}), dict):
            raise ValueError(f"{where}: `{key}` must be an object")  # noqa: TRY004
        if key in settings:
            settings[key] = {name: str(value) for name, value in settings[key].items()}
    return settings


def _line_of(text: str, problem: str) -> str:
    """Return the line of the variable that a problem names, as part of a sentence."""
    match = re.search(r"variable (\w+)", problem)
    at = text.find(f"${{{match[1]}") if match else -1
    return f", line {text.count(chr(10), 0, at) + 1}" if at >= 0 else ""
