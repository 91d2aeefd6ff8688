"""Reading YAML: bounded, with lines, and with advice instead of a parser's words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.document import MAX_BYTES, read, value_of, written


def test_every_key_is_known_with_its_line() -> None:
    document = read(b"# head\nagent:\n  name: Rita\naccess:\n  admins:\n    - discord:1\n")

    assert document.tree == {"agent": {"name": "Rita"}, "access": {"admins": ["discord:1"]}}
    assert document.origins["agent", "name"] == "line 3"
    assert document.origins["access", "admins", 0] == "line 6"


@pytest.mark.parametrize("raw", [b"", b"# only a comment\n", b"---\n", b"\xef\xbb\xbf"])
def test_a_file_without_keys_is_an_empty_document(raw: bytes) -> None:
    document = read(raw)

    assert (document.tree, document.problems) == ({}, {})


@pytest.mark.parametrize(
    ("raw", "advice", "line"),
    [
        (b"a: 1\nb: [${X}]", 'write variables in quotes: ["${NAME}"]', 2),
        (b"a: {b: ${X}}", 'write variables in quotes: ["${NAME}"]', 1),
        (b"a:\n\tb: 1", "with spaces, not with tabs", 2),
        (b"a: b: c", "holds `: ` needs quotes", 1),
        (b"a: *word", "begins with `*` needs quotes", 1),
        (b"a: &x 1\nb: &x 2", "begins with `&` needs quotes", 2),
        (b"a: !x!word", "begins with `!` needs quotes", 1),
        (b"a: @word", "such a character needs quotes", 1),
        (b"a: 1\n---\nb: 2", "remove the `---`", 2),
        (b"a: 'open", "check quotes", 1),
        (b"- a\n- b", "must hold keys with values", 1),
        (b"[1, 2]: 3", "must be a plain word", 1),
    ],
)
def test_what_is_no_yaml_is_answered_with_its_line_and_what_to_do(
    raw: bytes, advice: str, line: int
) -> None:
    document = read(raw)

    assert advice in document.problems[()]
    assert document.origins[()] == f"line {line}"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"a: " + b"x" * MAX_BYTES, "longer than"),
        (b"a: \xff", "not UTF-8"),
        (b"a: \x00", "control characters"),
        (b"[" * 10_000, "nested too deeply"),
        (b"a: &a [*a]", "too many values"),
        (b"a: [" + b"1, " * 20_000 + b"]", "too many values"),
    ],
)
def test_a_file_beyond_the_bounds_is_refused(raw: bytes, reason: str) -> None:
    assert reason in read(raw).problems[()]


@pytest.mark.parametrize(
    ("raw", "advice"),
    [
        (b"a: !x y", "begins with `!`"),
        (b"a: 2026-99-99", "looks like a date or a number"),
        (b"a: " + b"9" * 5000, "looks like a date or a number"),
        (b'a: "\\0"', "holds a character that is none"),
        (b'a: "\\ud800"', "holds a character that is none"),
    ],
)
def test_a_value_that_cannot_be_used_is_answered_with_what_to_do(raw: bytes, advice: str) -> None:
    document = read(raw)

    assert advice in document.problems["a",]
    assert document.tree == {"a": None}


def test_a_few_lines_of_aliases_cannot_stand_for_millions_of_values() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]

    assert "too many values" in read("\n".join(lines).encode()).problems[()]


def test_a_few_aliases_are_welcome() -> None:
    assert read(b"a: &x [p, q]\nb: *x").tree == {"a": ["p", "q"], "b": ["p", "q"]}


def test_a_key_that_is_there_twice_is_a_problem_and_the_first_counts() -> None:
    document = read(b"a:\n  b: 1\n  c: 2\n  b: 3")

    assert document.tree == {"a": {"b": 1, "c": 2}}
    assert "also in line 4" in document.problems["a", "b"]


@pytest.mark.parametrize("raw", [b"a: !secret x", b"a: !!python/object:os.system x", b"a: !!int x"])
def test_nothing_in_a_file_is_ever_brought_to_life(raw: bytes) -> None:
    document = read(raw)

    assert document.tree == {"a": None}
    assert "put the value in quotes" in document.problems["a",]


def test_dates_and_endless_numbers_stay_the_texts_they_were() -> None:
    assert read(b"a: 2026-11-21\nb: .inf").tree == {"a": "2026-11-21", "b": ".inf"}


@given(st.binary(max_size=200))
def test_no_file_breaks_the_reader(raw: bytes) -> None:
    document = read(raw)

    assert isinstance(document.tree, dict)


@given(st.text("ab:{}[]&*!|>'\"%@`#-? \n\t$,", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    document = read(text.encode())

    assert isinstance(document.tree, dict)


def test_a_variable_holds_a_list_or_a_section_when_it_looks_like_one() -> None:
    assert value_of('["discord:1", b]') == ["discord:1", "b"]
    assert value_of("{a: 1}") == {"a": 1}
    assert value_of("[not closed") == "[not closed"
    assert value_of("a: b") == "a: b"


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**64) + 1, 2**64 - 1)


@given(TEXTS | NUMBERS | st.booleans() | st.none() | st.lists(TEXTS, max_size=3))
def test_what_is_written_is_one_line_and_reads_the_same(value: object) -> None:
    text = written(value)

    assert "\n" not in text
    assert read(f"a: {text}\n".encode()).tree == {"a": value}


def test_whole_numbers_are_written_without_a_fraction() -> None:
    assert [written(120.0), written(0.5), written(3)] == ["120", "0.5", "3"]
