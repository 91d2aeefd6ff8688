"""Claude, through the Anthropic SDK."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from bot.agent.documents import arguments_in
from bot.agent.messages import Usage, estimate_tokens
from bot.models.anthropic_client import NAME, AnthropicSettings, open_sdk
from bot.models.anthropic_codec import (
    CLAUDE,
    THOUGHTS,
    answer_from,
    body_for,
    text_of,
    usage_of,
)
from bot.models.base import ModelRequest
from bot.models.capabilities import Knows
from bot.models.client import MALFORMED, Lazy, SdkModel, estimated_input
from bot.values import Json

LONGEST_THOUGHT = 200
#: More than Claude writes: of its thoughts, all of which are billed, only a summary is streamed.
THOUGHT_TOKENS_PER_SECOND = 100


def anthropic_model(settings: AnthropicSettings, knows: Knows = CLAUDE) -> SdkModel:
    """Return the Anthropic Messages API behind the model port."""
    return SdkModel(
        name=NAME,
        sdk=Lazy(partial(open_sdk, settings)),
        body_for=partial(body_for, thinking=settings.thinking, knows=knows),
        answer_from=answer_from,
        new_stream=StreamedMessage,
        timeout_seconds=settings.timeout_seconds,
    )


@dataclass(slots=True)
class StreamedMessage:
    """Assembles a streamed message from its events.

    Attributes:
        complete: Whether the last event has arrived.
        document: The message so far, in the format of a response without streaming.
        monotonic: A clock, in seconds.
    """

    complete: bool = False
    document: Json = field(default_factory=lambda: {"content": [], "usage": {}})
    monotonic: Callable[[], float] = time.monotonic
    _begun: bool = False
    _thinking_since: float | None = None
    _thought_seconds: float = 0.0
    _inputs: dict[int, str] = field(default_factory=dict)

    def usage(self, request: ModelRequest) -> Usage | None:
        """Return the usage of the message so far; `None` before the message began.

        The provider counts the output at the end. Until then it is estimated on the high side.
        """
        if not self._begun:
            return None
        blocks = self.document["content"]
        counted = usage_of(self.document["usage"], blocks, partial(estimated_input, request))
        if self.complete:
            return counted
        written = estimate_tokens(f"{blocks}{''.join(self._inputs.values())}")
        seconds = self._thought_seconds
        if self._thinking_since is not None:
            seconds += self.monotonic() - self._thinking_since
        written += math.ceil(seconds * THOUGHT_TOKENS_PER_SECOND)
        return replace(counted, output=max(counted.output, min(written, request.max_tokens)))

    @property
    def shown(self) -> str:
        """The text for the user: the answer so far, or before it the newest line of thought."""
        blocks = self.document["content"]
        if text := text_of(blocks):
            return text
        thoughts = [block["thinking"] for block in blocks if block.get("thinking")]
        lines = thoughts[-1].strip().splitlines() if thoughts else []
        if not lines:
            return ""
        line = lines[-1]
        return f"💭 {line if len(line) <= LONGEST_THOUGHT else '…' + line[-LONGEST_THOUGHT:]}"

    def take(self, event: Json) -> None:
        """Add one event.

        Raises:
            ValueError: The event does not fit the earlier events.
        """
        blocks = self.document["content"]
        counts: Json = {}
        kind = ""
        try:
            kind = event["type"]
            match kind:
                case "content_block_delta":
                    self._grow(event["index"], event["delta"])
                case "content_block_start":
                    blocks.append(event["content_block"])
                    if event["content_block"]["type"] in THOUGHTS:
                        self._thinking_since = self.monotonic()
                case "content_block_stop":
                    if self._thinking_since is not None:
                        self._thought_seconds += self.monotonic() - self._thinking_since
                        self._thinking_since = None
                    if raw := self._inputs.pop(event["index"], ""):
                        arguments = arguments_in(raw)
                        blocks[event["index"]]["input"] = raw if arguments is None else arguments
                case "message_start":
                    self._begun = True
                    self.document["model"] = event["message"]["model"]
                    counts = event["message"].get("usage") or {}
                case "message_delta":
                    self.document["stop_reason"] = event["delta"].get("stop_reason")
                    if (details := event["delta"].get("stop_details")) is not None:
                        self.document["stop_details"] = details
                    counts = event.get("usage") or {}
                case "message_stop":
                    self.complete = True
            # The counts are totals; counts missing from the event stay unchanged.
            self.document["usage"] |= {k: n for k, n in counts.items() if n is not None}
        except MALFORMED as error:
            raise ValueError(f"a {kind} that does not fit: {error!r}") from error

    def _grow(self, index: int, delta: Json) -> None:
        block = self.document["content"][index]
        match delta["type"]:
            case "text_delta":
                block["text"] += delta["text"]
            case "input_json_delta":
                self._inputs[index] = self._inputs.get(index, "") + delta["partial_json"]
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
