"""Validates JSON from models and services: encodable, finite and not too deep (pure)."""

import json
from math import isfinite
from typing import Any

from bot.values import Json

#: Deepest nesting of a tool call's arguments. Python's own functions fail at some hundred levels.
MOST_NESTED = 50
#: Whole numbers from here on fit no database column and no machine word.
MOST_NUMBER = 2**64


def encodable(value: Any) -> Any:
    """Return a document with NUL and lone surrogates replaced by U+FFFD, in keys too.

    Either of them makes a request, a database write or a log line fail.

    Raises:
        RecursionError: The document is nested too deeply.
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
    """Return the arguments of a tool call; `None` if they are unusable.

    Arguments are unusable if they are no JSON object, are nested too deeply, or hold a number that
    is not finite (`NaN`, `1e999`) or reaches `MOST_NUMBER`. Such arguments cannot be stored, and a
    provider refuses to read them again.

    Args:
        given: JSON text, or a parsed object.
    """
    try:
        document = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or too_deep(document):
        return None
    left: list[object] = [document]
    while left:
        match left.pop():
            case bool():
                continue
            case int() as number if abs(number) >= MOST_NUMBER:
                return None
            case float() as number if not isfinite(number):
                return None
            case value:
                left += _items(value)
    found: Json = encodable(document)
    return found


def spelled(document: object) -> str:
    """Return a document as JSON text; a string is returned unchanged."""
    if isinstance(document, str):
        return document
    try:
        return json.dumps(document, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return "(nested too deeply)"


def too_deep(document: object, most: int = MOST_NESTED) -> bool:
    """Return True if a document is nested more deeply than `most`."""
    layer = [document]
    for _ in range(most + 1):
        layer = [item for value in layer for item in _items(value)]
        if not layer:
            return False
    return True


def _items(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
