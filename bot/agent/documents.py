"""JSON that models and services wrote: encodable, finite and not too deep (pure)."""

import json
from math import isfinite
from typing import Any

from bot.values import Json

#: Deepest nesting of a tool call's arguments. Python's own functions give up at some hundreds.
MOST_NESTED = 50
#: Larger whole numbers fit no column and no machine.
MOST_NUMBER = 2**64


def encodable(value: Any) -> Any:
    """Return a document in which NUL and lone surrogates are U+FFFD, in keys too.

    Either ends a request, a database write or a log line.

    Raises:
        RecursionError: It is nested too deeply.
    """
    match value:
        case str():
            if value.isascii():
                return value.replace("\0", "\ufffd")
            pairs = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return pairs.replace("\0", "\ufffd")
        case dict():
            return {encodable(str(key)): encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [encodable(item) for item in value]
    return value


def arguments_in(given: object) -> Json | None:
    """Return the arguments of a tool call, or `None` if nothing can be called with them.

    That is what is no JSON object, is nested too deeply, or holds a number that is none
    (`NaN`, `1e999`): these cannot be stored, and a provider refuses to read them again.

    Args:
        given: JSON as text, or an object that was read already.
    """
    try:
        document = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not _usable(document):
        return None
    found: Json = encodable(document)
    return found


def spelled(document: object) -> str:
    """Return a document as text, whatever is in it; a text stays."""
    if isinstance(document, str):
        return document
    try:
        return json.dumps(document, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return "(nested too deeply)"


def too_deep(document: object) -> bool:
    """Return True if a document is nested more deeply than `MOST_NESTED`."""
    layer = [document]
    for _ in range(MOST_NESTED + 1):
        layer = [item for value in layer for item in _items(value)]
        if not layer:
            return False
    return True


def _usable(document: Json) -> bool:
    if too_deep(document):
        return False
    left: list[object] = [document]
    while left:
        match left.pop():
            case bool():
                continue
            case int() as number if abs(number) >= MOST_NUMBER:
                return False
            case float() as number if not isfinite(number):
                return False
            case value:
                left += _items(value)
    return True


def _items(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
