"""Recognises one-word answers, the same on every platform (pure)."""

import re
from typing import NamedTuple

#: The accepted words for each choice, in lower case.
WORDS = {
    "yes": frozenset({"yes", "y", "ok", "confirm", "approve", "allow"}),
    "all": frozenset({"all", "always"}),
    "no": frozenset({"no", "n", "deny", "cancel"}),
}
_CHOICES = {word: choice for choice, words in WORDS.items() for word in words}
_ANSWER = re.compile(rf"(?P<word>{'|'.join(_CHOICES)})(?: (?P<ending>[0-9a-f]{{4,32}}))?[.!]?")


class ShortAnswer(NamedTuple):
    """A yes, a yes to all questions of a run, or a no.

    Attributes:
        choice: A key of `WORDS`.
        ending: The last characters of the question's id; empty if only one question is open.
    """

    choice: str
    ending: str


def short_answer(text: str) -> ShortAnswer | None:
    """Return the answer in a message that contains nothing else; `None` for any other message."""
    match = _ANSWER.fullmatch(text.strip().lower())
    return match and ShortAnswer(_CHOICES[match["word"]], match["ending"] or "")
