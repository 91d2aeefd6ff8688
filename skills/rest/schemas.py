"""Converts schemas of OpenAPI documents to JSON Schemas without references (pure)."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from bot.agent.plain import clean
from bot.agent.sanitizer import one_line
from bot.values import Json

#: Most characters of the schema of an operation.
MOST_SCHEMA_CHARACTERS = 24_000
#: Most nested references and schemas that are followed; deeper schemas accept anything. The smaller
#: limits are for operations whose schema is too long with the ones before.
DEPTHS = (8, 5, 3, 2)
#: Most references that lead to another reference.
MOST_HOPS = 8

_BY_NAME = frozenset(("properties", "patternProperties", "$defs", "definitions"))
_SINGLE = frozenset(("items", "additionalProperties", "not"))
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_DROPPED = frozenset(
    (
        *("discriminator", "xml", "example", "examples", "externalDocs", "deprecated"),
        *("readOnly", "writeOnly", "$schema", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef"),
        *("$recursiveRef", "$recursiveAnchor", "$vocabulary", "$comment"),
        # Conditions: the service checks them, and their references are not followed.
        *("if", "then", "else", "contains", "propertyNames", "dependentSchemas", "dependencies"),
        *("unevaluatedItems", "unevaluatedProperties", "additionalItems", "contentSchema"),
    )
)


class SchemaTooLongError(ValueError):
    """The schema of an operation has more characters than tools may have."""

    def __init__(self) -> None:
        super().__init__(f"its schema has more than {MOST_SCHEMA_CHARACTERS:,} characters")


class SchemaReader:
    """Reads the schemas of a document.

    Args:
        tree: The document.
        old: Whether the schemas are those of OpenAPI 3.0.
    """

    def __init__(self, tree: Json, *, old: bool) -> None:
        self._tree = tree
        self.old = old
        self._deepest = DEPTHS[0]
        self._room = 0
        self._cuts = 0

    def begin(self, deepest: int) -> None:
        """Begin an operation, whose schemas are followed to a depth."""
        self._deepest = deepest
        # Each schema takes two characters at least: `{}`.
        self._room = MOST_SCHEMA_CHARACTERS // 2

    def resolved(self, value: object, hops: int = 0) -> Json:
        """Return the target of a reference; only within the document.

        Raises:
            ValueError: It is no object, or the reference leads nowhere; the text continues a
                sentence.
        """
        if not isinstance(value, dict):
            raise ValueError("something in it is not what OpenAPI wants there")  # noqa: TRY004
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return value
        shown = one_line(reference, 200)
        if not reference.startswith("#/"):
            raise ValueError(f"{shown} refers to another document")
        if hops > MOST_HOPS:
            raise ValueError(f"{shown} refers to itself")
        found: Any = self._tree
        for part in reference.removeprefix("#/").split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                index = int(key) if key.isascii() and key.isdecimal() and len(key) < 9 else -1
                found = found[index] if 0 <= index < len(found) else None
            else:
                found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            raise ValueError(f"{shown} stands for nothing")
        return self.resolved(found, hops + 1)

    def schema(self, value: object, depth: int = 0) -> Json:
        """Return a JSON Schema without references, in the 2020-12 dialect.

        Raises:
            SchemaTooLongError: The schema has too many parts.
            ValueError: A reference leads nowhere.
        """
        if not isinstance(value, dict):
            return {}
        self._room -= 1
        if self._room < 0:
            raise SchemaTooLongError
        if depth > self._deepest:
            self._cuts += 1
            return {}
        made: Json = {}
        for key, part in self.resolved(value).items():
            if key in _DROPPED or key.startswith("x-"):
                continue
            cuts = self._cuts
            if key in _BY_NAME and isinstance(part, dict):
                made[key] = {str(k): self.schema(each, depth + 1) for k, each in part.items()}
            elif key in _SINGLE and isinstance(part, dict):
                made[key] = self.schema(part, depth + 1)
            elif key in _LISTS and isinstance(part, list):
                made[key] = [self.schema(each, depth + 1) for each in part]
            else:
                made[key] = clean(part) if isinstance(part, str) else part
            # A schema that was cut accepts more than the original, so these would refuse too much.
            if self._cuts > cuts and key in ("not", "oneOf"):
                branches = made.pop(key)
                if key == "oneOf" and "anyOf" not in value:
                    made["anyOf"] = branches
        if self.old:
            _modernize(made)
        return made


def _modernize(schema: Json) -> None:
    """Convert the keywords of OpenAPI 3.0 to JSON Schema, in place."""
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(bound), bool):
            strict = schema.pop(bound)
            if strict and limit in schema:
                schema[bound] = schema.pop(limit)
    if schema.pop("nullable", False) and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]


def properties_of(schema: Mapping[str, Any], depth: int = 0) -> dict[str, Json]:
    """Return the properties of a converted schema, with those of the schemas that it combines."""
    found: dict[str, Json] = {}
    combined = schema.get("allOf")
    if depth < DEPTHS[0] and isinstance(combined, list):
        for each in combined:
            if isinstance(each, dict):
                found |= properties_of(each, depth + 1)
    own = schema.get("properties")
    return found | (own if isinstance(own, dict) else {})
