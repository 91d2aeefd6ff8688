"""Reads the bodies of operations: JSON, forms, texts, and files (pure)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bot.values import Json
from skills.rest.schemas import SchemaReader, properties_of

#: What a model reads about the argument of a file.
FILE_HINT = "Path of a file in the workspace, such as notes/today.md"
#: The name of the whole body among the fields of an operation.
WHOLE = ""
_TEXTUAL = ("text/", "application/json", "application/xml", "application/x-www-form-urlencoded")
#: A media type, or all of a kind, of a body without parts.
_SENDABLE = re.compile(r"(?!multipart/|message/)[a-z0-9!#$&^_.+-]+/(\*|[a-z0-9!#$&^_.+-]+)")
_FURTHER_TEXTS = ("xml", "yaml", "ndjson", "graphql", "javascript")


class BodyKind(StrEnum):
    """The format of a body; its value is the media type."""

    JSON = "application/json"
    FORM = "application/x-www-form-urlencoded"
    MULTIPART = "multipart/form-data"
    TEXT = "text/plain"
    FILE = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """The way in which a field of a form is sent.

    Attributes:
        is_file: Its value is the path of a file in the workspace, or a list of them.
        media_types: Those that the service takes; for a field that is no file at most one, empty
            for the default.
        exploded: A list is sent as repeated fields.
        deep: An object is written as name[key], a list as name[0].
    """

    is_file: bool = False
    media_types: tuple[str, ...] = ()
    exploded: bool = True
    deep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The body of an operation.

    Attributes:
        schema: The schema of the argument.
        fields: The fields of a form that differ from the default; for a text or a file the whole
            body, with its media types.
    """

    kind: BodyKind
    schema: Json
    required: bool = False
    fields: Mapping[str, FormField] = field(default_factory=dict)


def read_body(body: Json, reader: SchemaReader) -> Body | None:
    """Return the body of an operation; `None` for an optional one that cannot be sent.

    JSON is preferred to a form, a form to one with files, and these to a text or a single file.

    Raises:
        ValueError: The body is required and cannot be sent; the text continues a sentence.
    """
    contents = body.get("content")
    kinds = contents if isinstance(contents, dict) else {}
    media = {key.partition(";")[0].strip().lower(): key for key in reversed(kinds)}
    json_like = next((each for each in media if each.endswith("+json")), "")
    required = bool(body.get("required"))
    any_key = media.get("*/*", "")
    if any_key and _is_file(reader.schema(_content(kinds, any_key).get("schema")), (), old=True):
        # Not JSON: a service that takes any file says so.
        media[BodyKind.FILE] = media.pop("*/*")
    for kind, names in (
        (BodyKind.JSON, (BodyKind.JSON, "*/*", json_like)),
        (BodyKind.FORM, (BodyKind.FORM,)),
        (BodyKind.MULTIPART, (BodyKind.MULTIPART,)),
    ):
        key = next((media[name] for name in names if name in media), None)
        if key is None:
            continue
        content = _content(kinds, key)
        schema = reader.schema(content.get("schema"))
        fields: dict[str, FormField] = {}
        if kind is not BodyKind.JSON:
            encoding = content.get("encoding")
            fields = _fields(schema, encoding if isinstance(encoding, dict) else {}, reader, kind)
        return Body(kind=kind, schema=schema, required=required, fields=fields)
    found = _whole_body(media, kinds, reader, required=required)
    if found is None and required:
        raise ValueError("the media types of its body cannot be sent")
    return found


def _whole_body(
    media: dict[str, str], kinds: Json, reader: SchemaReader, *, required: bool
) -> Body | None:
    """Return a body without parts: a text or a file; `None` for none that can be sent.

    Args:
        media: The keys of the contents by media type.
        kinds: The contents.
        reader: Reads their schemas.
        required: Whether the operation needs a body.
    """
    whole = {
        name: reader.schema(_content(kinds, key).get("schema"))
        for name, key in reversed(media.items())
        if _SENDABLE.fullmatch(name)
    }
    texts = [
        name
        for name, schema in whole.items()
        if (name.startswith(_TEXTUAL) or name.endswith(_FURTHER_TEXTS))
        and not _is_file(schema, (), old=True)
    ]
    if texts:
        made = FormField(media_types=(texts[0].replace("*", "plain"),))
        schema = {"type": "string", "description": f"A text of the type {made.media_types[0]}"}
        return Body(kind=BodyKind.TEXT, schema=schema, required=required, fields={WHOLE: made})
    if whole:
        schema = next(iter(whole.values()))
        _make_path(schema)
        made = FormField(is_file=True, media_types=tuple(whole))
        return Body(kind=BodyKind.FILE, schema=schema, required=required, fields={WHOLE: made})
    return None


def _content(kinds: Json, key: str) -> Json:
    return kinds[key] if isinstance(kinds[key], dict) else {}


def _fields(
    schema: Json, encoding: Mapping[str, Any], reader: SchemaReader, kind: BodyKind
) -> dict[str, FormField]:
    """Return the fields of a form, and turn the schemas of its files to those of paths."""
    found: dict[str, FormField] = {}
    for name, each in properties_of(schema).items():
        if not name.isprintable():
            raise ValueError("its form has a field whose name cannot be sent")
        given = encoding.get(name)
        said = given if isinstance(given, dict) else {}
        kinds = said.get("contentType")
        listed = kinds.lower().split(",") if isinstance(kinds, str) else ()
        names = (part.strip() for part in listed)
        media_types = tuple(
            part for part in names if part.isprintable() and part.isascii() and "/" in part
        )
        is_file = kind is BodyKind.MULTIPART and _is_file(each, media_types, old=reader.old)
        if is_file:
            _make_path(each)
        made = FormField(
            is_file=is_file,
            media_types=media_types if is_file else media_types[:1],
            exploded=bool(said.get("explode", True)),
            deep=said.get("style") == "deepObject",
        )
        if made != FormField():
            found[name] = made
    return found


def _is_file(schema: Json, media_types: tuple[str, ...], *, old: bool) -> bool:
    """Return True if a field of a form holds a file, or a list of files."""
    if isinstance(schema.get("items"), dict) and schema.get("type") in ("array", None):
        return _is_file(schema["items"], media_types, old=old)
    for key in ("anyOf", "oneOf", "allOf"):
        listed = schema.get(key)
        if isinstance(listed, list) and any(
            isinstance(each, dict) and "type" in each and _is_file(each, (), old=old)
            for each in listed
        ):
            return True
    if schema.get("format") == "binary":
        return True
    if schema.get("contentMediaType") and not schema.get("contentEncoding"):
        return not str(schema["contentMediaType"]).startswith(_TEXTUAL)
    kinds = schema.get("type")
    names = set(kinds) if isinstance(kinds, list) else {kinds}
    if media_types and not any(each.startswith(_TEXTUAL) for each in media_types):
        return names <= {"string", "null", None} and not any(
            e.endswith("+json") for e in media_types
        )
    # Since 3.1 a field without a type is a sequence of bytes.
    return not old and not media_types and not set(schema) - {"description", "title"}


def _make_path(schema: Json) -> None:
    """Turn the schema of a file, or of a list of files, to that of paths, in place."""
    about = schema.get("description")
    text = f"{about.rstrip('. ')}. {FILE_HINT}" if isinstance(about, str) and about else FILE_HINT
    path = {"type": "string", "minLength": 1}
    variants = [schema, *(each for key in ("anyOf", "oneOf") for each in schema.get(key) or ())]
    many = any(isinstance(each, dict) and each.get("type") == "array" for each in variants)
    schema.clear()
    schema |= {"type": "array", "items": path} if many else path
    schema["description"] = text
