"""Bodies of operations: which of them are sent as forms, and which of their fields are files."""

from urllib.parse import parse_qsl

import pytest

from bot.errors import ToolError
from bot.net.base import FormPart
from bot.values import Json
from skills.rest.bodies import FILE_HINT, BodyKind
from skills.rest.openapi import read
from skills.rest.operations import Operation
from skills.rest.requests import MOST_FILES, FilePart, files_in, request_for

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
FILE = {"type": "string", "format": "binary"}


def taking(contents: Json, version: str = "3.1.0", *, required: bool = False) -> Operation:
    """Return the operation of a document whose body has these contents."""
    body = {"content": contents, "required": required}
    paths = {"/x": {"post": {"operationId": "x", "requestBody": body}}}
    (operation,) = read("s", {"openapi": version, "paths": paths}).operations
    return operation


def form(
    properties: Json, kind: str = MULTIPART, version: str = "3.1.0", **more: Json
) -> Operation:
    schema = {"type": "object", "properties": properties}
    return taking({kind: {"schema": schema, **more}}, version)


def sent(operation: Operation, **fields: object) -> list[tuple[str, str]]:
    """Return the pairs of a form."""
    return parse_qsl((request_for(operation, {"body": fields}).body or b"").decode())


@pytest.mark.parametrize(
    ("kinds", "body"),
    [
        (["application/json", MULTIPART], BodyKind.JSON),
        ([MULTIPART, FORM], BodyKind.FORM),
        (["text/plain", "Multipart/Form-Data; charset=utf-8"], BodyKind.MULTIPART),
        (["application/vnd.api+json", FORM], BodyKind.JSON),
        ([FORM, "*/*"], BodyKind.JSON),
    ],
)
def test_json_is_preferred_to_a_form_and_a_form_to_one_with_files(
    kinds: list[str], body: BodyKind
) -> None:
    assert taking({kind: {"schema": {"type": "object"}} for kind in kinds}).body is body


@pytest.mark.parametrize(
    ("contents", "kind", "media_types"),
    [
        ({"text/csv": {}, "image/png": {}}, BodyKind.TEXT, ("text/csv",)),
        ({"text/*": {"schema": {"type": "string"}}}, BodyKind.TEXT, ("text/plain",)),
        ({"application/soap+xml": {}}, BodyKind.TEXT, ("application/soap+xml",)),
        ({"text/csv": {"schema": FILE}}, BodyKind.FILE, ("text/csv",)),
        ({"*/*": {"schema": FILE}}, BodyKind.FILE, ("application/octet-stream",)),
        (
            {"image/*": {"schema": {"type": "object"}}, "application/pdf": {}},
            BodyKind.FILE,
            ("image/*", "application/pdf"),
        ),
    ],
)
def test_a_body_without_parts_is_a_text_or_a_file(
    contents: Json, kind: BodyKind, media_types: tuple[str, ...]
) -> None:
    operation = taking(contents)

    request = request_for(operation, {"body": "a,b"})

    assert operation.body is kind
    assert operation.schema["properties"]["body"]["type"] == "string"
    if kind is BodyKind.TEXT:
        assert (request.body, request.media_type) == (b"a,b", f"{media_types[0]}; charset=utf-8")
        assert not operation.sends_files
    else:
        assert request.form == (FilePart(name="body", path="a,b", media_types=media_types),)
        assert files_in(operation, {"body": "a,b"}) == ("a,b",)
        assert operation.sends_files


def test_an_optional_body_with_parts_of_other_kinds_is_left_out() -> None:
    assert "body" not in taking({"multipart/mixed": {}, "x\r\ny/z": {}}).schema["properties"]


def test_a_form_has_its_lists_and_objects_as_the_document_says() -> None:
    encoding = {
        "deep": {"style": "deepObject"},
        "flat": {"explode": False},
        "asjson": {"contentType": "application/json"},
    }
    plain = form({}, FORM, encoding=encoding)
    named = form({"deep": {}, "flat": {}, "asjson": {}}, FORM, encoding=encoding)

    assert sent(plain, a=[1, 2], b={"c": 1}, n=None) == [
        *(("a", "1"), ("a", "2"), ("b", '{"c": 1}')),
    ]
    assert sent(named, deep={"a": [{"b": 1}, 2]}, flat=[1, 2], asjson=[1]) == [
        *(("deep[a][0][b]", "1"), ("deep[a][1]", "2"), ("flat", "1,2"), ("asjson", "[1]")),
    ]


@pytest.mark.parametrize(
    ("version", "schema", "encoding"),
    [
        ("3.0.3", FILE, {}),
        ("3.1.0", FILE, {}),
        ("3.1.0", {"contentMediaType": "application/octet-stream"}, {}),
        ("3.1.0", {"type": "string", "contentMediaType": "image/png"}, {}),
        ("3.1.0", {}, {}),
        ("3.1.0", {"anyOf": [FILE, {"type": "null"}]}, {}),
        ("3.0.3", {"type": "string"}, {"contentType": "image/png, image/jpeg"}),
        ("3.1.0", {}, {"contentType": "application/pdf"}),
    ],
)
def test_a_field_that_holds_a_file_takes_a_path(version: str, schema: Json, encoding: Json) -> None:
    operation = form(
        {"file": {**schema, "description": "The file."}},
        MULTIPART,
        version,
        encoding={"file": encoding},
    )

    (field,) = operation.schema["properties"]["body"]["properties"].values()
    assert field == {"type": "string", "minLength": 1, "description": f"The file. {FILE_HINT}"}
    assert files_in(operation, {"body": {"file": "a/b.png"}}) == ("a/b.png",)
    assert operation.sends_files


@pytest.mark.parametrize(
    ("schema", "encoding"),
    [
        ({"type": "string"}, {}),
        ({"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"}, {}),
        ({"type": "object"}, {"contentType": "application/json"}),
        ({"type": "string"}, {"contentType": "application/problem+json"}),
        ({"type": "string"}, {"contentType": "text/markdown"}),
        ({"type": "array", "items": {"type": "integer"}}, {}),
    ],
)
def test_other_fields_of_a_form_are_no_files(schema: Json, encoding: Json) -> None:
    assert not form({"field": schema}, encoding={"field": encoding}).sends_files


def test_a_list_of_files_and_files_of_combined_schemas_are_found() -> None:
    schema = {
        "allOf": [
            {"type": "object", "properties": {"files": {"type": "array", "items": FILE}}},
            {"type": "object", "properties": {"title": {"type": "string"}}},
        ]
    }
    operation = taking({MULTIPART: {"schema": schema}})

    request = request_for(operation, {"body": {"files": ["a", "b"], "title": "T"}})

    assert request.form == (
        FilePart(name="files", path="a"),
        FilePart(name="files", path="b"),
        FormPart(name="title", content=b"T"),
    )
    assert request.body is None


def test_fields_beside_files_are_text_or_json() -> None:
    operation = form(
        {"file": FILE, "note": {"type": "string"}, "all": {}},
        MULTIPART,
        "3.0.3",
        encoding={
            "note": {"contentType": "text/markdown"},
            "all": {"contentType": "application/json"},
        },
    )
    body = {
        "note": "# Hi",
        "all": [1],
        "on": True,
        "tags": ["a", "b"],
        "more": {"k": 1},
        "no": None,
    }

    request = request_for(operation, {"body": body})

    assert [(p.name, p.content, p.media_type) for p in request.parts] == [
        ("note", b"# Hi", "text/markdown"),
        ("all", b"[1]", "application/json"),
        ("on", b"true", ""),
        ("tags", b"a", ""),
        ("tags", b"b", ""),
        ("more", b'{"k": 1}', "application/json"),
    ]


def test_too_many_files_are_refused() -> None:
    operation = form({"files": {"type": "array", "items": FILE}})

    with pytest.raises(ToolError, match="at most 10 files are sent at once"):
        request_for(operation, {"body": {"files": ["a"] * (MOST_FILES + 1)}})


@pytest.mark.parametrize("body", [["a"], "a", 1])
def test_a_form_that_is_no_object_is_refused(body: object) -> None:
    with pytest.raises(ToolError, match="`body` must be an object"):
        request_for(taking({MULTIPART: {}}), {"body": body})


@pytest.mark.parametrize("name", ["a\r\nX-Evil: 1", "a\x00", "\ud800"])
def test_a_form_whose_field_cannot_be_named_is_left_out(name: str) -> None:
    content = {MULTIPART: {"schema": {"properties": {name: FILE}}}}
    paths = {"/x": {"post": {"requestBody": {"content": content}}}}

    (omission,) = read("s", {"openapi": "3.1.0", "paths": paths}).omitted

    assert omission.reason == "its form has a field whose name cannot be sent"
