"""`${ENV}` in texts: what is filled in, what is left alone, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.interpolation import Expansion, Tree, overrides, put, written

NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,10}", fullmatch=True)


@given(st.text())
def test_a_text_comes_back_as_it_was_when_its_beginnings_of_variables_are_escaped(
    text: str,
) -> None:
    expansion = Expansion({})

    assert expansion.text(text.replace("${", "$${")) == text
    assert expansion.problems == {}


@given(before=st.text("ab $}"), name=NAMES, value=st.text(), after=st.text("ab $}{"))
def test_a_variable_is_filled_in_once_whatever_it_holds(
    before: str, name: str, value: str, after: str
) -> None:
    expansion = Expansion({name: value})
    before, after = before.rstrip("$"), after.replace("${", "$${")

    text = expansion.text(f"{before}${{{name}}}{after}")

    assert text == before + value + after.replace("$${", "${")
    assert expansion.used == {name: value}


@given(st.text("${}:-AB \n"), st.dictionaries(NAMES, st.text()))
def test_no_text_breaks_it(text: str, environ: dict[str, str]) -> None:
    expansion = Expansion(environ)

    expansion.text(text)

    assert set(expansion.used) <= set(environ)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({}, "fallback"), ({"NAME": ""}, "fallback"), ({"NAME": "given"}, "given")],
)
def test_a_default_stands_in_for_a_variable_that_is_missing_or_empty(
    environ: dict[str, str], expected: str
) -> None:
    assert Expansion(environ).text("${NAME:-fallback}") == expected


def test_a_default_may_be_empty_and_may_hold_what_looks_like_another() -> None:
    assert Expansion({}).text("<${NAME:-}>") == "<>"
    assert Expansion({}).text("${NAME:-a:-b c}") == "a:-b c"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain", ("plain", False)),
        ("Bearer ${NAME}", ("Bearer  ", True)),
        ("${NAME:-}", (" ", True)),
        ("${NAME:-word}", ("word", False)),
        ("${ONE}${TWO:-word}", (" word", False)),
        ("$${NAME}", ("${NAME}", False)),
    ],
)
def test_what_a_text_says_itself_is_told_from_what_variables_say(
    text: str, said: tuple[str, bool]
) -> None:
    assert written(text) == said


@pytest.mark.parametrize("text", ["${}", "${not closed", "${1ST}", "${a-b}", "${A:b}"])
def test_what_is_no_variable_is_refused_with_the_way_to_write_it(text: str) -> None:
    expansion = Expansion({"a": "x"})

    expansion.text(text, ("agent", "name"))

    assert "write `$${`" in expansion.problems["agent", "name"]


def test_every_text_in_the_tree_is_expanded_and_keys_that_fail_are_left_out() -> None:
    expansion = Expansion({"ONE": "1"})
    tree: Tree = {"a": {"b": ["${ONE}", 2, None], "c": "${TWO}"}, "d": True}

    expanded = expansion.tree(tree)

    assert expanded == {"a": {"b": ["1", 2, None]}, "d": True}
    assert "TWO is not set" in expansion.problems["a", "c"]


def test_variables_that_set_keys_are_found_by_their_prefix() -> None:
    environ = {"RETINUE__SUBAGENTS__MAX_DEPTH": "2", "RETINUE_CONFIG": "x", "PATH": "y"}

    assert overrides(environ) == {"RETINUE__SUBAGENTS__MAX_DEPTH": ("subagents", "max_depth")}


def test_a_key_set_from_outside_makes_its_sections_and_replaces_no_other_value() -> None:
    tree: dict[str, Tree] = {"agent": "text", "models": None}

    put(tree, ("models", "openai", "api_key"), "k")
    put(tree, ("agent", "name"), "Rita")

    assert tree == {"agent": "text", "models": {"openai": {"api_key": "k"}}}
