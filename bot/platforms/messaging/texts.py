"""Texts of all platforms: shared wording and one-word answers (pure)."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from bot.values import StepState

#: Most choices in one question, and most characters in the label of a choice.
MOST_TO_PICK, LONGEST_LABEL = 6, 70

#: Notice about an undeliverable announcement that is stored; does not reveal its content.
KEPT_FOR_USER = (
    "I have something for you that I cannot deliver: neither its thread nor your direct messages "
    "take it. `/subagents list` shows it."
)

_STEP_MARKS = {StepState.RUNNING: "●", StepState.DONE: "✓", StepState.FAILED: "✗"}
_ANSWER_MARKS = {"yes": "✅", "all": "✅", "always": "✅", "no": "❌"}

#: The accepted words for each choice, in lower case.
WORDS = {
    "yes": frozenset({"yes", "y", "ok", "sure", "confirm", "approve", "allow"}),
    "all": frozenset({"all", "always"}),
    "no": frozenset({"no", "n", "deny", "cancel"}),
}
_CHOICES = {word: choice for choice, words in WORDS.items() for word in words}
_ANSWER = re.compile(rf"(?P<word>{'|'.join(_CHOICES)})(?: (?P<ending>[0-9a-f]{{4,32}}))?[.!]?")


def stop_watch(seconds: float) -> str:
    """Return a duration as a stop watch shows it: `0:42`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def call_lines(steps: Sequence[tuple[str, StepState]], *, calls: int, most: int = 7) -> list[str]:
    """Return the tool calls of a run as the lines of a tree below the run.

    Args:
        steps: (tool, state) of the newest calls, oldest first; already escaped.
        calls: The number of all calls; those before the newest are counted in a line.
        most: The most lines; the newest calls are shown.
    """
    earlier = max(0, calls - len(steps)) if steps else 0
    noted = most > 1 and (earlier > 0 or len(steps) > most)
    room = most - noted
    kept = steps[-room:] if room > 0 else ()
    lines = [f"{_STEP_MARKS[state]} {tool}" for tool, state in kept]
    if noted:
        lines.insert(0, f"… {earlier + len(steps) - len(kept):,} earlier")
    return [f"{'├' if n < len(lines) else '└'} {line}" for n, line in enumerate(lines, 1)]


def alternatives(words: Sequence[str]) -> str:
    """Return alternatives joined with "or": `yes, all or no`."""
    *before, last = words or [""]
    return f"{', '.join(before)} or {last}" if before else last


def decision(who: str, label: str, key: str = "") -> str:
    """Return a line about the answer to a question.

    Args:
        who: The user who answered, as the platform names users.
        label: The label of the choice, or the answer in short.
        key: The key of the choice; empty if the answer was a message.
    """
    word = label.lower()
    if word in {"yes", "no"}:
        return f"{_ANSWER_MARKS[word]} {who} said {word}."
    return f"{_ANSWER_MARKS.get(key, '💬')} {who}: {label}"


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
