"""The state of a run in one icon and in words."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from bot.run_texts import counted, status_text
from bot.values import RunStatus

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("status", list(RunStatus))
def test_every_state_is_said_in_words(status: RunStatus) -> None:
    icon, words = status_text(status)

    assert icon
    assert words == words.lower()
    assert "_" not in words
    assert (icon == "🟢") == (status is RunStatus.COMPLETED)
    assert ("completed" in words) == (status is RunStatus.COMPLETED)


def test_an_admin_who_stopped_a_run_is_named() -> None:
    assert status_text(RunStatus.CANCELLED, "carol") == ("⚫", "stopped by @carol")
    assert status_text(RunStatus.COMPLETED, "carol") == ("🟢", "completed")


def test_a_run_that_completed_without_its_tools_is_yellow() -> None:
    shown = ("🟡", "finished without its tools")

    assert status_text(RunStatus.COMPLETED, degraded=True) == shown
    assert status_text(RunStatus.FAILED, degraded=True) == status_text(RunStatus.FAILED)


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 tool calls"), (1, "1 tool call"), (1200, "1,200 tool calls")]
)
def test_one_of_a_thing_is_not_plural(count: int, said: str) -> None:
    assert counted(count, "tool call") == said


#: What there can be one of. Lengths and sizes in characters, bytes and seconds are left out.
COUNTED = [
    *("steps", "tool calls", "calls", "runs", "tasks", "questions", "schedules", "files", "tools"),
    *("messages", "matches", "minutes", "hours", "people", "models", "agents"),
]
#: Branches for more than one, and numbers that are always larger.
MANY = {
    ("bot/models/failures.py", "minutes"),
    ("bot/models/failures.py", "hours"),
    ("bot/platforms/slack/checkup.py", "messages"),
    ("bot/platforms/terminal/texts.py", "questions"),
    ("skills/shell/watchdog.py", "files"),
    ("bot/subagents/asking.py", "calls"),
    ("bot/subagents/planning.py", "steps"),
    ("bot/subagents/wording.py", "messages"),
    ("skills/files/settings.py", "files"),
    ("skills/files/skill.py", "matches"),
}


def plurals(path: Path) -> Iterator[str]:
    """Return the plural nouns that stand behind a number which a module puts into a text."""
    for text in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(text, ast.JoinedStr):
            continue
        for number, after in pairwise(text.values):
            if not isinstance(number, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            constant = ast.unparse(number.value).split(".")[-1].isupper()
            for noun in COUNTED:
                if not constant and re.match(rf" {noun}\b", str(after.value)):
                    yield noun


def test_numbers_stand_before_their_noun_through_one_function() -> None:
    modules = [path for part in ("bot", "skills", "db") for path in (ROOT / part).rglob("*.py")]

    found = {(str(path.relative_to(ROOT)), noun) for path in modules for noun in plurals(path)}

    assert found - MANY == set()
    assert MANY - found == set(), "of the exceptions, these are no more"
