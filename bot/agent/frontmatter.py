"""Reads Markdown files with YAML front matter: agents and Agent Skills."""

import datetime
from pathlib import Path
from typing import Any

import yaml

from bot.errors import ConfigError
from bot.values import Json

#: Largest file; an agent's prompt or a skill has a few pages.
MOST_BYTES = 256 * 1024
#: Deepest nesting of lists and mappings.
MOST_NESTED = 20
#: The fast C loader, if PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FENCE = "---"
#: Exceptions raised by malformed YAML. PyYAML passes on Python's own errors, such as those about
#: `2026-13-45` or `!!bool perhaps`.
_NO_YAML = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError)


def read_parts(path: Path) -> tuple[Json, str]:
    """Return the front matter and the body of a file.

    Raises:
        ConfigError: The file cannot be read, is too large, or has no valid front matter; the text
            names the file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read: {error.strerror}.") from None
    return parts_in(path.name, content)


def parts_in(name: str, content: bytes) -> tuple[Json, str]:
    """Return the front matter and the body of a file's content (pure).

    Raises:
        ConfigError: It is too large, or has no valid front matter; the text names the file.
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
    # Check each event as it arrives: parsing all of ten thousand open brackets takes 16 seconds.
    for event in yaml.parse(text, Loader=_LOADER):
        # Aliases could expand a small file into a huge document, and have no use here.
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"{name}: aliases (`*name`) are not read in front matter.")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_NESTED:
            raise ConfigError(f"{name}: the front matter is nested too deeply.")
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - both are safe ones


def _loosely(name: str, head: str) -> Json | None:
    """Return the values of `key: value` lines that are no YAML; `None` for any other text.

    Many agents have unquoted descriptions such as `Use it when: …`, which other programs accept.
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
    """Return each key with its value, which indented lines, list items and tags continue."""
    entries: list[str] = []
    for line in head.split("\n"):
        if entries and (not line or line[0].isspace() or line.startswith(("- ", "<"))):
            entries[-1] += f"\n{line}"
        elif line and not line.startswith("#"):
            entries.append(line)
    return entries


def _plain(value: object) -> object:
    """Return a value that JSON can hold: a date or bytes, which YAML creates, become text."""
    return str(value) if isinstance(value, datetime.date | bytes) else value
