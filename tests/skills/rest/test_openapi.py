"""OpenAPI documents as tools: what is taken over, and what is left out and why."""

import json
from math import inf

import pytest

from bot.errors import ConfigError, ToolError
from bot.values import Json
from skills.rest.documents import base_of
from skills.rest.openapi import read
from skills.rest.operations import Operation, by_hand, name_for
from skills.rest.requests import request_for
from skills.rest.settings import RequestSettings, RestSettings
from skills.rest.trees import parsed

PETS: Json = {
    "openapi": "3.0.3",
    "servers": [{"url": "https://pets.example/v1"}],
    "paths": {
        "/pets/{petId}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {"operationId": "getPet", "summary": "Get a pet."},
            "put": {
                "operationId": "putPet",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}
                    },
                },
            },
        },
        "/pets": {
            "get": {
                "operationId": "find pets!",
                "parameters": [
                    {"name": "tag", "in": "query", "schema": {"type": "array", "items": {}}},
                    {
                        "name": "ids",
                        "in": "query",
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "integer"}},
                    },
                    {
                        "name": "filter",
                        "in": "query",
                        "style": "deepObject",
                        "schema": {"type": "object"},
                    },
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                    {
                        "name": "limit",
                        "in": "query",
                        "schema": {
                            "type": "integer",
                            "nullable": True,
                            "minimum": 0,
                            "exclusiveMinimum": True,
                        },
                    },
                ],
            },
            "post": {
                "operationId": "sendForm",
                "requestBody": {
                    "content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
                },
            },
        },
    },
    "components": {
        "parameters": {
            "id": {"name": "petId", "in": "path", "required": True, "schema": {"type": "string"}}
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "parent": {"$ref": "#/components/schemas/Pet"},
                },
            }
        },
    },
}


def operations(tree: Json = PETS) -> dict[str, Operation]:
    return {each.id: each for each in read("pets", tree).operations}


def document(operation: Json, path: str = "/x") -> Json:
    return {"openapi": "3.1.0", "paths": {path: {"get": operation}}}


def test_each_operation_becomes_a_tool_with_a_name_that_models_take() -> None:
    found = operations()

    assert found["getPet"].name == "rest__pets__getPet"
    assert found["getPet"].description.startswith("Get a pet.")
    assert found["getPet"].schema["required"] == ["petId"]
    assert found["find pets!"].name.startswith("rest__pets__find_pets__")
    assert all(len(each.name) <= 64 for each in found.values())
    assert len(name_for("s", "x" * 200)) == 64


def test_a_schema_that_refers_to_itself_ends_somewhere() -> None:
    body = operations()["putPet"].schema["properties"]["body"]

    assert body["properties"]["parent"]["properties"]["parent"]["type"] == "object"
    assert "$ref" not in json.dumps(body)


def test_what_only_the_old_version_says_is_turned_into_json_schema() -> None:
    limit = operations()["find pets!"].schema["properties"]["limit"]

    assert limit == {"type": ["integer", "null"], "exclusiveMinimum": 0}


def test_arguments_go_where_the_document_says() -> None:
    found = operations()
    arguments = {
        "tag": ["a b", "c&d"],
        "ids": [1, 2],
        "filter": {"kind": "cat"},
        "X-Trace": "t1",
        "limit": 3,
    }

    get = request_for(found["find pets!"], arguments)
    put = request_for(found["putPet"], {"petId": "a/b?c#d", "body": {"name": "Rex"}})
    form = request_for(found["sendForm"], {"body": {"a": "1 2", "b": True}})

    assert get.query == (
        *(("tag", "a b"), ("tag", "c&d"), ("ids", "1,2"), ("filter[kind]", "cat")),
        ("limit", "3"),
    )
    assert get.headers == {"X-Trace": "t1"}
    assert put.path == "/pets/a%2Fb%3Fc%23d"
    assert (put.method, put.body, put.media_type) == (
        "PUT",
        b'{"name": "Rex"}',
        "application/json",
    )
    assert form.body == b"a=1+2&b=true"


@pytest.mark.parametrize("name", ["Authorization", "session"])
def test_who_is_asking_is_not_for_the_model_to_say(name: str) -> None:
    operation = operations()["find pets!"]

    assert name not in operation.schema["properties"]
    with pytest.raises(ToolError, match="was not called"):
        request_for(operation, {name: "mine"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "'petId' is a required property"),
        ({"petId": 7}, "`petId`: 7 is not of type 'string'"),
        ({"petId": "x", "more": 1}, "'more' was unexpected"),
        ({"petId": ".."}, "cannot be '..'"),
        ({"petId": "."}, "cannot be '.'"),
        ({"petId": ""}, "cannot be ''"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(arguments: Json, said: str) -> None:
    with pytest.raises(ToolError, match=said.replace(".", r"\.")):
        request_for(operations()["getPet"], arguments)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "ä", "a\x00"])
def test_a_header_cannot_bring_another(value: str) -> None:
    with pytest.raises(ToolError, match="plain letters"):
        request_for(operations()["find pets!"], {"X-Trace": value})


def test_a_pattern_of_the_document_cannot_make_the_bot_compute_for_ever() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$"}
    parameter = {"name": "q", "in": "query", "schema": schema}
    (operation,) = read("s", document({"parameters": [parameter]})).operations

    request = request_for(operation, {"q": "a" * 60 + "!"})

    assert operation.schema["properties"]["q"]["pattern"] == "^(a+)+$"
    assert request.query == (("q", "a" * 60 + "!"),)


@pytest.mark.parametrize(
    ("operation", "path", "said"),
    [
        ({}, "/x/{id}", "nothing says what id"),
        ({"parameters": [{"$ref": "https://evil.example/p"}]}, "/x", "refers to another document"),
        ({"parameters": [{"$ref": "#/nowhere"}]}, "/x", "stands for nothing"),
        ({"parameters": ["text"]}, "/x", "not what OpenAPI wants"),
        (
            {"parameters": [{"name": "c", "in": "cookie", "required": True}]},
            "/x",
            "c cannot be sent",
        ),
        (
            {"parameters": [{"name": "q", "in": "query", "schema": {"type": "tpyo"}}]},
            "/x",
            "its schema is broken",
        ),
        (
            {"requestBody": {"required": True, "content": {"multipart/mixed": {}}}},
            "/x",
            "media types",
        ),
        (
            {
                "parameters": [
                    {
                        "name": "q",
                        "in": "query",
                        "description": "x",
                        "schema": {"enum": ["y" * 100] * 500},
                    }
                ]
            },
            "/x",
            "more than 24,000",
        ),
        (
            {
                "parameters": [
                    {"name": "q", "in": "query", "schema": {"type": "number", "maximum": inf}}
                ]
            },
            "/x",
            "a number that JSON does not have",
        ),
    ],
)
def test_an_operation_that_cannot_be_made_is_left_out_and_told(
    operation: Json, path: str, said: str
) -> None:
    found = read("s", document(operation, path))

    assert found.operations == ()
    (omission,) = found.omitted
    assert said in omission.reason
    assert omission.names == (f"GET {path}",)


def test_two_parameters_of_one_name_are_two_arguments() -> None:
    parameters = [
        {"name": "id", "in": where, "required": True, "schema": {"type": "string"}}
        for where in ("path", "query", "header")
    ]
    (operation,) = read("s", document({"parameters": parameters}, "/x/{id}")).operations

    request = request_for(operation, {"id": "p", "id_query": "q", "id_header": "h"})

    assert (request.path, request.query, request.headers) == ("/x/p", (("id", "q"),), {"id": "h"})


@pytest.mark.parametrize("tree", [None, [], {}, {"swagger": "2.0"}, {"openapi": "4.0"}])
def test_what_is_no_such_document_says_so(tree: object) -> None:
    with pytest.raises(ConfigError, match="no OpenAPI 3 document"):
        read("s", tree)


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"{" * 100_000, b"a: [", b"!!python/object:os.system x", b"", b"--- 1\n--- 2\n"],
)
def test_what_is_neither_json_nor_yaml_says_so(content: bytes) -> None:
    with pytest.raises(ConfigError, match="neither JSON nor YAML"):
        parsed("s", content)


def test_yaml_is_read_too() -> None:
    assert parsed("s", b"openapi: 3.1.0\npaths: {}\n") == {"openapi": "3.1.0", "paths": {}}


@pytest.mark.parametrize(
    ("source", "servers", "base"),
    [
        ("pets.yaml", ("https://a.example/v1",), "https://a.example/v1"),
        ("https://a.example/d/o.json", ("/v2",), "https://a.example/v2"),
        ("https://a.example/o.json", (), "https://a.example/"),
        ("https://a.example/o.json", ("https://a.example/v2",), "https://a.example/v2"),
        ("https://a.example/o.json", ("https://evil.example/",), None),
        ("https://a.example/o.json", ("http://a.example/",), None),
        ("https://a.example/o.json", ("https://a.example:8443/",), None),
        ("pets.yaml", (), None),
        ("pets.yaml", ("/v1",), None),
        ("pets.yaml", ("https://{region}.example/",), None),
        ("pets.yaml", ("https://me:pw@a.example/",), None),
    ],
)
def test_a_document_from_elsewhere_speaks_for_its_own_origin_only(
    source: str, servers: tuple[str, ...], base: str | None
) -> None:
    if base is None:
        with pytest.raises(ConfigError, match=r"set `rest\.services\.s\.base`"):
            base_of("s", source, servers)
    else:
        assert base_of("s", source, servers) == base


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"region": {"default": "eu", "enum": ["eu", "us"]}}, "https://eu.pets.example/{version}"),
        ({"region": {"default": "{version}"}, "version": {"default": "v1"}}, "https://{version}."),
        ({"region": {}, "version": {"default": 1}}, "https://{region}.pets.example/{version}"),
        (["region"], "https://{region}.pets.example/{version}"),
    ],
)
def test_variables_in_the_address_of_a_server_have_their_defaults(
    variables: object, url: str
) -> None:
    server = {"url": "https://{region}.pets.example/{version}", "variables": variables}

    found = read("s", {"openapi": "3.1.0", "servers": [server, {"url": 7}], "paths": {}})

    assert len(found.servers) == 1
    assert found.servers[0].startswith(url)


def test_a_request_by_hand_is_an_operation_like_others() -> None:
    request = RequestSettings(
        description="Forecast.",
        method="POST",
        path="/f/{city}",
        parameters={"city": {"type": "string"}, "days": {"type": "integer"}, "note": {}},
        query=("days",),
        body=("note",),
        optional=("note",),
    )

    made = by_hand("weather", "forecast", request)
    sent = request_for(made, {"city": "São Paulo", "days": 2, "note": "hi"})

    assert made.name == "rest__weather__forecast"
    assert made.schema["required"] == ["city", "days"]
    assert (sent.path, sent.query, sent.body) == (
        "/f/S%C3%A3o%20Paulo",
        (("days", "2"),),
        b'{"note": "hi"}',
    )


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ({}, "must have a `document`, or `requests`"),
        ({"requests": {"a": {"description": "x", "path": "/"}}}, "must say where"),
        ({"document": "x", "base": "https://u:p@h/"}, "secrets belong"),
        ({"document": "x", "base": "file:///etc"}, "must be an address"),
        ({"document": "x", "runs": ["a"], "confirm": ["a"]}, "no user to ask"),
        (
            {"base": "http://h", "requests": {"a": {"description": "x", "path": "/{b}"}}},
            "has b, which must stand in `parameters`",
        ),
        (
            {
                "base": "http://h",
                "requests": {
                    "a": {
                        "description": "x",
                        "path": "/{b}",
                        "parameters": {"b": {}},
                        "optional": ["b"],
                    }
                },
            },
            "cannot leave out b",
        ),
    ],
)
def test_settings_that_cannot_be_are_explained(service: Json, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RestSettings.model_validate({"services": {"s": service}})
