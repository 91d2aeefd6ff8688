"""Formats calls for permission questions and logs; derives ids and hashes of questions (pure)."""

import hashlib
import json
import re
from itertools import islice

from bot.agent.messages import ToolCall
from bot.agent.sanitizer import one_line
from bot.masking import MASK, without_secrets
from bot.values import Json, derived_run_id

#: Longest text of a shortened call, in characters.
MOST_BRIEF = 300
#: Limits in a log: characters of a name and of one value, parts of a value, and nesting depth.
MOST_NAME, MOST_VALUE, MOST_PARTS, MOST_DEPTH = 60, 120, 12, 3
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:passwd|password|secret|token|api_?key|authorization)$", re.IGNORECASE
)


def question_id(run_id: str, call_id: str) -> str:
    """Return the id of the question about a call of a run."""
    return derived_run_id(run_id, call_id).replace("-", "")


def fingerprint(*bound: object) -> str:
    """Return the hash that binds an answer to the shown call and its owner."""
    text = json.dumps(bound, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def spelled(tool: str, arguments: Json) -> str:
    """Return a call for a permission question: complete, with secrets masked."""
    given = ", ".join(
        f"{_line(_visible(name))}="
        f"{_line(_visible(json.dumps(value, ensure_ascii=False, default=str)))}"
        for name, value in arguments.items()
    )
    return f"`{tool}({without_secrets(given, prose=True).replace('`', 'ˋ')})`"


def briefly_spelled(tool: str, arguments: Json) -> str:
    """Return the beginning of a call, to name a call that was shown in full before."""
    whole = spelled(tool, arguments)
    return whole if len(whole) <= MOST_BRIEF else f"{whole[: MOST_BRIEF - 2]}…`"


def logged(call: ToolCall) -> str:
    """Format a call as a shortened line of a log: `→ grep(pattern: whale, glob: *.md)`."""
    given = ", ".join(
        f"{one_line(name, MOST_NAME)}: {_brief(value, name)}"
        for name, value in islice(call.arguments.items(), MOST_PARTS)
    )
    if call.malformed:
        given = f"arguments that are no JSON: {call.malformed}"
    return f"→ {one_line(call.name, MOST_NAME)}({one_line(given, MOST_BRIEF)})"


def _brief(value: object, name: str = "", *, depth: int = 0) -> str:
    """Format an argument's value, shortened; mask it if its name marks a secret."""
    if _SECRET_NAME.search(name):
        return MASK
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case dict() | list() if depth >= MOST_DEPTH:
            return "…"
        case dict():
            parts = islice(value.items(), MOST_PARTS)
            given = [f"{key}: {_brief(part, str(key), depth=depth + 1)}" for key, part in parts]
        case list():
            given = [_brief(part, depth=depth + 1) for part in islice(value, MOST_PARTS)]
        case _:
            return one_line(str(value), MOST_VALUE)
    more = ["…"] if len(value) > MOST_PARTS else []
    return f"({one_line(', '.join(given + more), MOST_VALUE)})"


def _visible(text: str) -> str:
    """Return the text with unprintable characters escaped as in JSON.

    A terminal and our own sanitising treat some of these characters, and the text after them, as a
    terminal command: that text would not be shown.
    """
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _line(text: str) -> str:
    return one_line(text, len(text) + 100)
