"""The messages between agent and model, independent of the provider."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from bot.values import Json

#: Tokens of an image of usual size; providers scale larger images down.
IMAGE_TOKENS = 1_600


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more model calls, as the provider counted them.

    Attributes:
        input: Input tokens that were neither read from nor written to the cache.
        output: Output tokens, thinking included.
        cache_read: Input tokens read from the cache.
        cache_write: Input tokens written to the cache.
        discount: Tokens that do not count against a budget, since input read from a cache costs a
            fraction of new input. Excluded from comparisons.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    discount: int = field(default=0, compare=False)

    @property
    def all_input(self) -> int:
        """Every input token, cached or not."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """All tokens: input, cached or not, and output."""
        return self.all_input + self.output

    @property
    def weighted(self) -> int:
        """Tokens as they count against a budget."""
        return self.total - self.discount

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.discount + other.discount,
        )


class StopReason(StrEnum):
    """The reason for the end of an answer."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    PAUSE = "pause"
    CONTEXT_FULL = "context_full"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call requested by the model.

    Attributes:
        malformed: The raw text of arguments that are no usable JSON object; `arguments` is then
            empty, and the call is answered with an error instead of being made.
    """

    id: str
    name: str
    arguments: Json = field(default_factory=dict)
    malformed: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call, as the model reads it.

    Attributes:
        foreign: Whether it holds content that neither the user nor the bot wrote.
        private: Whether it holds private material.
        found: The names of tools that the call found.
    """

    call_id: str
    text: str
    failed: bool = False
    foreign: bool = False
    private: bool = False
    found: tuple[str, ...] = ()

    @property
    def document(self) -> Json:
        """The result as JSON, for the steps table."""
        row = {"id": self.call_id, "text": self.text, "failed": self.failed}
        row |= {"foreign": self.foreign, "private": self.private}
        return row | ({"found": list(self.found)} if self.found else {})

    @classmethod
    def read(cls, document: Json) -> "ToolResult":
        """Return the result in `document`; one stored before the flags existed has both set."""
        return cls(
            document["id"],
            document["text"],
            document["failed"],
            foreign=document.get("foreign", True),
            private=document.get("private", True),
            found=tuple(document.get("found", ())),
        )


@dataclass(frozen=True, slots=True)
class Image:
    """An image for a model.

    Attributes:
        media_type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    """

    media_type: str
    data: bytes = field(repr=False)

    @property
    def base64(self) -> str:
        """The image in Base64, the form that providers accept."""
        return b64encode(self.data).decode()


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message to the agent, from the user, its parent or the runtime.

    Attributes:
        images: Images shown with the text; text or images may be empty.
    """

    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResults:
    """The results of all calls of one answer, in the order of the calls.

    Attributes:
        note: Text of the runtime or of a user beside the results (a warning, a message sent to
            the run); empty for none.
    """

    results: tuple[ToolResult, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a model.

    Attributes:
        model: The model that answered, as the provider names it.
        native: The provider's own content blocks as JSON, to be sent back unchanged to the same
            provider and model (thinking blocks are signed); `None` if text and calls are complete.
        thought: Whether the model thought before it answered.
        fallback: The `provider/model` that answered instead of the requested one; empty if the
            requested one answered.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    stop: StopReason = StopReason.END
    usage: Usage = Usage()
    model: str = ""
    native: list[Json] | None = None
    thought: bool = False
    fallback: str = ""


Message = UserMessage | ToolResults | Answer


def with_unique_ids(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls with unique ids, since results refer to calls by id."""
    seen: set[str] = set()
    unique = []
    for index, call in enumerate(calls):
        fresh = call
        while not fresh.id or fresh.id in seen:
            fresh = replace(fresh, id=f"{fresh.id}_{index}")
        seen.add(fresh.id)
        unique.append(fresh)
    return tuple(unique)


def to_json(message: Message) -> Json:
    """Return a message as a JSON document for the steps table."""
    match message:
        case UserMessage(text, images):
            shown = [{"media_type": each.media_type, "base64": each.base64} for each in images]
            return {"kind": "user", "text": text} | ({"images": shown} if shown else {})
        case ToolResults(results, note):
            rows = [result.document for result in results]
            return {"kind": "results", "results": rows, "note": note}
        case Answer():
            return {
                "kind": "answer",
                "text": message.text,
                "calls": [
                    {"id": c.id, "name": c.name, "arguments": c.arguments, "malformed": c.malformed}
                    for c in message.calls
                ],
                "stop": str(message.stop),
                "usage": [
                    message.usage.input,
                    message.usage.output,
                    message.usage.cache_read,
                    message.usage.cache_write,
                ],
                "discount": message.usage.discount,
                "model": message.model,
                "native": message.native,
                "thought": message.thought,
            } | ({"fallback": message.fallback} if message.fallback else {})


def from_json(document: Json) -> Message:
    """Return the message that `to_json` wrote.

    Raises:
        ValueError: The document is no message.
    """
    match document:
        case {"kind": "user", "text": str(text)}:
            shown = document.get("images", ())
            images = (Image(each["media_type"], b64decode(each["base64"])) for each in shown)
            return UserMessage(text, tuple(images))
        case {"kind": "results", "results": list(rows), "note": str(note)}:
            return ToolResults(tuple(map(ToolResult.read, rows)), note)
        case {"kind": "answer"}:
            return Answer(
                document["text"],
                tuple(
                    ToolCall(c["id"], c["name"], c["arguments"], c["malformed"])
                    for c in document["calls"]
                ),
                StopReason(document["stop"]),
                replace(Usage(*document["usage"]), discount=document.get("discount", 0)),
                document["model"],
                document["native"],
                document.get("thought", False),
                document.get("fallback", ""),
            )
    raise ValueError(f"No message: {document!r}")


def holds_images(messages: Iterable[Message]) -> bool:
    """Return True if any of these messages holds an image."""
    return any(isinstance(message, UserMessage) and message.images for message in messages)


def estimate_tokens(value: str | Sequence[Message] | Any) -> int:
    """Return a rough upper estimate of the tokens of a text or of messages: a third of the length.

    An image counts as `IMAGE_TOKENS`, whatever its size. No local tokenizer exists for the models
    in use; the charge follows the provider's count.
    """
    if isinstance(value, str):
        return len(value) // 3 + 1
    length = 0
    for message in value:
        match message:
            case UserMessage(text, images):
                length += len(text) + 12 + 3 * IMAGE_TOKENS * len(images)
            case ToolResults(results, note):
                length += sum(len(result.text) + 60 for result in results) + len(note)
            case Answer(native=list(native)):
                length += len(str(native))
            case Answer(text, calls):
                length += len(text) + sum(len(str(call.arguments)) + 60 for call in calls)
    return length // 3 + 1
