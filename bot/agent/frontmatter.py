"""Markdown files that begin with YAML: agents and Agent Skills (pure, but for reading)."""

import datetime
from pathlib import Path
from typing import Any

import yaml

from bot.errors import ConfigError
from bot.values import Json

#: An agent's prompt or a skill is a few pages.
MOST_BYTES = 256 * 1024
#: Deepest nesting of lists and mappings.
MOST_NESTED = 20
#: The fast one, where it was built.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FENCE = "---"
#: What reading YAML raises; it lets through what Python says to `2026-13-45` or `!!bool perhaps`.
_NO_YAML = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError)


def read_parts(path: Path) -> tuple[Json, str]:
    """Return the head of a file, and what follows it.

    Raises:
        ConfigError: The file cannot be read, is too large, or does not begin with a head; the text
            names it.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read: {error.strerror}.") from None
    return parts_in(path.name, content)


def parts_in(name: str, content: bytes) -> tuple[Json, str]:
    """Return the head of a file's content, and what follows it.

    Raises:
        ConfigError: It is too large, or does not begin with a head; the text names the file.
    """
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{name} is larger than {MOST_BYTES // 1024} KB.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{name} is no UTF-8 text.") from None
    head, body = _split(name, text.replace("\r\n", "\n"))
    return _mapping(name, head), body.strip()


def _split(name: str, text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if lines and lines[0].rstrip() == _FENCE:
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip() == _FENCE:
                return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    raise ConfigError(f"{name} must begin with front matter between two lines `---`.")


def _mapping(name: str, head: str) -> Json:
    try:
        found = _loaded(name, head)
    except _NO_YAML as error:
        found = _loosely(name, head)
        if found is None:
            raise ConfigError(f"{name}: the front matter is no YAML: {error}.") from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ConfigError(f"{name}: the front matter must be `key: value` lines.")
    return {key: _plain(value) for key, value in found.items()}


def _loaded(name: str, text: str) -> Any:
    depth = 0
    # As events arrive: reading all of ten thousand open brackets takes the parser 16 seconds.
    for event in yaml.parse(text, Loader=_LOADER):
        # Aliases could make a small file a huge one; nobody needs them here.
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"{name}: aliases (`*name`) are not read in front matter.")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_NESTED:
            raise ConfigError(f"{name}: the front matter is nested too deeply.")
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - both are safe ones


def _loosely(name: str, head: str) -> Json | None:
    """Return `key: value` lines whose values are texts that YAML stumbles over.

    Many agents have descriptions such as `Use it when: …`, unquoted, and are read elsewhere.
    """
    found: Json = {}
    for entry in _entries(head):
        key, colon, value = entry.partition(":")
        if not colon or not key.replace("_", "").replace("-", "").isalnum():
            return None
        try:
            found[key] = _loaded(name, f"value:{value}")["value"]
        except _NO_YAML:
            if value.strip()[:1] in {"[", "{", "|", ">"}:
                return None
            found[key] = value.strip()
    return found


def _entries(head: str) -> list[str]:
    """Return each key with its value: the lines that are indented, items, or tags belong to it."""
    entries: list[str] = []
    for line in head.split("\n"):
        if entries and (not line or line[0].isspace() or line.startswith(("- ", "<"))):
            entries[-1] += f"\n{line}"
        elif line and not line.startswith("#"):
            entries.append(line)
    return entries


def _plain(value: object) -> object:
    """Return a value as JSON knows it: YAML makes dates of what looks like one."""
    return str(value) if isinstance(value, datetime.date | bytes) else value
