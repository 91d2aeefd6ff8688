"""Reads Markdown files with YAML front matter; typed readers for its fields name the field."""

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from bot.agent.permissions import PermissionRules, read_rules
from bot.catalog.schemas import check_schema
from bot.catalog.tool_names import ours, pattern_in
from bot.errors import BadRequestError, ConfigError
from bot.values import Json

#: Largest file; an agent's prompt or a skill has a few pages.
MOST_BYTES = 256 * 1024
#: Deepest nesting of lists and mappings.
MOST_NESTED = 20
#: The fast C loader, if PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FENCE = "---"
#: Highest accepted number of requests to a model. No work takes more, so more is a mistake.
MOST_TURNS = 10_000
EFFORTS = ("low", "medium", "high", "xhigh", "max")

_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
#: A comma that separates names: one inside brackets is part of a tool's pattern.
_COMMA = re.compile(r",(?![^()]*\))")
_WHOLE = re.compile(r"[0-9]{1,9}")
#: Exceptions raised by malformed YAML. PyYAML passes on Python's own errors, such as those about
#: `2026-13-45` or `!!bool perhaps`.
_NO_YAML = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError)

Value = TypeVar("Value")
Default = TypeVar("Default")


class NoDefinitionError(ConfigError):
    """A file has no front matter, or no name in it: it can be a document of another kind."""


def read_parts(path: Path, label: str) -> tuple[Json, str]:
    """Return the front matter and the body of a file.

    Args:
        path: The file.
        label: Its name in messages.

    Raises:
        ConfigError: The file cannot be read, is too large, or has no valid front matter; the text
            names the file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{label} cannot be read: {error.strerror}.") from None
    return parts_in(label, content)


def parts_in(name: str, content: bytes) -> tuple[Json, str]:
    """Return the front matter and the body of a file's content (pure).

    Raises:
        ConfigError: It is too large, or has no valid front matter; the text names the file.
    """
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{name} is larger than {MOST_BYTES // 1024} KB.")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{name} is no UTF-8 text.") from None
    lines = text.split("\n")
    fences = (at for at, line in enumerate(lines) if at and line.rstrip() == _FENCE)
    end = next(fences, 0) if lines[0].rstrip() == _FENCE else 0
    if not end:
        raise NoDefinitionError(f"{name} must begin with front matter between two lines `---`.")
    head = "\n".join(lines[1:end])
    try:
        found = _loaded(name, head)
    except _NO_YAML as error:
        found = _loosely(name, head)
        if found is None:
            raise ConfigError(f"{name}: the front matter is no YAML: {error}.") from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ConfigError(f"{name}: the front matter must be `key: value` lines.")
    # JSON holds no dates and no bytes, which YAML creates.
    values = {
        key: str(value) if isinstance(value, datetime.date | bytes) else value
        for key, value in found.items()
    }
    return values, "\n".join(lines[end + 1 :]).strip()


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
    entries: list[str] = []
    for line in head.split("\n"):
        if entries and (not line or line[0].isspace() or line.startswith(("- ", "<"))):
            entries[-1] += f"\n{line}"
        elif line and not line.startswith("#"):
            entries.append(line)
    found: Json = {}
    for entry in entries:
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


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Reads the values of a file's front matter.

    Each reader raises `ConfigError` for an unusable value; the text names the file and the key.

    Attributes:
        label: The name of the file in messages.
        warnings: Receives a sentence for each value that is ignored or replaced.
    """

    label: str
    values: Json
    warnings: list[str]

    def lenient(
        self, key: str, read: Callable[[str], Value], instead: str, *, default: Default
    ) -> Value | Default:
        """Return the value that `read` finds; add a warning and return `default` if it fails."""
        try:
            return read(key)
        except ConfigError as error:
            self.warnings.append(f"{str(error).rstrip('.')}; {instead} instead.")
            return default

    def text(self, key: str, *, needed: bool = False) -> str:
        """Return a text; empty if the key is missing."""
        value = self.values.get(key)
        if value is None and not needed:
            return ""
        unusable = isinstance(value, bool) or not isinstance(value, str | int | float)
        if needed and (unusable or not str(value).strip()):
            raise self.wrong(f"`{key}` is missing in the front matter")
        if unusable or value == "":
            raise self.wrong(f"`{key}` must be text")
        return str(value).strip()

    def name(self) -> str:
        """Return the name in small letters.

        Raises:
            NoDefinitionError: There is no key `name`.
        """
        if "name" not in self.values:
            raise NoDefinitionError(f"{self.label}: `name` is missing in the front matter.")
        return self.text("name", needed=True).lower()

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        """Return one of the known words; empty if the key is missing."""
        value = self.text(key)
        if value and value not in known:
            raise self.wrong(f"`{key}` must be one of {', '.join(known)}")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """Return the names in a list or in a comma-separated text; none if the key is missing."""
        value = self.values.get(key)
        if value is None:
            return ()
        if isinstance(value, str):
            value = _COMMA.split(value)
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.wrong(f"`{key}` must be a list of names, `[]` for none")
        return tuple(name.strip() for name in value if name.strip())

    def servers(self, key: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the servers that are referenced by name, and those defined in the file itself."""
        value = self.values.get(key)
        if isinstance(value, dict):
            return (), tuple(map(str, value))
        if not isinstance(value, list):
            return self.names(key), ()
        brought = [str(name) for each in value if isinstance(each, dict) for name in each]
        named = [each for each in value if not isinstance(each, dict)]
        return replace(self, values={key: named}).names(key), tuple(brought)

    def tools(self, key: str) -> tuple[str, ...]:
        """Return the tools in a list under our names."""
        names = self.names(key)
        for name in names:
            if pattern_in(name):
                self.warn(f"the pattern in `{name}` says nothing here; see `permissions`")
        return tuple(dict.fromkeys(ours(name) for name in names))

    def number(self, key: str) -> float | None:
        """Return a number above 0; `None` if the key is missing."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise self.wrong(f"`{key}` must be a number above 0")
        return value

    def whole(self, key: str) -> int | None:
        """Return a whole number above 0; `None` if the key is missing."""
        number = self.number(key)
        if number is not None and not isinstance(number, int):
            raise self.wrong(f"`{key}` must be a whole number")
        return number

    def count(self, key: str) -> int | None:
        """Return a whole number from 1 to `MOST_TURNS`, written as a number or as text."""
        value = self.values.get(key)
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        number = replace(self, values={key: value}).whole(key)
        if number is not None and number > MOST_TURNS:
            raise self.wrong(f"`{key}` must be {MOST_TURNS:,} at most")
        return number

    def switch(self, key: str) -> bool:
        """Return a boolean in any of the usual spellings; False if the key is missing."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        meant = _SWITCH.get(value.strip().lower()) if isinstance(value, str) else None
        if meant is None:
            raise self.wrong(f"`{key}` must be true or false")
        return meant

    def rules(self, key: str) -> PermissionRules:
        """Return permission rules, with tools under our names."""
        try:
            found = read_rules(self.values.get(key))
        except BadRequestError as error:
            raise self.wrong(str(error)) from None
        return PermissionRules(tuple(replace(rule, tool=ours(rule.tool)) for rule in found.rules))

    def schema(self, key: str) -> Json | None:
        """Return the JSON Schema of an object; `None` if the key is missing."""
        value = self.values.get(key)
        if value is None:
            return None
        try:
            return check_schema(value)
        except BadRequestError as error:
            raise self.wrong(f"`{key}` {error}") from None

    def warn(self, what: str) -> None:
        """Add a warning about a value that is ignored or replaced."""
        self.warnings.append(f"{self.label}: {what}.")

    def wrong(self, what: str) -> ConfigError:
        """Return the error for an unusable value."""
        return ConfigError(f"{self.label}: {what.rstrip('.')}.")
