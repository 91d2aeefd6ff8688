import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.agent.plain import CUT_MARK, plain
from tests.fakes.hostile_texts import ALL, CODE, HIDDEN, LANGUAGES

FRAGMENTS = st.sampled_from(
    [
        *("a", "é", "क", "\u094d", "ا", "\n", " ", "\u3000", "1", "\t", "\0", "\r", "\x1b", "["),
        *("\x1b[31m", "\x1b]", "\x07", "\x9b", "\x85", "\ud83d", "\ude00", "\u200b", "\u00ad"),
        *("\u200c", "\u200d", "\ufe0f", "\ufe01", "\U000e0100", "\u180b", "\u0301", "\u0e47"),
        *("👩", "❤", "👍", "🏽", "\U0001f3f4", "\U000e0067", "\U000e0062", "\U000e007f", "\u202e"),
        *(LANGUAGES[-1][:8], "\u20e3", "…"),
    ]
)
TEXTS = st.text() | st.lists(FRAGMENTS, max_size=40).map("".join) | st.sampled_from(ALL)


@given(TEXTS)
@settings(max_examples=400)
def test_cleaning_a_second_time_changes_nothing(text: str) -> None:
    once = plain(text)

    assert plain(once) == once


@given(TEXTS, st.integers(1, 120))
@settings(max_examples=400)
@example("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f" * 9, 61)
def test_a_cut_text_is_within_the_limit_and_clean(text: str, limit: int) -> None:
    once = plain(text, limit=limit)

    assert len(once) <= limit
    assert plain(once, limit=limit) == once


@given(TEXTS)
@settings(max_examples=300)
def test_what_is_left_can_be_stored_sent_and_seen(text: str) -> None:
    clean = plain(text, limit=None)

    clean.encode()
    assert not set(clean) & {"\0", "\r", "\x1b", "\u2028", "\u200b", "\ufeff", "\u202e", "\u2066"}
    categories = {unicodedata.category(character) for character in set(clean) - {"\n", "\t"}}
    assert not categories & {"Cc", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize("text", [*CODE, *LANGUAGES])
def test_innocent_writing_is_left_alone(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\label\x1b]8;;\x1b\\", "label"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x1bPq#0\x1b\\text", "text"),
        ("\x1b\x1b[31m[0m", "[0m"),
        ("\x1b]52;never closed\nmore", "52;never closed\nmore"),
        ("\x1b[1;2", "1;2"),
        ("one\r\ntwo\rthree\x0cfour\x85five\u2028six", "one\ntwo\nthree\nfour\nfive\nsix"),
        ("a\0b\ud800c", "a\ufffdb\ufffdc"),
        ("\ud83d\ude00", "😀"),
        ("bell\x07 \x7f\x9f", "bell "),
        ("\u202egnp.exe", "gnp.exe"),
        ("@every\u200bone z\u200cw\u200dj\u2060", "@everyone zwj"),
        ("a" + chr(0xE0041) * 9, "a"),
        ("🏴" + chr(0xE0067) * 5, "🏴"),
        ("a\ufe01b\ufe0f", "ab"),
        ("😀" + "\U000e0121\U000e0132" * 9, "😀\U000e0121"),
        ("☺\ufe0f\ufe0f\ufe0f", "☺\ufe0f"),
        ("👩\u200d👧 👩\u200d\u200d👧 👩\u200da", "👩\u200d👧 👩👧 👩a"),
        ("H" + "\u0301\u0316" * 9 + "i", "H\u0301\u0316\u0301\u0316i"),
        ("ส" + "็" * 60, "ส" + "็" * 4),
    ],
)
def test_what_no_reader_can_see_is_gone(text: str, seen: str) -> None:
    assert plain(text) == seen


def test_hidden_texts_cannot_carry_a_message() -> None:
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")

    for text in (*HIDDEN, *ALL):
        assert not set(plain(text + tags)) & set(tags)


def test_a_cut_is_visible() -> None:
    text = plain("abcd " * 50, limit=101)

    assert text == "abcd " * 17 + "abc" + CUT_MARK


def test_what_was_left_off_unread_is_a_cut_too() -> None:
    text = plain("\u200b" * 400 + "the rest", limit=100)

    assert text == CUT_MARK


def test_without_a_limit_nothing_is_cut() -> None:
    assert plain("a" * 50_000, limit=None) == "a" * 50_000
