"""Schemas of OpenAPI documents: references, circles, and those that are too long."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, SchemaError

from bot.catalog.schemas import check_foreign_schema
from bot.values import Json
from skills.rest.openapi import read
from skills.rest.operations import Operation
from skills.rest.requests import request_for


def only(schema: Json, schemas: Json | None = None, version: str = "3.1.0") -> Operation:
    """Return the operation of a document whose body has a schema."""
    content = {"application/json": {"schema": schema}}
    tree: Json = {
        "openapi": version,
        "paths": {"/x": {"post": {"operationId": "x", "requestBody": {"content": content}}}},
        "components": {"schemas": schemas or {}},
    }
    (operation,) = read("s", tree).operations
    return operation


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def test_schemas_that_refer_to_each_other_ten_times_end_soon() -> None:
    names = [f"S{n}" for n in range(10)]
    every = {name: {"type": "object", "properties": {k: ref(k) for k in names}} for name in names}

    operation = only(ref("S0"), every)

    assert len(json.dumps(operation.schema)) <= 24_000
    assert operation.schema["properties"]["body"]["properties"]["S3"]["type"] == "object"


def test_a_schema_that_is_cut_accepts_what_it_would_have_accepted() -> None:
    node = {
        "oneOf": [
            {"type": "object", "properties": {"next": ref("Node"), "kind": {"const": "a"}}},
            {"type": "object", "properties": {"next": ref("Node"), "kind": {"const": "b"}}},
        ]
    }
    value: Json = {"kind": "a"}
    for _ in range(20):
        value = {"kind": "a", "next": value}

    request = request_for(only(ref("Node"), {"Node": node}), {"body": value})

    assert request.body == json.dumps(value).encode()


def test_references_lead_through_lists_and_encoded_names() -> None:
    tree: Json = {
        "openapi": "3.1.0",
        "paths": {
            "/a/{id}": {
                "get": {
                    "operationId": "a",
                    "parameters": [
                        {"name": "id", "in": "path", "schema": {"type": "string"}},
                        {"name": "n", "in": "query", "schema": {"type": "integer"}},
                    ],
                }
            },
            "/b": {
                "get": {
                    "operationId": "b",
                    "parameters": [{"$ref": "#/paths/~1a~1%7Bid%7D/get/parameters/1"}],
                }
            },
        },
    }

    assert read("s", tree).operations[1].schema["properties"] == {"n": {"type": "integer"}}


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("#/components/parameters/A", "refers to itself"),
        ("#/components/parameters/Me", "refers to itself"),
        ("#/paths/~1x/get/parameters/7", "stands for nothing"),
        ("#/paths/~1x/get/parameters/\u00b2", "stands for nothing"),
        ("other.yaml#/x", "refers to another document"),
        ("file:///etc/passwd", "refers to another document"),
    ],
)
def test_references_that_lead_nowhere_are_explained(reference: str, said: str) -> None:
    circle = {"$ref": "#/components/parameters/B"}
    back = {"$ref": "#/components/parameters/A"}
    own = {"$ref": "#/components/parameters/Me"}
    tree: Json = {
        "openapi": "3.1.0",
        "paths": {"/x": {"get": {"parameters": [{"$ref": reference}]}}},
        "components": {"parameters": {"A": circle, "B": back, "Me": own}},
    }

    (omission,) = read("s", tree).omitted

    assert said in omission.reason


KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "const", "required", "minimum", "maximum", "minLength", "maxItems"),
        *("items", "prefixItems", "properties", "additionalProperties", "allOf", "anyOf", "not"),
        *("pattern", "uniqueItems", "multipleOf", "dependentRequired", "$defs", "title"),
        *("default", "minContains", "format"),
    ]
)
ODD: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(
        ["string", "object", "x", "(", "", 0, 1, -1, 2.5, True, None, [], {}, ["a"], ["a"] * 2]
    )
    | st.integers(-3, 3),
    lambda inner: st.dictionaries(KEYWORDS, inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=8,
)


@given(schema=st.dictionaries(KEYWORDS, ODD, max_size=4))
def test_the_quick_check_of_schemas_agrees_with_the_official_one(schema: Json) -> None:
    try:
        Draft202012Validator.check_schema(schema)
        official = True
    except SchemaError:
        official = False
    try:
        check_foreign_schema(schema, most=100_000)
        ours = True
    except ValueError:
        ours = False

    assert ours == official
