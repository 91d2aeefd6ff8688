"""Arguments that a model wrote can be stored, sent back and called with, or are refused."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.documents import MOST_NESTED, arguments_in, encodable, spelled, too_deep

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=20,
)


def nested(depth: int) -> str:
    return '{"at": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    "raw",
    [
        *('{"a": 1e999}', '{"a": [-1e999]}', '{"a": NaN}', '{"a": {"b": Infinity}}'),
        *('{"a": 1' + "0" * 30 + "}", '{"a": 1' + "0" * 5_000 + "}"),
        *(nested(MOST_NESTED + 1), nested(2_000), nested(200_000), "[" * 100_000),
        *("[1]", '"text"', "null", "{", ""),
    ],
)
def test_what_no_tool_could_use_is_refused(raw: str) -> None:
    assert arguments_in(raw) is None


def test_arguments_of_every_kind_are_read() -> None:
    raw = '{"a": [1, 2.5, true, null, {"b": "x"}], "n": 18446744073709551615, "e": 1e300}'

    assert arguments_in(raw) == json.loads(raw)
    assert arguments_in(nested(MOST_NESTED - 1)) is not None


def test_what_cannot_be_encoded_is_replaced_in_keys_too() -> None:
    raw = '{"a\\ud800": ["b\\u0000c", "\\udfff", "\\ud83d\\ude00"]}'

    assert arguments_in(raw) == {"a\ufffd": ["b\ufffdc", "\ufffd", "😀"]}


@given(st.dictionaries(st.text(st.characters()), ANYTHING))
def test_what_is_read_can_be_stored_and_sent(document: dict[str, object]) -> None:
    read = arguments_in(document)

    if read is not None:
        text = json.dumps(read, allow_nan=False, ensure_ascii=False)
        assert "\\u0000" not in text
        assert text.encode()
        assert arguments_in(text) == read


def test_a_document_is_spelled_whatever_it_holds() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    assert spelled({"a": math.inf}) == '{"a": Infinity}'
    assert spelled("[") == "["
    assert spelled(deep) == "(nested too deeply)"
    assert too_deep(deep)
    assert encodable("plain") == "plain"
