"""Hostile documents and arguments: nothing leads out of a service, and nothing fails oddly."""

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import ConfigError, ToolError
from bot.values import Json
from skills.rest.documents import base_of
from skills.rest.openapi import read
from skills.rest.operations import Operation
from skills.rest.requests import request_for
from tests.skills.rest.test_openapi import PETS


def at(path: str) -> tuple[Operation, ...]:
    """Return the operations of a document with a path that has the parameters `a` and `b`."""
    parameters = [{"name": name, "in": "path", "schema": {}} for name in "ab"]
    tree = {"openapi": "3.1.0", "paths": {path: {"get": {"parameters": parameters}}}}
    return read("s", tree).operations


@pytest.mark.parametrize(
    "path",
    [
        *("/../admin", "/x/./y", "/x/..", "/%2e%2e/x", "/%252e%252e/x", "/x%2f..%2fy", "/x/..%5cy"),
        *("x", "", "https://evil.example/", "/x#y", "/x\\y", "/x HTTP/1.1\r\nHost: evil", "/\0"),
    ],
)
def test_a_path_that_leads_out_of_its_service_is_left_out(path: str) -> None:
    assert at(path) == ()


def test_a_path_of_other_letters_is_encoded() -> None:
    (operation,) = at("/straße und/{a}")

    request = request_for(operation, {"a": "ä", "b": "x"})

    assert request.path == "/stra%C3%9Fe%20und/%C3%A4"


PIECES = st.sampled_from(
    ["..", ".", "/", "\\", "%2e", "%2F", "%252e", "%25", "a", " ", "?", "#", ";", "{b}"]
)


@given(a=st.lists(PIECES, max_size=6).map("".join), b=st.lists(PIECES, max_size=6).map("".join))
def test_no_argument_leads_out_of_a_path(a: str, b: str) -> None:
    for path in ("/x/{a}/{b}", "/x/{a}{b}", "/x/{a}.{b}"):
        (operation,) = at(path)
        try:
            request = request_for(operation, {"a": a, "b": b})
        except ToolError:
            continue
        assert request.path.startswith("/x/")
        assert request.path.count("/") == path.count("/")
        assert not set("?#\\ ") & set(request.path)
        decoded = request.path
        for _ in range(3):
            assert not {".", ".."} & set(decoded.replace("\\", "/").split("/"))
            decoded = unquote(decoded)


@pytest.mark.parametrize(
    "value", ["..", "a/../b", "..%2fadmin", "%252e%252e", "a\\..\\b", ".", " "]
)
def test_an_argument_with_a_step_up_is_refused(value: str) -> None:
    (operation,) = at("/x/{a}/{b}")

    with pytest.raises(ToolError, match="Give the id or name itself"):
        request_for(operation, {"a": value, "b": "x"})


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "169.254.169.254", "10.1.2.3", "[::1]", "[fe80::1]", "[::ffff:10.0.0.1]"),
        *("localhost", "metadata.google.internal", "printer.local", "192.168.1.1:8443"),
    ],
)
def test_a_file_does_not_vouch_for_a_host_inside_of_the_network(host: str) -> None:
    with pytest.raises(ConfigError, match=r"inside of your network.*set `rest\.services\.s\.base`"):
        base_of("s", "pets.yaml", (f"http://{host}/v1",))


@pytest.mark.parametrize(
    "server", ["http://[", "http://", "https://a b/", "https://h\\@evil/", "//evil", "file:///etc"]
)
def test_a_server_that_is_no_address_is_refused(server: str) -> None:
    with pytest.raises(ConfigError, match="Nothing says where"):
        base_of("s", "pets.yaml", (server,))


def places(tree: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values of a tree."""
    items: list[tuple[Any, Any]] = []
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))
    return [path, *(each for key, value in items for each in places(value, (*path, key)))]


def changed(tree: Any, path: tuple[Any, ...], value: object) -> Any:
    """Return a copy of a tree with another value at a place."""
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = changed(tree[path[0]], path[1:], value)
    return copy


REFERENCES = ["#/components/schemas/Pet", "#/paths", "#/openapi", "#/x/0", "#", ""]
ODD: st.SearchStrategy[Any] = (
    st.sampled_from([None, True, 0, -1, 1e999, 10**30, "", "x", "\ud800", "\0", [], [[]], {}])
    | st.sampled_from(REFERENCES).map(lambda each: {"$ref": each})
    | st.recursive(
        st.text(max_size=3) | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=5,
    )
)
PLACES = [path for path in places(PETS) if path and path != ("openapi",)]


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3))
def test_a_document_with_anything_anywhere_is_read(changes: list[tuple[Any, Any]]) -> None:
    tree: Json = PETS
    for path, value in changes:
        try:
            tree = changed(tree, path, value)
        except (KeyError, IndexError, TypeError, ValueError):
            # An earlier change replaced the place.
            continue

    found = read("pets", tree)

    listed = sum(each.count for each in found.omitted) + len(found.operations)
    assert listed <= 4
    for operation in found.operations:
        assert operation.path.startswith("/")
        assert operation.path.isascii()
        assert operation.schema["type"] == "object"
        operation.description.encode()
