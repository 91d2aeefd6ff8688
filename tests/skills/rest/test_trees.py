"""JSON and YAML of strangers: read to the same trees, and refused when they are bombs."""

import json
from datetime import date

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import ConfigError
from skills.rest.trees import MOST_BYTES, parsed

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(tree=VALUES)
def test_yaml_and_json_of_a_tree_are_read_to_that_tree(tree: object) -> None:
    assert parsed("s", json.dumps(tree).encode()) == tree
    assert parsed("s", yaml.safe_dump(tree, default_flow_style=None).encode()) == tree


def test_a_yaml_document_has_the_values_of_json() -> None:
    text = b"""
200: {n: ~, yes: yes, hex: 0x10, pi: 3.5, text: !!str 12, day: 2024-01-01, time: 12:30}
"""
    assert parsed("s", text) == {
        "200": {
            "n": None,
            "yes": True,
            "hex": 16,
            "pi": 3.5,
            "text": "12",
            "day": str(date(2024, 1, 1)),
            "time": "12:30",
        }
    }


def test_aliases_and_merged_keys_are_written_out() -> None:
    text = b"""
base: &base {a: 1, b: [1, 2]}
more: {<<: *base, a: 2}
both: {<<: [*base, {c: 3}]}
list: [*base, *base]
"""
    base = {"a": 1, "b": [1, 2]}
    assert parsed("s", text) == {
        "base": base,
        "more": base | {"a": 2},
        "both": base | {"c": 3},
        "list": [base, base],
    }


def bomb() -> bytes:
    """Return a short document whose aliases stand for ten billion values."""
    lines = ["x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (bomb(), "more than 8,000,000 values, with its aliases written out"),
        (b"a: &a [*a]", "its alias `a` stands for nothing, or for itself"),
        (b"a: *nothing", "its alias `nothing` stands for nothing"),
        (b"a: " + b"[" * 200, "nested too deeply"),
        (b"? [a]\n: 1", "a key of an object in it is no text"),
        (b"a: !custom 1", "values of other kinds than JSON"),
        (b"a: !!python/object:os.system {}", "values of other kinds than JSON"),
        (b" " * (MOST_BYTES + 1), "of at most 20 MB"),
        (b"[" * 100_000, "neither JSON nor YAML"),
    ],
)
def test_what_is_hostile_is_refused_with_the_reason(content: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match="REST service s is neither JSON nor YAML") as caught:
        parsed("s", content)
    assert said in str(caught.value)
