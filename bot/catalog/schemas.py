"""Checks schemas, names and arguments of tools, and turns input into a task (pure)."""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache

from bot.agent.sanitizer import one_line
from bot.errors import BadRequestError, ToolError
from bot.values import Json

_TYPES = frozenset({"string", "integer", "number", "boolean", "array"})
MOST_FIELDS = 20
#: Longest tool name that every model provider accepts.
MOST_NAME_CHARACTERS = 64
_HASH_CHARACTERS = 8
_ODD = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(prefix: str, raw_name: str) -> str:
    """Return a prefix and a foreign name as the name of a tool: at most 64 plain characters.

    Where the foreign name does not fit, a hash of it keeps names unique.
    """
    name = prefix + _ODD.sub("_", raw_name)
    if name == prefix + raw_name and len(name) <= MOST_NAME_CHARACTERS:
        return name
    digest = hashlib.sha256(raw_name.encode("utf-8", "surrogatepass")).hexdigest()
    room = MOST_NAME_CHARACTERS - _HASH_CHARACTERS - 1
    return f"{name[:room]}_{digest[:_HASH_CHARACTERS]}"


def check_foreign_schema(schema: Json, *, most: int) -> None:
    """Check that a schema is a valid JSON Schema of the 2020-12 dialect, and not too long.

    Args:
        schema: The schema.
        most: Most characters of the schema as JSON.

    Raises:
        ValueError: It is broken or too long; the text continues a sentence about its tool.
    """
    try:
        # Its bounds and examples are sent to the provider, which rejects `1e999`.
        written = json.dumps(schema, allow_nan=False)
    except ValueError:
        raise ValueError("its schema holds a number that JSON does not have") from None
    if len(written) > most:
        raise ValueError(f"its schema has more than {most:,} characters")
    # Imported here: it takes 0.2 s, and most bots have no foreign schemas.
    from jsonschema import Draft7Validator  # noqa: PLC0415
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    check = Draft7Validator(_metaschema(), format_checker=Draft7Validator.FORMAT_CHECKER)
    error = best_match(check.iter_errors(schema))
    if error is not None:
        raise ValueError(f"its schema is broken ({one_line(error.message)})")


@cache
def _metaschema() -> Json:
    """Return a schema of the schemas of the 2020-12 dialect.

    The official one is split into vocabularies, and a check against it takes six times as long. It
    differs from that of draft 7 in these keywords.
    """
    from jsonschema import Draft7Validator  # noqa: PLC0415

    found: Json = dict(Draft7Validator.META_SCHEMA)
    one, by_name = {"$ref": "#"}, {"type": "object", "additionalProperties": {"$ref": "#"}}
    count, text = {"type": "integer", "minimum": 0}, {"type": "string"}
    properties = {key: each for key, each in found["properties"].items() if key != "dependencies"}
    found["properties"] = properties | {
        **dict.fromkeys(("items", "unevaluatedItems", "unevaluatedProperties"), one),
        **dict.fromkeys(("$defs", "dependentSchemas"), by_name),
        **dict.fromkeys(("minContains", "maxContains"), count),
        **dict.fromkeys(("$anchor", "$dynamicAnchor", "$dynamicRef"), text),
        "contentSchema": one,
        "enum": {"type": "array"},
        "deprecated": {"type": "boolean"},
        "prefixItems": {"$ref": "#/definitions/schemaArray"},
        "dependentRequired": {
            "type": "object",
            "additionalProperties": {"$ref": "#/definitions/stringArray"},
        },
    }
    return found


def check_schema(given: object) -> Json:
    """Return the given JSON Schema of an object with simple fields, checked.

    Raises:
        BadRequestError: The schema has another form; the text continues a sentence that names it.
    """
    if not isinstance(given, Mapping) or given.get("type", "object") != "object":
        raise BadRequestError("must be a JSON Schema of an object")
    properties = given.get("properties")
    if not isinstance(properties, Mapping) or not 1 <= len(properties) <= MOST_FIELDS:
        raise BadRequestError(f"must have `properties`, from 1 to {MOST_FIELDS}")
    for name, field in properties.items():
        if not str(name).isidentifier():
            shown = one_line(str(name), 40)
            raise BadRequestError(f"has a property {shown!r}, which is no simple name")
        if not isinstance(field, Mapping) or field.get("type") not in _TYPES:
            raise BadRequestError(
                f"must say of the property {str(name)!r} that its `type` is one of "
                f"{', '.join(sorted(_TYPES))}"
            )
    required = given.get("required", [])
    if not isinstance(required, list) or not set(map(str, required)) <= set(properties):
        raise BadRequestError("names in `required` what is not in `properties`")
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError):
        raise BadRequestError("must be plain JSON") from None
    return {**given, "type": "object", "additionalProperties": False}


def check_arguments(name: str, schema: Json, given: Json) -> None:
    """Check the names and the types of a call's arguments.

    Nested values are unchecked, and regular expressions of third-party schemas are never run.

    Raises:
        ToolError: The arguments are wrong; the text lists the errors.
    """
    if problems := _problems(schema, given):
        told = "; ".join(problems[:MOST_FIELDS])
        raise ToolError(f"{name} was not called: {told}. Correct the arguments and call it again.")


def _problems(schema: Json, given: Json) -> list[str]:
    properties = schema.get("properties", {})
    problems = [f"`{key}` is required" for key in schema.get("required", []) if key not in given]
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        unknown = [key for key in given if key not in properties]
        problems += [f"`{one_line(key, 40)}` is not an argument" for key in unknown]
    for key, value in given.items():
        field = properties.get(key)
        kinds = field.get("type") if isinstance(field, Mapping) else None
        names = [kinds] if isinstance(kinds, str) else kinds
        if isinstance(names, list) and names and not any(_is(value, kind) for kind in names):
            problems.append(f"`{key}` must be of the type {' or '.join(map(str, names))}")
    return problems


def _is(value: object, kind: object) -> bool:
    if kind == "null":
        return value is None
    if kind in {"integer", "number"}:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        fits = whole if kind == "integer" else isinstance(value, int | float)
        return fits and not isinstance(value, bool)
    known = {"string": str, "boolean": bool, "array": list, "object": dict}.get(str(kind))
    return known is None or isinstance(value, known)


def task_of(schema: Json, given: Json) -> str:
    """Return a structured input as a task: one line per field, in the order of the schema.

    Raises:
        BadRequestError: A field is missing, unknown or has a wrong value; the text names it.
    """
    properties: Json = schema["properties"]
    defaults = {name: field["default"] for name, field in properties.items() if "default" in field}
    values = {
        name: value
        for name, value in (defaults | given).items()
        if name not in properties or value not in (None, "")
    }
    if problems := _problems(schema, values):
        raise BadRequestError(f"{problems[0]}.")
    lines = []
    for name, field in properties.items():
        if name not in values:
            continue
        value = values[name]
        if "enum" in field and value not in field["enum"]:
            known = ", ".join(str(each) for each in field["enum"])
            raise BadRequestError(f"`{name}` must be one of {known}.")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name}: {text}")
    return "\n".join(lines)
