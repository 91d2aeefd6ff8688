"""Typed readers for the front matter of an agent's file; errors name the field."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from bot.agent.permissions import Rules, read_rules
from bot.agent.schemas import check_schema
from bot.agent.tool_names import ours, pattern_in
from bot.errors import BadRequestError, ConfigError
from bot.values import Json

#: Highest accepted number of requests to a model. No work takes more, so more is a mistake.
MOST_TURNS = 10_000

_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_WHOLE = re.compile(r"[0-9]{1,9}")

Value = TypeVar("Value")
Default = TypeVar("Default")


@dataclass(frozen=True, slots=True)
class Head:
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
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
            if needed:
                raise self.wrong(f"`{key}` is missing in the front matter")
            raise self.wrong(f"`{key}` must be text")
        text = str(value).strip()
        if needed and not text:
            raise self.wrong(f"`{key}` is missing in the front matter")
        return text

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        """Return one of the known words; empty if the key is missing."""
        value = self.text(key)
        if value and value not in known:
            raise self.wrong(f"`{key}` must be one of {', '.join(known)}")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """Return the names in a list or in a comma-separated text."""
        value = self.values.get(key)
        if isinstance(value, str):
            value = _outside_brackets(value)
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.wrong(f"`{key}` must be a list of names, `[]` for none")
        return tuple(name.strip() for name in value if name.strip())

    def some_names(self, key: str) -> tuple[str, ...]:
        """Return the names in an optional list."""
        return () if self.values.get(key) is None else self.names(key)

    def servers(self, key: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the servers that are referenced by name, and those defined in the file itself."""
        value = self.values.get(key)
        if isinstance(value, dict):
            return (), tuple(map(str, value))
        if not isinstance(value, list):
            return self.some_names(key), ()
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

    def rules(self, key: str) -> Rules:
        """Return permission rules, with tools under our names."""
        try:
            found = read_rules(self.values.get(key))
        except BadRequestError as error:
            raise self.wrong(str(error)) from None
        return Rules(tuple(replace(rule, tool=ours(rule.tool)) for rule in found.rules))

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


def _outside_brackets(text: str) -> list[str]:
    """Return the names in a comma-separated text; commas inside brackets do not separate."""
    names, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            names.append("")
        else:
            names[-1] += character
    return names
