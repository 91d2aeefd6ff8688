"""The keys in which two configurations differ, and those that need a restart (pure)."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from bot import masking
from bot.agent.sanitizer import one_line
from bot.config.document import written
from bot.config.interpolation import Key
from bot.config.model import Config
from bot.config.problems import name, section
from bot.values import Settings

#: Most characters of a shown value.
MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key whose value has changed.

    Attributes:
        key: The key as admins write it: `subagents.max_depth`.
        old: The value before, as YAML; empty if it must not be shown, or there was none.
        new: The value now, likewise.
        secret: Whether the values must not be shown.
        restart: Whether the new value counts from the next start only.
    """

    key: str
    old: str
    new: str
    secret: bool
    restart: bool

    def __str__(self) -> str:
        what = "changed" if self.secret else f"{self.old or 'none'} → {self.new or 'none'}"
        return f"`{self.key}`: {what}" + (" (needs a restart)" if self.restart else "")


def restart_keys(kind: type[Settings] = Config, above: Key = ()) -> Iterator[Key]:
    """Yield the keys that are read at the start only; a section stands for all keys below it."""
    for part, field in kind.model_fields.items():
        key = (*above, part)
        if part in kind.at_start:
            yield key
        elif below := section(field):
            yield from restart_keys(below, key)


def in_force(before: Config, new: Config) -> Config:
    """Return a new configuration with the values from before of the keys that need a restart."""
    kept: Config = _kept(before, new)
    return kept


def differences(old: Config, new: Config) -> tuple[KeyChange, ...]:
    """Return all keys in which two configurations differ, in the order of the file."""
    return tuple(_between(old, new, (), restart=False))


def fingerprint(config: Config) -> str:
    """Return a short value that is the same for equal configurations; secrets do not enter it."""
    text = json.dumps(
        {
            name(key): masking.without_secrets(repr(_plain(value)))
            for key, value in _leaves(config, ())
        },
        sort_keys=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _kept(before: Any, new: Any) -> Any:
    update: dict[str, object] = {}
    for part in type(new).model_fields:
        old, value = getattr(before, part), getattr(new, part)
        if part in new.at_start:
            update[part] = old
        elif isinstance(value, Settings) and type(old) is type(value):
            update[part] = _kept(old, value)
    return new.model_copy(update=update)


def _between(old: object, new: object, key: Key, *, restart: bool) -> Iterator[KeyChange]:
    if old == new:
        return
    if isinstance(old, Settings) and isinstance(new, Settings) and type(old) is type(new):
        for part in type(old).model_fields:
            needs = restart or part in old.at_start
            yield from _between(getattr(old, part), getattr(new, part), (*key, part), restart=needs)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for part in dict.fromkeys([*old, *new]):
            yield from _between(old.get(part), new.get(part), (*key, part), restart=restart)
    else:
        secret = any(isinstance(each, SecretStr) for each in (*_flat(old), *_flat(new)))
        yield KeyChange(name(key), _text(old), _text(new), secret, restart)


def _leaves(value: object, key: Key) -> Iterator[tuple[Key, object]]:
    if isinstance(value, Settings):
        for part in type(value).model_fields:
            yield from _leaves(getattr(value, part), (*key, part))
    elif isinstance(value, Mapping):
        for part, below in value.items():
            yield from _leaves(below, (*key, str(part)))
    else:
        yield key, value


def _flat(value: object) -> Iterator[object]:
    """Yield the plain values in a value."""
    if isinstance(value, Settings | Mapping):
        for _, below in _leaves(value, ()):
            yield from _flat(below)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _text(value: object) -> str:
    """Return a value as one line of YAML without secrets; empty for none."""
    if value is None or any(isinstance(each, SecretStr) for each in _flat(value)):
        return ""
    return one_line(masking.without_secrets(written(_plain(value))), MOST_SHOWN)


def _plain(value: object) -> object:
    """Return a value in the types of YAML."""
    match value:
        case Settings():
            return value.model_dump(mode="json")
        case Mapping():
            return {str(part): _plain(below) for part, below in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case set() | frozenset():
            return sorted(map(str, value))
        case bool() | int() | float() | str() | None:
            return value
        case _:
            return str(value)
