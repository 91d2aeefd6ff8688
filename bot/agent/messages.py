"""The messages between agent and model, independent of the provider."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256

from bot.values import Json

#: Tokens of an image of usual size; providers scale larger images down.
IMAGE_TOKENS = 1_600
#: Tokens of a page of a PDF, which providers read as text and as an image.
PAGE_TOKENS = 2_500


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more model calls, as the provider counted them.

    Attributes:
        input: Input tokens that were neither read from nor written to the cache.
        output: Output tokens, thinking included.
        cache_read: Input tokens read from the cache.
        cache_write: Input tokens written to the cache.
        discount: Tokens that do not count against a budget, since input read from a cache costs a
            fraction of new input. Excluded from comparisons, as is the cost.
        cost: The price in micro-dollars; `None` if it is unknown.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    discount: int = field(default=0, compare=False)
    cost: int | None = field(default=None, compare=False)

    @property
    def money(self) -> int | None:
        """The cost in micro-dollars: 0 without tokens, `None` if a call had no price."""
        return self.cost if self.cost is not None or self.total else 0

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
        mine, others = self.money, other.money
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.discount + other.discount,
            None if mine is None or others is None else mine + others,
        )

    def beyond(self, other: "Usage") -> "Usage":
        """Return the part of this usage that exceeds another; nothing of it is negative."""
        total = max(0, self.total - other.total)
        output = min(total, max(0, self.output - other.output))
        read = min(total - output, max(0, self.cache_read - other.cache_read))
        mine, others = self.money, other.money
        return Usage(
            total - output - read,
            output,
            read,
            discount=min(total, max(0, self.discount - other.discount)),
            cost=None if mine is None or others is None else max(0, mine - others),
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


#: Contents of media, by their digests.
Contents = Mapping[str, bytes]
NO_CONTENTS: Contents = {}
SHOWN_BEFORE = "you have seen it, and it is not shown again"


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a PDF that a tool shows to the model with its result.

    Attributes:
        media_type: That of an `Image`, or `application/pdf`.
        name: Its name in notes to the model.
        pages: The pages of a PDF; 0 for an image.
    """

    media_type: str
    data: bytes = field(repr=False)
    name: str
    pages: int = 0

    @property
    def base64(self) -> str:
        """The content in Base64, the form that providers accept."""
        return b64encode(self.data).decode()

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the content, under which a step stores it."""
        return sha256(self.data).hexdigest()

    @property
    def tokens(self) -> int:
        """An upper estimate of its tokens."""
        return PAGE_TOKENS * self.pages or IMAGE_TOKENS


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call, as the model reads it.

    Attributes:
        foreign: Whether it holds content that neither the user nor the bot wrote.
        private: Whether it holds private material.
        found: The names of tools that the call found.
        media: Images and PDFs that the model is shown with the text.
    """

    call_id: str
    text: str
    failed: bool = False
    foreign: bool = False
    private: bool = False
    found: tuple[str, ...] = ()
    media: tuple[Media, ...] = ()

    @property
    def document(self) -> Json:
        """The result as JSON, for the steps table; the contents of media are stored apart."""
        row = {"id": self.call_id, "text": self.text, "failed": self.failed}
        shown = [
            {"digest": m.digest, "type": m.media_type, "name": m.name, "pages": m.pages}
            for m in self.media
        ]
        flags = {"foreign": self.foreign, "private": self.private}
        row |= flags | ({"found": list(self.found)} if self.found else {})
        return row | ({"media": shown} if shown else {})

    @classmethod
    def read(cls, document: Json, contents: Contents = NO_CONTENTS) -> "ToolResult":
        """Return the result in `document`; one stored before the flags existed has both set.

        Args:
            document: The result as JSON.
            contents: The contents of media; media without a content are named in the text.
        """
        found = cls(
            document["id"],
            document["text"],
            document["failed"],
            foreign=document.get("foreign", True),
            private=document.get("private", True),
            found=tuple(document.get("found", ())),
            media=tuple(
                Media(m["type"], contents.get(m["digest"], b""), m["name"], m["pages"])
                for m in document.get("media", ())
            ),
        )
        return found.showing(lambda media: bool(media.data), SHOWN_BEFORE)

    def showing(self, is_shown: Callable[[Media], bool], note: str) -> "ToolResult":
        """Return the result with fewer media: each other one is named in the text, with a note."""
        media = tuple(each for each in self.media if is_shown(each))
        if media == self.media:
            return self
        lines = [f"[{each.name}: {note}]" for each in self.media if each not in media]
        return replace(self, media=media, text="\n".join([self.text, *lines]))


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


@dataclass(frozen=True)
class UserMessage:
    """A message to the agent, from the user, its parent or the runtime.

    Attributes:
        images: Images shown with the text; text or images may be empty.
    """

    text: str
    images: tuple[Image, ...] = ()

    @cached_property
    def size(self) -> int:
        """The size in bytes, of which `estimate_tokens` takes a third."""
        return _bytes_of(self.text) + 12 + 3 * IMAGE_TOKENS * len(self.images)


@dataclass(frozen=True)
class ToolResults:
    """The results of all calls of one answer, in the order of the calls.

    Attributes:
        note: Text of the runtime or of a user beside the results (a warning, a message sent to
            the run); empty for none.
    """

    results: tuple[ToolResult, ...]
    note: str = ""

    @cached_property
    def size(self) -> int:
        """The size in bytes, of which `estimate_tokens` takes a third."""
        texts = sum(_bytes_of(each.text) + 60 for each in self.results) + _bytes_of(self.note)
        return texts + 3 * sum(each.tokens for result in self.results for each in result.media)


@dataclass(frozen=True)
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

    @cached_property
    def size(self) -> int:
        """The size in bytes, of which `estimate_tokens` takes a third."""
        if self.native is not None:
            return _bytes_of(str(self.native))
        calls = sum(_bytes_of(str(call.arguments)) + 60 for call in self.calls)
        return _bytes_of(self.text) + calls


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
        case Answer(usage=used):
            return {
                "kind": "answer",
                "text": message.text,
                "calls": [
                    {"id": c.id, "name": c.name, "arguments": c.arguments, "malformed": c.malformed}
                    for c in message.calls
                ],
                "stop": str(message.stop),
                "usage": [used.input, used.output, used.cache_read, used.cache_write],
                "discount": used.discount,
                "cost": used.cost,
                "model": message.model,
                "native": message.native,
                "thought": message.thought,
            } | ({"fallback": message.fallback} if message.fallback else {})


def from_json(document: Json, contents: Contents = NO_CONTENTS) -> Message:
    """Return the message that `to_json` wrote.

    Args:
        document: The message.
        contents: The contents of the media in results.

    Raises:
        ValueError: The document is no message.
    """
    match document:
        case {"kind": "user", "text": str(text)}:
            shown = document.get("images", ())
            images = (Image(each["media_type"], b64decode(each["base64"])) for each in shown)
            return UserMessage(text, tuple(images))
        case {"kind": "results", "results": list(rows), "note": str(note)}:
            return ToolResults(tuple(ToolResult.read(row, contents) for row in rows), note)
        case {"kind": "answer"}:
            return Answer(
                document["text"],
                tuple(
                    ToolCall(c["id"], c["name"], c["arguments"], c["malformed"])
                    for c in document["calls"]
                ),
                StopReason(document["stop"]),
                replace(
                    Usage(*document["usage"]),
                    discount=document.get("discount", 0),
                    cost=document.get("cost"),
                ),
                document["model"],
                document["native"],
                document.get("thought", False),
                document.get("fallback", ""),
            )
    raise ValueError(f"No message: {document!r}")


def holds_images(messages: Iterable[Message]) -> bool:
    """Return True if any of these messages holds an image or a PDF."""
    return any(
        (isinstance(message, UserMessage) and message.images)
        or (isinstance(message, ToolResults) and any(each.media for each in message.results))
        for message in messages
    )


def estimate_tokens(value: str | Sequence[Message]) -> int:
    """Return a rough upper estimate of the tokens of a text or of messages: a third of the bytes.

    An image counts as `IMAGE_TOKENS`, whatever its size, and a page of a PDF as `PAGE_TOKENS`. No
    local tokenizer exists for the models in use; the charge follows the provider's count.
    """
    if isinstance(value, str):
        return _bytes_of(value) // 3 + 1
    return sum(message.size for message in value) // 3 + 1


def _bytes_of(text: str) -> int:
    """Return the length of a text in UTF-8: a character of many scripts is a token."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
