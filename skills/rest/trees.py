"""Parses JSON and YAML documents of strangers into trees, in bounded time and memory (pure)."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from bot.errors import ConfigError

MOST_BYTES = 20 * 1024 * 1024
DEEPEST = 100
#: Most values of a document, with each alias counted as all that it stands for.
MOST_VALUES = 8_000_000
_TAG = "tag:yaml.org,2002:"
#: Tags of texts.
_TEXTS = frozenset(("!", f"{_TAG}str"))
_MERGE = "<<"

#: The fast parser, where it was built.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnfitError(Exception):
    """A YAML document that is not read; the text continues a sentence about it."""


def parsed(service: str, content: bytes) -> object:
    """Parse JSON or YAML.

    Raises:
        ConfigError: The document is too large, or neither JSON nor YAML.
    """
    complaint = f"The document of the REST service {service} is neither JSON nor YAML"
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{complaint} of at most {MOST_BYTES // 1024**2} MB.")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, RecursionError):
        raise ConfigError(f"{complaint}.") from None
    except ValueError:
        pass
    try:
        return _YamlBuilder().build(yaml.parse(content, Loader=_LOADER))
    except UnfitError as error:
        raise ConfigError(f"{complaint} that can be read: {error}.") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        raise ConfigError(f"{complaint}.") from None


@dataclass(slots=True)
class _Open:
    """A list or an object that is being built.

    Attributes:
        value: What it holds so far.
        anchor: Its name for aliases, if it has one.
        first: The number of the first value in it.
        merged: The objects whose keys it takes over.
    """

    value: dict[str, Any] | list[Any]
    anchor: str | None
    first: int
    key: str | None = None
    merged: tuple[dict[str, Any], ...] = ()

    @property
    def awaits_key(self) -> bool:
        """True if the next value is the key of an object."""
        return self.key is None and isinstance(self.value, dict)

    def put(self, value: Any) -> None:
        """Add a key or a value."""
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is None:
            if not isinstance(value, str):
                raise UnfitError("a key of an object in it is no text")
            self.key = value
        else:
            if self.key == _MERGE and isinstance(value, dict | list):
                listed = value if isinstance(value, list) else [value]
                self.merged += tuple(each for each in listed if isinstance(each, dict))
            else:
                self.value[self.key] = value
            self.key = None

    @property
    def finished(self) -> dict[str, Any] | list[Any]:
        """The value, with the keys that it takes over from others."""
        if isinstance(self.value, dict):
            for each in self.merged:
                for key, value in each.items():
                    self.value.setdefault(key, value)
        return self.value


class _YamlBuilder:
    """Builds the tree of a YAML document from its events.

    A loader would keep a node for each value, which takes twenty times the memory.
    """

    def __init__(self) -> None:
        self._scalars = yaml.SafeLoader("")
        self._resolve: Callable[..., str] = self._scalars.resolve
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._found: list[Any] = []

    def build(self, events: Iterable[yaml.Event]) -> object:
        """Return the tree.

        Raises:
            UnfitError: It is too large, too deep, or has values of other kinds than JSON.
        """
        for event in events:
            match event:
                case yaml.AliasEvent():
                    self._alias(event.anchor or "")
                case yaml.ScalarEvent():
                    self._count_up(1)
                    self._done(self._scalar(event), event.anchor, 1)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._begin(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    opened = self._open.pop()
                    self._done(opened.finished, opened.anchor, self._count - opened.first)
        if len(self._found) != 1:
            raise UnfitError("it holds none or several of them")
        return self._found[0]

    def _begin(self, event: "yaml.MappingStartEvent | yaml.SequenceStartEvent") -> None:
        if len(self._open) >= DEEPEST:
            raise UnfitError("it is nested too deeply")
        is_map = isinstance(event, yaml.MappingStartEvent)
        kind = f"{_TAG}{'map' if is_map else 'seq'}"
        if (event.tag or kind) not in (kind, "!"):
            raise UnfitError("it has values of other kinds than JSON")
        self._open.append(_Open({} if is_map else [], event.anchor, self._count))
        self._count_up(1)

    def _alias(self, anchor: str) -> None:
        if anchor not in self._anchors:
            raise UnfitError(f"its alias `{anchor[:40]}` stands for nothing, or for itself")
        value, count = self._anchors[anchor]
        self._count_up(count)
        self._done(value, None, count)

    def _count_up(self, count: int) -> None:
        self._count += count
        if self._count > MOST_VALUES:
            raise UnfitError(
                f"it has more than {MOST_VALUES:,} values, with its aliases written out"
            )

    def _done(self, value: Any, anchor: str | None, count: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, count)
        if self._open:
            self._open[-1].put(value)
        else:
            self._found.append(value)

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text: str = event.value
        if event.tag in _TEXTS or (self._open and self._open[-1].awaits_key):
            return text
        tag: str = event.tag or self._resolve(yaml.ScalarNode, text, event.implicit)
        node = yaml.ScalarNode(tag, text)
        match tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return self._scalars.construct_yaml_bool(node)
            # A number of YAML 1.1 may have colons, like a time of day; in JSON that is a text.
            case "int" if ":" not in text:
                return self._scalars.construct_yaml_int(node)
            case "float" if ":" not in text:
                return self._scalars.construct_yaml_float(node)
        if event.tag:
            raise UnfitError("it has values of other kinds than JSON")
        # Dates too: a schema has none.
        return text
