"""The answers of the offline demo: a text, and the tool calls that it wants to make."""

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
    """A tool call that the demo wants to make, with the arguments known so far."""

    tool: str
    arguments: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """One answer of the demo: a text and wishes. An answer without wishes is the final reply.

    Attributes:
        paces: Duration of the answer, in units of `OfflineSettings.pace_seconds`.
    """

    text: str
    wishes: tuple[Wish, ...] = ()
    paces: int = 1


def final(text: str) -> Move:
    """Return the final reply with a signature that identifies the demo."""
    return Move(f"{text}\n\n{SIGNATURE}")


def with_files(names: Sequence[str], move: Move) -> Move:
    """Return the answer with the names of the files in front of the text."""
    if not names:
        return move
    seen = "1 file" if len(names) == 1 else f"{len(names)} files"
    return replace(move, text=f"I see {seen}: {', '.join(names)}.\n\n{move.text}".strip())


def call_for(wish: Wish, tool: ToolDescription, number: int) -> ToolCall:
    """Return a valid call of the tool: only arguments of its schema, and all required ones."""
    properties: Mapping[str, Json] = tool.schema.get("properties", {})
    arguments = {name: value for name, value in wish.arguments.items() if name in properties}
    spare = next((value for value in wish.arguments.values() if isinstance(value, str)), "")
    for name in tool.schema.get("required", ()):
        if name not in arguments:
            arguments[name] = _filling(properties.get(name, {}), spare)
    return ToolCall(f"call_{number}", tool.name, arguments)


def _filling(schema: Json, spare: str) -> object:
    """Return a placeholder for a required argument that no rule provides."""
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
    """Return the number in the newest call's id, which trimming the history does not change."""
    ids = [call.id for message in messages if isinstance(message, Answer) for call in message.calls]
    return max((int(match[1]) for id_ in ids if (match := _CALL_ID.match(id_))), default=0)


_NOT_THE_THING = frozenset(
    {"research", "study", "look", "up", "find", "out", "about", "the", "a", "an", "on", "into"}
)


def label_of(task: str) -> str:
    """Return a short label for a task: its first words, without leading verbs and articles."""
    words = re.findall(r"[\w’'-]+", task)
    while len(words) > 1 and words[0].lower() in _NOT_THE_THING:
        words.pop(0)
    return " ".join(words[:5])[:40] or "task"


def findings(text: str) -> str:
    """Return the results of subagents, without the tags and the warning around each."""
    bodies = []
    for wrapped in _RESULT.findall(text):
        warning, _, body = wrapped.partition("\n\n")
        bodies.append(html.unescape(body or warning).replace(SIGNATURE, "").strip())
    return "\n\n".join(bodies) or text.strip()


def fields_of(text: str) -> Json:
    """Return the JSON object in a tool's result; empty if the result is none."""
    try:
        given = json.loads(text)
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}
