"""Assembles a streamed message of the Anthropic Messages API from its events."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bot.agent.documents import arguments_in
from bot.agent.messages import Usage, estimate_tokens
from bot.models.anthropic_codec import text_of, usage_of
from bot.models.base import Question
from bot.models.client import MALFORMED, estimated_input
from bot.values import Json

if TYPE_CHECKING:
    from anthropic.types import RawContentBlockDelta, RawMessageStreamEvent

LONGEST_THOUGHT = 200


class StreamedMessage:
    """Assembles a streamed message from its events.

    Attributes:
        complete: Whether the last event has arrived.
    """

    def __init__(self) -> None:
        self.complete = False
        self._begun = False
        self._document: Json = {"content": [], "usage": {}}
        self._blocks: list[Json] = self._document["content"]
        self._inputs: dict[int, str] = {}

    @property
    def document(self) -> Json:
        """The message so far, in the format of a response without streaming."""
        return self._document

    def usage(self, question: Question) -> Usage | None:
        """Return the usage of the message so far; `None` before the message began.

        The provider counts the output at the end. Until then it is estimated on the high side.
        """
        if not self._begun:
            return None
        counted = usage_of(
            self._document["usage"], self._blocks, partial(estimated_input, question)
        )
        written = estimate_tokens(f"{self._blocks}{''.join(self._inputs.values())}")
        return counted if self.complete else replace(counted, output=max(counted.output, written))

    @property
    def shown(self) -> str:
        """The text for the user: the answer so far, or before it the newest line of thought."""
        if text := text_of(self._blocks):
            return text
        thoughts = [block["thinking"] for block in self._blocks if block.get("thinking")]
        lines = thoughts[-1].strip().splitlines() if thoughts else []
        if not lines:
            return ""
        line = lines[-1]
        return f"💭 {line if len(line) <= LONGEST_THOUGHT else '…' + line[-LONGEST_THOUGHT:]}"

    def take(self, event: "RawMessageStreamEvent") -> None:
        """Add one event.

        Raises:
            ValueError: The event does not fit the earlier events.
        """
        try:
            match event.type:
                case "content_block_delta":
                    self._grow(event.index, event.delta)
                case "content_block_start":
                    self._blocks.append(event.content_block.to_dict())
                case "content_block_stop":
                    if raw := self._inputs.pop(event.index, ""):
                        arguments = arguments_in(raw)
                        self._blocks[event.index]["input"] = raw if arguments is None else arguments
                case "message_start":
                    self._begun = True
                    self._document["model"] = event.message.model
                    self._count(event.message.usage.to_dict() if event.message.usage else {})
                case "message_delta":
                    self._document["stop_reason"] = event.delta.stop_reason
                    if event.delta.stop_details is not None:
                        self._document["stop_details"] = event.delta.stop_details.to_dict()
                    self._count(event.usage.to_dict() if event.usage else {})
                case "message_stop":
                    self.complete = True
        except MALFORMED as error:
            raise ValueError(f"a {event.type} that does not fit: {error!r}") from error

    def _grow(self, index: int, delta: "RawContentBlockDelta") -> None:
        block = self._blocks[index]
        if delta.type == "text_delta":
            block["text"] += delta.text
        elif delta.type == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + delta.partial_json
        elif delta.type == "thinking_delta":
            block["thinking"] += delta.thinking
        elif delta.type == "signature_delta":
            block["signature"] = delta.signature
        elif delta.type == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta.citation.to_dict()]

    def _count(self, usage: Json) -> None:
        """Update the counts, which are totals; counts missing from the event stay unchanged."""
        counts = {key: value for key, value in usage.items() if value is not None}
        self._document["usage"].update(counts)
