"""Finds plaintext secrets in the configuration file, which every reader of the file could use."""

import re
from collections.abc import Iterator

from bot.config.interpolation import Key, Tree, written
from bot.masking import without_keys

_WORDS = frozenset(
    {"appid", "jwt", "pass", "passphrase", "pwd", "session", "sessionid", "sid", "sig", "signature"}
)
_ENDS = (
    *("auth", "authorization", "cookie", "credential", "credentials"),
    *("key", "passwd", "password", "secret", "token"),
)

#: Texts that look like a key, under any name.
_KEY = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|\b(?:sk|xox[abprs]|xapp|gh[pousr]|github_pat|glpat)[-_][a-z0-9_-]{10,}"
    r"|://[^/\s:@]*:[^/\s@]+@",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_LEAST_KEY_CHARACTERS = 20
_SCHEME = re.compile(r"\s*(?:basic|bearer|digest|token|apikey)\s+\S", re.IGNORECASE)


def found(tree: Tree, places: tuple[tuple[str, ...], ...]) -> list[Key]:
    """Return the keys at these places of the unexpanded file that hold a secret; `*` is any key."""
    return [
        key for place in places for key, text in _texts(tree, place) if is_open(str(key[-1]), text)
    ]


def anywhere(tree: Tree, above: Key = ()) -> Iterator[Key]:
    """Yield the keys of all texts that hold a key of a known format, or an address's password."""
    if isinstance(tree, str):
        literal = written(tree)[0]
        if _PASSWORD.search(literal) or without_keys(literal) != literal:
            yield above
    elif isinstance(tree, dict):
        for name, part in tree.items():
            yield from anywhere(part, (*above, name))
    elif isinstance(tree, list):
        for index, part in enumerate(tree):
            yield from anywhere(part, (*above, index))


def is_open(name: str, text: str) -> bool:
    """Return True if a text is a secret that no environment variable supplies.

    Args:
        name: The name of the header, variable or key that holds the text.
        text: The text in the file, unexpanded.
    """
    literal, filled = written(text)
    random = (
        re.search("[0-9]", word) and re.search("[A-Za-z]", word)
        for word in re.findall(r"[A-Za-z0-9_]+", literal)
        if len(word) >= _LEAST_KEY_CHARACTERS
    )
    if any(random) or _KEY.search(literal):
        return True
    if filled or not literal.strip():
        return False
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
    words = re.findall(r"[a-z0-9]+", apart)
    named = any(word in _WORDS or word.endswith(_ENDS) for word in words)
    return named or _SCHEME.match(literal) is not None


def _texts(tree: Tree, place: tuple[str, ...], above: Key = ()) -> Iterator[tuple[Key, str]]:
    if not place:
        if isinstance(tree, str):
            yield above, tree
    elif isinstance(tree, dict):
        for name in tree if place[0] == "*" else {place[0]} & tree.keys():
            yield from _texts(tree[name], place[1:], (*above, name))
