"""Describes a server of a file to the admin who decides whether it is started (pure)."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from bot.agent.sanitizer import for_log
from bot.values import Json
from skills.mcp.settings import McpServerSettings

WAITS = "it is not started before an admin approves it: !retinue mcp, or python -m bot mcp list"
_PROGRAM = "A program that the bot starts with its own rights."
_ADDRESS = "An address that the bot connects to."


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A server that is not started before an admin approves it.

    Attributes:
        hash: Fingerprint of everything that decides what is started.
        definition: The form that an admin reads: as the file has it, without values of variables.
    """

    server: str
    hash: str
    definition: Json


def start_request(name: str, settings: McpServerSettings, written: Json) -> StartRequest:
    """Return the request to start a server of a file.

    The fingerprint covers the command, the folder, the address, and the names of the environment
    variables and headers. Their values count in the form of the file: `${TOKEN}` may change its
    value without a new approval.
    """
    names = {"environment": sorted(settings.environment), "headers": sorted(settings.headers)}
    shown: Json = {
        key: written[key] for key in ("command", "url", "folder") if written.get(key) is not None
    }
    shown |= {key: found for key, found in names.items() if found}
    started = {
        "command": settings.command,
        "url": settings.url,
        "folder": settings.folder,
        **names,
        "values": [written.get(key) for key in names],
    }
    about = _ADDRESS if settings.url else _PROGRAM
    return StartRequest(
        server=name,
        hash=hashlib.sha256(json.dumps([shown, started], sort_keys=True).encode()).hexdigest(),
        definition={"name": name, "description": about, "schema": _plain(shown)},
    )


def start_requests(
    servers: Mapping[str, McpServerSettings], written: Mapping[str, Json]
) -> dict[str, StartRequest]:
    """Return the requests of the enabled servers of files, by their names."""
    return {
        name: start_request(name, each, written[name])
        for name, each in servers.items()
        if name in written and each.enabled
    }


def _plain(value: object) -> object:
    """Return a value whose texts have no characters that an admin cannot see."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return for_log(str(value))
