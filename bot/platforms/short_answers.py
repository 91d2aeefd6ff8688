"""What counts as an answer in a word: the same on every platform (pure)."""

import re
from typing import NamedTuple

#: What people write for each choice, in lower case.
WORDS = {
    "yes": frozenset({"yes", "y", "ok", "confirm", "approve", "allow"}),
    "all": frozenset({"all", "always"}),
    "no": frozenset({"no", "n", "deny", "cancel"}),
}
_CHOICES = {word: choice for choice, words in WORDS.items() for word in words}
_ANSWER = re.compile(rf"(?P<word>{'|'.join(_CHOICES)})(?: (?P<ending>[0-9a-f]{{4,32}}))?[.!]?")


class ShortAnswer(NamedTuple):
    """A yes, a yes to all that a run may ask, or a no.

    Attributes:
        choice: A key of `WORDS`.
        ending: With what the id of the question ends that is meant; empty for the only one.
    """

    choice: str
    ending: str


def short_answer(text: str) -> ShortAnswer | None:
    """Return the answer that a message is and nothing else; `None` for any other message."""
    match = _ANSWER.fullmatch(text.strip().lower())
    return match and ShortAnswer(_CHOICES[match["word"]], match["ending"] or "")
