"""JSON Schemas of tools in the fewest words, since every request to a model carries them (pure)."""

import json
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from bot.values import Json

#: Bounds that no model comes near, and those that go without saying.
_MOST, _LEAST = 1000, 1
_UPPER = frozenset({"maximum", "exclusiveMaximum"})
_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')
_LOWER = frozenset({"minimum", "minLength"})


def brief(schema: Json) -> Json:
    """Return a schema that pydantic made without what no model needs.

    What goes: titles, empty defaults, that an argument may be null as well as left out, that no
    others are allowed (a call with others is answered with a sentence), and definitions used by
    reference. What stays: types, descriptions, choices, and bounds that mean something. A schema
    that refers to itself stays as it is.
    """
    definitions: Json = schema.get("$defs", {})
    if _in_a_circle(definitions):
        return schema
    found = _brief(schema, definitions)
    found.setdefault("properties", {})
    return found


def _in_a_circle(definitions: Json) -> bool:
    refers = {name: set(_REFERENCE.findall(json.dumps(each))) for name, each in definitions.items()}
    try:
        TopologicalSorter(refers).prepare()
    except CycleError:
        return True
    return False


def _brief(schema: Json, definitions: Json) -> Json:
    merged = _merged(schema, definitions)
    return {
        key: _below(key, value, definitions)
        for key, value in merged.items()
        if not _is_noise(key, value)
    }


def _merged(schema: Json, definitions: Json) -> Json:
    """Return a schema with what it refers to, and with its only choice, in it."""
    if target := schema.get("$ref"):
        # The docstring of a class is written for whoever reads the code.
        named = {**definitions[target.rpartition("/")[2]], "description": ""}
        return _merged({**named, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return _merged({**choices[0], **rest}, definitions)
    return schema


def _is_noise(key: str, value: object) -> bool:
    return (
        key in {"title", "$defs"}
        or (key == "additionalProperties" and value is False)
        or (key == "description" and not value)
        or (key == "default" and (value is None or value is False or value == ""))
        or (key in _UPPER and isinstance(value, int) and value >= _MOST)
        or (key in _LOWER and isinstance(value, int) and 0 <= value <= _LEAST)
    )


def _below(key: str, value: object, definitions: Json) -> object:
    # The keys of `properties` are names of arguments, of which one may be called `title`.
    if key == "properties" and isinstance(value, Mapping):
        return {name: _brief(part, definitions) for name, part in value.items()}
    if key in {"items", "additionalProperties"} and isinstance(value, dict):
        return _brief(value, definitions)
    if key in {"anyOf", "prefixItems"} and isinstance(value, list):
        return [_brief(each, definitions) for each in value]
    return value
