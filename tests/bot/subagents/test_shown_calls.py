"""Calls in a log are lines that people read."""

import pytest

from bot.agent.messages import ToolCall
from bot.masking import MASK
from bot.subagents.shown_calls import MOST_BRIEF, logged
from bot.values import Json

KEY = "sk-" + "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, "→ look()"),
        ({"path": "a.txt", "limit": 5}, "→ look(path: a.txt, limit: 5)"),
        ({"deep": True, "quiet": False, "at": None}, "→ look(deep: yes, quiet: no, at: none)"),
        ({"items": ["a", "b"], "by": {"name": "x"}}, "→ look(items: (a, b), by: (name: x))"),
        ({"text": "one\ntwo"}, "→ look(text: one two)"),
        ({"password": "tiger", "api_key": "x", "key": "sheep"}, None),
        ({"text": f"the key {KEY}"}, f"→ look(text: the key {MASK})"),
    ],
)
def test_arguments_are_pairs_of_name_and_value(arguments: Json, line: str | None) -> None:
    hidden = f"→ look(password: {MASK}, api_key: {MASK}, key: sheep)"

    assert logged(ToolCall("1", "look", arguments)) == (line or hidden)


def test_a_call_whose_arguments_are_no_json_shows_their_beginning() -> None:
    line = logged(ToolCall("1", "look", malformed='{"at": '))

    assert line == '→ look(arguments that are no JSON: {"at":)'


def test_long_and_deep_arguments_are_cut() -> None:
    deep: Json = {}
    for _ in range(5_000):
        deep = {"a": deep}

    assert logged(ToolCall("1", "look", deep)) == "→ look(a: (a: (a: (a: …))))"
    long = logged(ToolCall("1", "look", {f"n{number}": "x" * 900 for number in range(90)}))
    assert len(long) < MOST_BRIEF + 20
    assert long.endswith("…)")
