"""Reads OpenAPI documents in a process of their own, and finds the base URL of their service."""

import asyncio
import json
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from pydantic import ConfigDict, TypeAdapter

from bot.agent.sanitizer import one_line
from bot.errors import ConfigError
from bot.isolated import run_isolated
from bot.net.addresses import is_public
from skills.rest.openapi import read
from skills.rest.operations import OpenApiDocument
from skills.rest.settings import RestServiceSettings
from skills.rest.trees import MOST_BYTES, parsed

_SCRIPT = Path(__file__).with_name("reading.py")
#: Limits of the process that reads a document. A YAML document of 20 MB takes 6 s of an idle CPU.
SECONDS, CPU_SECONDS, MEGABYTES = 90.0, 60, 1_000
#: A document as its process returns it, or the reason why it cannot be read.
SENT: TypeAdapter[OpenApiDocument | str] = TypeAdapter(
    OpenApiDocument | str, config=ConfigDict(defer_build=True)
)


def read_file(path: str) -> bytes:
    """Return the content of a file, truncated just past the size limit."""
    with Path(path).open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


def described_by(
    name: str, settings: RestServiceSettings, content: bytes
) -> tuple[str, OpenApiDocument]:
    """Return the base URL of a service, and its document as far as the configuration uses it.

    This parses the content here: `read_apart` is for content from elsewhere.

    Raises:
        ConfigError: The document cannot be read, or used.
    """
    return _fitted(name, settings, read(name, parsed(name, content), settings.operations))


async def read_apart(
    name: str, settings: RestServiceSettings, content: bytes
) -> tuple[str, OpenApiDocument]:
    """Return the same as `described_by`, from a process of its own.

    Parsing a large document in this process would keep the event loop waiting, and a hostile one
    could take all memory.

    Raises:
        ConfigError: The document cannot be read, or used.
    """
    head = json.dumps({"service": name, "wanted": settings.operations}).encode()
    try:
        out = await run_isolated(
            _SCRIPT,
            given=(head, b"\n", content),
            seconds=SECONDS,
            megabytes=MEGABYTES,
            cpu_seconds=CPU_SECONDS,
        )
    except (TimeoutError, ChildProcessError):
        raise ConfigError(
            f"The document of the REST service {name} takes more time or memory than I may use. "
            "Cut it down to the operations that you need; JSON is read faster than YAML."
        ) from None
    document = await asyncio.to_thread(SENT.validate_json, out)
    if isinstance(document, str):
        raise ConfigError(document)
    return _fitted(name, settings, document)


def _fitted(
    name: str, settings: RestServiceSettings, document: OpenApiDocument
) -> tuple[str, OpenApiDocument]:
    """Return the base URL, and the document with all names that denote nothing."""
    base = settings.base or base_of(name, settings.document or "", document.servers)
    unknown = {*document.unknown, *settings.runs, *settings.confirm} - set(settings.requests)
    taken = {key for each in document.operations for key in (each.id, each.address)}
    return base, replace(document, unknown=tuple(sorted(unknown - taken)))


def base_of(service: str, source: str, servers: tuple[str, ...]) -> str:
    """Return the base URL from the document, if the document may determine it.

    A document of an address speaks for its own origin alone, and a file for public hosts.

    Raises:
        ConfigError: The document names no server, or one that it may not determine.
    """
    remote = is_remote(source)
    found = servers[0] if servers else ("/" if remote else "")
    setting = f"set `rest.services.{service}.base`"
    try:
        base = urljoin(source, found) if remote else found
        parts, own = urlsplit(base), urlsplit(source)
    except ValueError:
        base, parts, own = "", urlsplit(""), urlsplit("")
    same = (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or "{" in base
        or set(base) & set("\\ ")
        or not base.isprintable()
        or parts.username is not None
        or (remote and not same)
    ):
        raise ConfigError(f"Nothing says where the REST service {service} is: {setting}.")
    if not remote and _is_internal(parts.hostname):
        raise ConfigError(
            f"The document of the REST service {service} says that it is at "
            f"{one_line(parts.hostname, 100)}, inside of your network. If that is right, {setting}."
        )
    return base.partition("?")[0].partition("#")[0]


def is_remote(source: str) -> bool:
    """Return True if a document is at an address, and no file."""
    return source.startswith(("http://", "https://"))


def _is_internal(host: str) -> bool:
    """Return True for an address that is not public, and for a name of this machine."""
    try:
        return not is_public(ip_address(host))
    except ValueError:
        name = host.rstrip(".").lower()
        return name == "localhost" or name.endswith((".localhost", ".internal", ".local"))
