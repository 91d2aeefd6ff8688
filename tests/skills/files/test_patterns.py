"""Patterns of models: what they mean, and that none takes long."""

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import ToolError
from skills.files.patterns import MOST_INSTRUCTIONS, expression, path_pattern, pieces

#: Each takes Python's `re` years, or all memory, with one of the texts.
EXPLODING = (
    r"(a+)+$", r"(a|a)*$", r"(a|aa)+$", r"(.*a){20}$", r"([a-zA-Z]+)*$", r"(a?){50}a{50}",
    r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(x+x+)+y", r"(.*)(.*)(.*)(.*)(.*)=", r"(?:a*)*(?:a*)*b",
    r"((a*)*)*b", r"(\w+\s?)*$", r"(a{1,30}){1,30}b", r"[ab]*a[ab]{200}c", r"(?i)(É|é|e)+$",
    r"\s+$", r"(?:.?){400}x", r"(\p{L}+)+1",
)  # fmt: skip
TEXTS = (b"a" * 20_000 + b"!", b"x" * 10_000 + b" " * 10_000 + b"!", b"ab" * 10_000)

#: What RE2 cannot do, or would need too much for.
REFUSED = (
    (r"(?=a)b", "cannot be read .*RE2 expression, which has no look-around"),
    (r"(a)\1", "cannot be read"),
    ("(", r"cannot be read \(missing \): \(\)"),
    ("a{1001}", "cannot be read"),
    ("((a{100}){100}){100}", "cannot be read"),
    ("(.?){1000}" * 9, "repeats too much|cannot be read"),
    ("\ud800", "holds half of a character"),
    ("", "The pattern is empty"),
    ("x" * 1_001, "has 1,001 characters: give a shorter one"),
)


def seconds_for(pattern: str, text: bytes) -> float:
    compiled = expression(pattern)
    begun = time.thread_time()
    for start, end in compiled.pieces(text):
        compiled.find(text, start, end)
    return time.thread_time() - begun


@pytest.mark.parametrize("pattern", EXPLODING)
def test_no_expression_explodes(pattern: str) -> None:
    assert all(seconds_for(pattern, text) < 5 for text in TEXTS)


@pytest.mark.processes
def test_the_usual_expressions_do_explode() -> None:
    code = "import re; re.search(r'(a+)+$', 'a' * 60 + '!')"

    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", code], timeout=1.5, check=False)


@pytest.mark.parametrize(("pattern", "said"), REFUSED)
def test_an_expression_that_cannot_be_used_is_explained(pattern: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        expression(pattern)


def test_one_look_is_short_however_large_the_expression() -> None:
    """What RE2 does in one go cannot be stopped: it is given little where it has much to do."""
    large = expression("(?:.?){200}(?:.?){200}z")
    text = b"y" * 100_000
    assert large.compiled.programsize > MOST_INSTRUCTIONS / 3
    assert len(list(large.pieces(text))) > 10

    longest = 0.0
    for start, end in large.pieces(text):
        begun = time.thread_time()
        assert large.find(text, start, end) is None
        longest = max(longest, time.thread_time() - begun)

    assert longest < 3


@given(
    text=st.text(alphabet="ab\n", max_size=200).map(str.encode),
    at_once=st.integers(1, 40),
)
def test_the_pieces_of_a_text_are_all_of_it_and_end_with_lines(text: bytes, at_once: int) -> None:
    found = list(pieces(text, at_once))

    assert b"".join(text[start:end] for start, end in found) == text
    for start, end in found:
        assert end - start <= at_once
        assert end == len(text) or text[end - 1 : end] == b"\n" or b"\n" not in text[start:end]


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc", "apy"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.js", "a.py/b"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "lib/src/a"]),
        ("src/**/test_?.py", ["src/test_1.py", "src/x/y/test_1.py"], ["src/test_12.py"]),
        ("**/*.{js,ts}", ["a.js", "x/b.ts"], ["a.jsx", "a.{js,ts}"]),
        ("[a-c]*.txt", ["a.txt", "cat.txt"], ["dog.txt", "-.txt"]),
        ("[!a]*", ["b", "-"], ["a", "b/c"]),
        ("a+(b).txt", ["a+(b).txt"], ["aab.txt", "ab.txt"]),
        ("a|b", ["a|b"], ["a", "b"]),
        ("ü?.md", ["üß.md"], ["ü.md"]),
        ("/a//b"[1:], ["a//b"], ["a/b"]),
        ("{a", ["{a"], ["a"]),
        ("a,b}", ["a,b}"], ["a"]),
    ],
)
def test_a_pattern_of_paths_means_what_it_does_elsewhere(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    found = path_pattern(pattern)

    assert [path for path in [*fitting, *others] if found.fits(path)] == fitting


@pytest.mark.parametrize("pattern", ["", "/", "../*", "a/../b", "[z-a]"])
def test_a_pattern_of_no_paths_is_explained(pattern: str) -> None:
    with pytest.raises(ToolError, match=r"Give a pattern of paths|cannot be read"):
        path_pattern(pattern)


@given(pattern=st.text(alphabet="ab*?[]{},!^-/\\.|()+é", max_size=30), path=st.text(max_size=20))
def test_any_pattern_of_paths_is_answered(pattern: str, path: str) -> None:
    try:
        found = path_pattern(pattern)
    except ToolError:
        return
    assert found.fits(path.encode(errors="replace").decode()) in {True, False}
