import re
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.agent.dialects import for_discord, for_slack
from bot.platforms.messaging.splitting import CUT, split
from tests.fakes.hostile_texts import ALL, CODE
from tests.fakes.readers import discord_finds, open_fences

WORDS = st.text("abcdé😀.!", min_size=1, max_size=12)
LINES = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)
PARAGRAPHS = st.lists(LINES, min_size=1, max_size=4).map("\n".join)
CODE_LINES = st.lists(
    st.text("abc{}() ;=", max_size=50).filter(lambda line: line == line.rstrip()), max_size=30
)


@st.composite
def fences(draw: st.DrawFn) -> str:
    marker = draw(st.sampled_from(["```", "````", "~~~", "~~~~~"]))
    indent = draw(st.sampled_from(["", "", "  ", "   "]))
    info = draw(st.sampled_from(["", "py", "c++", " js title"]))
    lines = [marker + info, *draw(CODE_LINES), marker]
    return "\n".join(indent + line if line else line for line in lines)


DOCUMENTS = st.lists(PARAGRAPHS | fences(), max_size=8).map("\n\n".join)
NOISE = st.lists(
    st.sampled_from(
        ["```", "`", "~~~", "\n", "\n\n", " ", "> ", "- ", "a", "word", ".", "&lt;", "é"]
    ),
    max_size=120,
).map("".join)
SCRAPS = NOISE | st.sampled_from([*ALL, *CODE]) | st.text()


def without_space(text: str) -> str:
    return "".join(text.split())


def is_fence(line: str) -> bool:
    return re.match(r"[\s>]*(```|~~~)", line) is not None


def hold(parts: list[str], text: str) -> bool:
    """Say whether `parts`, less fence lines at their edges, are `text` but for white space."""
    whole = without_space(text)

    @cache
    def from_here(number: int, at: int) -> bool:
        if number == len(parts):
            return at == len(whole)
        lines = parts[number].split("\n")
        for skip in (0, 1) if number and is_fence(lines[0]) else (0,):
            for drop in (0, 1) if is_fence(lines[-1]) else (0,):
                body = without_space("\n".join(lines[skip : len(lines) - drop]))
                if whole.startswith(body, at) and from_here(number + 1, at + len(body)):
                    return True
        return False

    return from_here(0, 0)


@given(DOCUMENTS, st.integers(40, 400))
@settings(max_examples=200)
def test_every_part_fits_and_has_whole_fences(text: str, limit: int) -> None:
    parts = split(text, limit)

    assert all(0 < len(part) <= limit for part in parts)
    assert [open_fences(part) for part in parts] == [[]] * len(parts)


@given(DOCUMENTS, st.integers(40, 400))
@settings(max_examples=200)
def test_the_parts_hold_the_whole_document(text: str, limit: int) -> None:
    assert hold(split(text, limit), text)


@given(SCRAPS, st.integers(1, 120))
@settings(max_examples=400)
@example("```aaa`" * 9, 12)
@example("> ```\n" * 30, 13)
@example("\n" * 50 + "x", 5)
@example("`" * 300, 40)
def test_no_text_is_too_strange_to_be_split(text: str, limit: int) -> None:
    parts = split(text, limit)

    assert all(part.strip() and len(part) <= limit for part in parts)
    assert hold(parts, text)


@given(SCRAPS, st.integers(12, 120))
@settings(max_examples=200)
def test_no_cut_brings_a_link_to_life(text: str, limit: int) -> None:
    for part in split(for_discord(text + "\n[a](https://evil.example)"), limit):
        assert discord_finds(part, "masked") == []


def test_a_text_that_fits_is_one_part() -> None:
    assert split("one\n\ntwo", 8) == ["one\n\ntwo"]


def test_a_blank_text_has_no_parts() -> None:
    assert split("", 10) == split(" \n\n ", 10) == []


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("aaaa bbbb\ncccc\n\ndddd eeee\nffff", 20, ["aaaa bbbb\ncccc", "dddd eeee\nffff"]),
        ("aaaa bbbb\ncccc\n\ndd\neeee ffff", 20, ["aaaa bbbb\ncccc", "dd\neeee ffff"]),
        ("aaaa bbbb cc\ndddd eeee ffff", 20, ["aaaa bbbb cc", "dddd eeee ffff"]),
        ("aaaa bbbb cc. dddd eeee", 20, ["aaaa bbbb cc.", "dddd eeee"]),
        ("aaaa bbbb cccc dddd eeee", 20, ["aaaa bbbb cccc dddd", "eeee"]),
        ("漢字漢字漢字。漢字漢字漢字", 10, ["漢字漢字漢字。", "漢字漢字漢字"]),
        ("a" * 25, 10, ["a" * 10, "a" * 10, "a" * 5]),
        ("aa\n" + "b" * 15, 10, ["aa", "b" * 10, "b" * 5]),
        ("aa " + "b" * 15, 10, ["aa", "b" * 10, "b" * 5]),
        ("\n \n  - bb", 20, ["  - bb"]),
        ("aa\n\n\n\n\n  - bb", 6, ["aa", "  - bb"]),
    ],
)
def test_a_cut_goes_where_it_hurts_least(text: str, limit: int, parts: list[str]) -> None:
    assert split(text, limit) == parts


def test_a_line_of_ten_thousand_characters_is_cut_between_words() -> None:
    text = "word " * 2_000

    parts = split(text, 2_000)

    assert len(parts) == 5
    assert " ".join(parts) == text.strip()


def test_a_fence_is_closed_and_opened_again() -> None:
    text = "Look:\n```python\n" + "".join(f"line {n}\n" for n in range(6)) + "```\nDone."

    assert split(text, 45) == [
        "Look:\n```python\nline 0\nline 1\nline 2\n```",
        "```python\nline 3\nline 4\nline 5\n```\nDone.",
    ]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("~~~~sh", "~~~~"),
        ("````md", "````"),
        ("   ```c", "   ```"),
        ("> ```c", "> ```"),
        ("```c++ title", "```"),
    ],
)
def test_each_kind_of_fence_is_opened_again_as_it_was(opening: str, closing: str) -> None:
    quote = closing.rstrip("`~ ")
    text = "\n".join([opening, *[f"{quote} code();"] * 12, closing])

    parts = split(text, 80)

    assert len(parts) > 1
    assert all(part.startswith(opening + "\n") for part in parts)
    assert all(part.endswith("\n" + closing) for part in parts)


def test_a_fence_that_begins_a_list_item_is_opened_again_without_the_bullet() -> None:
    parts = split("- ```py\n" + "  code()\n" * 12 + "  ```", 60)

    assert all(part.startswith("  ```py\n  code()") for part in parts[1:])
    assert all(part.endswith("  code()\n  ```") for part in parts)


def test_a_fence_that_is_left_open_is_closed() -> None:
    assert split("```\ncode", 20) == ["```\ncode\n```"]
    assert split("```\n" + "code\n" * 9, 20)[-1].endswith("code\n```")


def test_a_shorter_fence_inside_does_not_close_a_longer_one() -> None:
    text = "````md\n```py\n" + "code()\n" * 20 + "```\n````"

    parts = split(text, 60)

    assert all(part.startswith("````md\n") and part.endswith("\n````") for part in parts)


def test_inline_code_in_three_backticks_opens_no_fence() -> None:
    parts = split("```a``` is code\n" + "word " * 40, 60)

    assert sum(part.count("```") for part in parts) == 2


def test_a_fence_in_a_quotation_ends_with_it() -> None:
    parts = split("> ```\n> code()\n" + "word " * 40, 60)

    assert sum(part.count("```") for part in parts) == 1


def test_code_keeps_its_indentation_and_its_blank_lines() -> None:
    lines = [f"    if {n}:\n\n        return {n}" for n in range(40)]

    parts = split("```py\n" + "\n".join(lines) + "\n```", 200)

    inner = [part.removeprefix("```py\n").removesuffix("\n```") for part in parts]
    assert "\n".join(inner) == "\n".join(lines)


def test_no_part_ends_with_a_fence_just_opened() -> None:
    parts = split("word " * 14 + "\n```py\n" + "x" * 40 + "\n```", 80)

    assert parts[0] == ("word " * 14).strip()
    assert parts[1] == "```py\n" + "x" * 40 + "\n```"


def test_a_line_of_code_that_is_too_long_is_cut_and_still_code() -> None:
    parts = split("```js\n" + "x" * 300 + "\n```", 100)

    assert all(re.fullmatch(r"```js\nx+\n```", part) for part in parts)
    assert sum(part.count("x") for part in parts) == 300


def test_an_info_string_that_is_too_long_is_said_once() -> None:
    parts = split("```" + "info " * 8 + "\n" + "code\n" * 30 + "```", 80)

    assert all(part.startswith("```\ncode") for part in parts[1:])


def test_no_cut_goes_through_a_character() -> None:
    for sign in ("👩‍👩‍👧", "e\u0301", "👍🏽", "☺\ufe0f"):
        for limit in range(20, 26):
            assert all(part.replace(sign, "") == "" for part in split(sign * 40, limit))


def test_no_cut_goes_through_an_entity() -> None:
    parts = split(for_slack("a<b>&c" * 30), 40)

    assert all(re.fullmatch(r"(?:[abc]|&(?:lt|gt|amp);)*", part) for part in parts)


def test_another_measure_can_be_given() -> None:
    def units(text: str) -> int:
        return len(text.encode("utf-16-le")) // 2

    parts = split("😀" * 50 + "```py\n" + "é😀\n" * 60 + "```", 60, length=units)

    assert all(units(part) <= 60 for part in parts)
    assert sum(part.count("😀") for part in parts) == 110


def test_too_many_parts_end_with_a_mark() -> None:
    text = "```py\n" + "code()\n" * 200 + "```"

    parts = split(text, 100, max_parts=3)

    assert len(parts) == 3
    assert parts[2].endswith("code()\n```" + CUT)
    assert all(len(part) <= 100 for part in parts)


def test_enough_parts_have_no_mark() -> None:
    text = "word " * 30 + "\n" + "\u3000" * 90

    assert split(text, 80, max_parts=2) == split(text, 80)
    assert len(split(text, 80)) == 2


@given(DOCUMENTS, st.integers(64, 300), st.integers(1, 4))
def test_there_are_never_more_parts_than_allowed(text: str, limit: int, most: int) -> None:
    parts = split(text, limit, max_parts=most)

    assert len(parts) <= most
    assert all(len(part) <= limit for part in parts)
    assert (parts == split(text, limit)) == (not parts or not parts[-1].endswith(CUT))


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="use at least 1"):
        split("text", 0)
    with pytest.raises(ValueError, match="use at least 64"):
        split("text", 63, max_parts=2)
