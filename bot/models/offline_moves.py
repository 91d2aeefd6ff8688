"""What the offline demo can do in one answer: say something, or wish for tool calls."""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.agent.messages import Answer, Message, ToolCall
from bot.models.base import ToolDescription
from bot.values import Json

SIGNATURE = "_(offline demo: no language model is connected)_"

_CALL_ID = re.compile(r"call_(\d+)")
_RESULT = re.compile(r"<subagent_result[^>]*>\s*(.*?)\s*</subagent_result>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Wish:
    """A tool call that the demo wants to make, with the arguments it has for it."""

    tool: str
    arguments: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """One answer: its words, and its wishes; without wishes it is the final reply.

    Attributes:
        paces: How long it takes, in paces of the demo.
    """

    text: str
    wishes: tuple[Wish, ...] = ()
    paces: int = 1


def final(text: str) -> Move:
    """Return the final reply, signed, so that nobody takes the demo for a real model."""
    return Move(f"{text}\n\n{SIGNATURE}")


def with_files(names: Sequence[str], move: Move) -> Move:
    """Return the answer with a word about the files that were seen."""
    if not names:
        return move
    seen = "1 file" if len(names) == 1 else f"{len(names)} files"
    return replace(move, text=f"I see {seen}: {', '.join(names)}.\n\n{move.text}".strip())


def call_for(wish: Wish, tool: ToolDescription, number: int) -> ToolCall:
    """Return the call of a tool by its schema: known arguments only, and none missing."""
    properties: Mapping[str, Json] = tool.schema.get("properties", {})
    arguments = {name: value for name, value in wish.arguments.items() if name in properties}
    spare = next((value for value in wish.arguments.values() if isinstance(value, str)), "")
    for name in tool.schema.get("required", ()):
        if name not in arguments:
            arguments[name] = _filling(properties.get(name, {}), spare)
    return ToolCall(f"call_{number}", tool.name, arguments)


def _filling(schema: Json, spare: str) -> object:
    """Return something for an argument that no rule knows."""
    if "enum" in schema:
        return schema["enum"][0]
    fillings: dict[str, object] = {
        "integer": schema.get("minimum", 1),
        "number": schema.get("minimum", 1),
        "boolean": False,
        "array": [],
        "object": {},
    }
    return fillings.get(schema.get("type", "string"), spare)


def calls_so_far(messages: Iterable[Message]) -> int:
    """Return the number of the last call; trimming the history does not change it."""
    ids = [call.id for message in messages if isinstance(message, Answer) for call in message.calls]
    return max((int(match[1]) for id_ in ids if (match := _CALL_ID.match(id_))), default=0)


_NOT_THE_THING = frozenset(
    {"research", "study", "look", "up", "find", "out", "about", "the", "a", "an", "on", "into"}
)


def label_of(task: str) -> str:
    """Return a few words that tell a task from another: what it is about, not what to do."""
    words = re.findall(r"[\w’'-]+", task)
    while len(words) > 1 and words[0].lower() in _NOT_THE_THING:
        words.pop(0)
    return " ".join(words[:5])[:40] or "task"


def findings(text: str) -> str:
    """Return what subagents found, out of the tags and the warning that stand before it."""
    bodies = []
    for wrapped in _RESULT.findall(text):
        warning, _, body = wrapped.partition("\n\n")
        bodies.append(html.unescape(body or warning).replace(SIGNATURE, "").strip())
    return "\n\n".join(bodies) or text.strip()


def fields_of(text: str) -> Json:
    """Return the JSON object that a tool answered with, or nothing."""
    try:
        given = json.loads(text)
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}
