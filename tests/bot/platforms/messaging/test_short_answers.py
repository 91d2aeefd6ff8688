"""Answers in a word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.platforms.messaging.texts import WORDS, short_answer

EVERY = [(word, choice) for choice, words in WORDS.items() for word in sorted(words)]


@pytest.mark.parametrize(("word", "choice"), EVERY)
@pytest.mark.parametrize("form", ["{}", " {}!\n", "{}."])
def test_a_word_is_an_answer_however_it_is_typed(word: str, choice: str, form: str) -> None:
    for spelled in (word, word.upper(), word.title()):
        assert short_answer(form.format(spelled)) == (choice, "")


def test_an_answer_may_name_the_question() -> None:
    assert short_answer("no 0A1b2c.") == ("no", "0a1b2c")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes please",
        "yesyes",
        "no 12",
        "no 12345g",
        "ok, but why?",
        "y?",
        "all of them",
        "yes\nno",
    ],
)
def test_what_says_more_is_a_message_like_any_other(text: str) -> None:
    assert short_answer(text) is None


@given(st.text(max_size=60))
def test_no_text_is_too_odd(text: str) -> None:
    answer = short_answer(text)

    assert answer is None or answer.choice in WORDS
