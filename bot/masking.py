"""Masks secrets in texts: known values, and keys in the formats that their issuers document.

A match of a format needs its boundary, alphabet and length. Where a prefix is part of ordinary
words too, the key must look random: `sk-` ends `flask-` and begins `sk-estimator`.
"""

import base64
import binascii
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

MASK = "[secret]"

_RANDOM_RUN = 16
_RANDOM_LENGTH = 27
_DISORDER = re.compile("[A-Z]{2}|(?<![a-z])[a-z](?![a-z])")
_CHANGE = re.compile("(?=[A-Z][a-z0-9]|[a-z][A-Z0-9]|[0-9][A-Za-z])")
_JUMBLED_CHANGES = 10
#: A word in a compound name, such as `Your`, `Key` and `Here` in `YourKeyHere`.
_PART = re.compile("[A-Z]?[a-z]+(?<=..)|[A-Z]{2,}")
_VOWEL = re.compile("[aeiouy]", re.IGNORECASE)
_CONSONANTS = re.compile("[b-df-hj-np-tv-xz]{6}", re.IGNORECASE)

# Escapes end in a letter or digit and may directly precede a key: `%3D`, `\n`, `\x1b[0m`.
_BEGINS = (
    r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[abfnrtv0])|(?<=\\[xX][0-9A-Fa-f]{2})"
    r"|(?<=\\u[0-9A-Fa-f]{4})|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m)|(?<=\x1b\[m))"
)


def _no_words(key: str) -> bool:
    """Return True for a key with two digits or with irregular case: neither words nor a name."""
    digits = sum(map(str.isdigit, key))
    if _has_no_vowels(key):
        return True
    if digits == 1:
        inside = re.search(f"(?=[A-Za-z0-9]{{{_RANDOM_RUN},}})[A-Za-z]*[0-9][A-Za-z]", key)
        return inside is not None or _case_in_disorder(key, 2)
    return digits >= 2 or _case_in_disorder(key)


def _case_in_disorder(key: str, least: int = 3) -> bool:
    """Return True if capitals occur in groups and small letters alone, unlike `YourKeyHere`."""
    both = min(sum(map(str.isupper, key)), sum(map(str.islower, key))) >= 3
    return both and len(_DISORDER.findall(key)) >= least


def _has_no_vowels(key: str) -> bool:
    """Return True if parts of a key have no vowels, as few words do; False for `xxxxxxxx`."""
    without = [part for part in _PART.findall(key) if not _VOWEL.search(part)]
    return len(set(key)) >= 8 and (len(without) >= 2 or bool(_CONSONANTS.search(key)))


def _random(key: str) -> bool:
    """Return True for a random mix of letters and digits, most of them in one run."""
    longest = max(re.findall("[A-Za-z0-9]+", key), key=len, default="")
    if len(longest) >= _RANDOM_RUN:
        digits = sum(map(str.isdigit, longest))
        mixed = 2 <= digits <= len(longest) - 2 and len(set(longest)) >= 8
        if mixed or _case_in_disorder(longest):
            return True
    jumbled = sum(map(str.isdigit, key)) >= 2 and len(_CHANGE.findall(key)) >= _JUMBLED_CHANGES
    return len(key) >= _RANDOM_LENGTH and (_case_in_disorder(key) or jumbled)


def _discord(key: str) -> bool:
    """Return True if the first part is an account number, or the parts are no program names."""
    first, second, third = key.split(".")[:3]
    try:
        number = base64.urlsafe_b64decode(first + "=" * (-len(first) % 4))
    except binascii.Error:
        number = b""
    named = re.compile("[a-z][A-Z]|_")
    return number.isdigit() or not (
        named.search(first) and named.search(third) and second.isalpha()
    )


@dataclass(frozen=True, slots=True)
class KeyFormat:
    """One format of keys; its patterns are compiled once a text has a hint, which few have.

    Attributes:
        issuer: The issuer of the keys.
        hints: Texts of which every such key contains at least one.
        is_key: Checks the group `key` beyond the pattern.
    """

    issuer: str
    hints: tuple[str, ...]
    _expression: str
    is_key: Callable[[str], bool]

    @property
    def core(self) -> re.Pattern[str]:
        """The pattern without its left boundary, which is far quicker to search for."""
        return _compiled(self._expression)

    @property
    def pattern(self) -> re.Pattern[str]:
        """The full pattern: the prefix, and the rest in the group `key`."""
        return _compiled(_BEGINS + self._expression)


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "": lambda _: True,
    "no_words": _no_words,
    "random": _random,
    "random_or_no_words": lambda key: _random(key) or _has_no_vowels(key),
    # A short key that repeats few characters, such as `xxxxxxxx`, is no key.
    "varied": lambda key: len(key) >= 36 or len(set(key)) >= 8,
    "discord": _discord,
}


def _format(
    issuer: str, prefix: str, key: str, check: str = "", hints: Iterable[str] = ()
) -> KeyFormat:
    hints = tuple(hints) or (prefix.replace("\\", ""),)
    return KeyFormat(issuer, hints, f"{prefix}(?P<key>{key})", _CHECKS[check])


# Read at the import: without the file no process starts, instead of showing a key later.
_ROWS = tomllib.loads(Path(__file__).with_name("key_formats.toml").read_text(encoding="utf-8"))
FORMATS = tuple(_format(**row) for row in _ROWS["formats"])
#: The formats of each hint: one pass over the hints is far quicker than one over the formats.
_HINTED = {
    hint: tuple(each for each in FORMATS if hint in each.hints)
    for hint in sorted({hint for each in FORMATS for hint in each.hints})
}

#: No key of a known format is shorter.
SHORTEST_KEY = 15

_ADDRESS = re.compile(r"(?<=://)[^/\s:@]+:(?P<password>[^/\s@]+)(?=@)")
# Placeholders: `{password}`, `%s`, `$PASS`, `<secret>`, `***`.
_PLACEHOLDER = re.compile(r".*[{}<>\[\]()\"'`].*|\$\w+|%[a-z]|[*.x•…-]+")
_LEAST_PASSWORD = 8


#: A shorter sequence of lower-case letters may be a word.
_LONGEST_WORD = 13

_known: set[str] = set()


def keep_secret(values: Iterable[str]) -> None:
    """Mask these values from now on (keys from the configuration)."""
    _known.update(value for value in values if len(value) >= 6)


def secrets_known() -> int:
    """Return the number of values that are masked; it changes when a text may read otherwise."""
    return len(_known)


def without_secrets(text: str, *, prose: bool = False) -> str:
    """Return `text` with every text that looks like a key, and every known key, masked.

    Args:
        text: Any text.
        prose: Whether to leave possible words unmasked: a known password such as `retinue`, and the
            `tiger` of an example's address. Logs and errors mask these as well; masking them in
            texts of users and models would destroy the text.
    """

    def hidden(address: re.Match[str]) -> str:
        password = address["password"]
        masked = not _PLACEHOLDER.fullmatch(password) and (
            not prose or password in _known or _is_no_word(password)
        )
        return MASK if masked else address[0]

    # Addresses come first: masking a key in the user's place would prevent the match.
    if "://" in text:
        text = _ADDRESS.sub(hidden, text)
    # The longest first: a key may be the beginning of another.
    for value in sorted(_known, key=len, reverse=True):
        is_word = len(value) < _LONGEST_WORD and value.isalpha() and value[1:].islower()
        if not (prose and is_word):
            text = text.replace(value, MASK)
    return without_keys(text)


def _is_no_word(password: str) -> bool:
    """Return True for a password that no example would use: `hunter2hunter2`, but not `tiger`."""
    characters = unquote(password)
    if len(password) < _LEAST_PASSWORD or not any(map(str.isalpha, characters)):
        return False
    return any(map(str.isdigit, characters)) or len(re.findall("[a-z][A-Z]", password)) >= 2


def without_keys(text: str) -> str:
    """Return `text` with every key of a known format masked, and nothing else changed.

    All formats are searched in the original text, since a part of one key may look like another.
    """
    if len(text) < SHORTEST_KEY:
        return text
    hints = [hint for hint in _HINTED if hint in text]
    found = sorted(
        match.span()
        for hint in hints
        for each in _HINTED[hint]
        if each.core.search(text)
        for match in each.pattern.finditer(text)
        if each.is_key(match["key"])
    )
    if not found:
        return text
    parts, end = [], 0
    for start, stop in found:
        if start >= end:
            parts += [text[end:start], MASK]
        end = max(end, stop)
    return "".join(parts) + text[end:]


def masked(value: Any) -> Any:
    """Return a document of texts, lists and mappings with the secrets in its texts masked."""
    # One search for all texts. No key contains the character between them or depends on it; the
    # password of an address may contain it, which costs a search of each text, and nothing else.
    whole = "\0".join(_texts(value))
    return value if without_secrets(whole) == whole else _masked(value)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)


def _masked(value: Any) -> Any:
    match value:
        case str():
            return without_secrets(value)
        case dict():
            return {key: _masked(item) for key, item in value.items()}
        case list() | tuple():
            return [_masked(item) for item in value]
    return value
