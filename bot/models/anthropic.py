"""Claude, through the Anthropic SDK: its settings, its client and its adapter."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal

from pydantic import SecretStr

from bot.agent.documents import arguments_in
from bot.agent.messages import Usage, estimate_tokens
from bot.errors import ModelError
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
from bot.models.client import (
    MALFORMED,
    Lazy,
    Sdk,
    SdkModel,
    SdkSettings,
    arguments_of,
    estimated_input,
    sdk_of,
)
from bot.models.metering import Meter
from bot.models.prices import Prices
from bot.models.retrying import Patience
from bot.values import Json

NAME = "Anthropic"
SETTING = "models.anthropic"
#: The path of the endpoint that creates answers.
PATH = "/v1/messages"
LONGEST_THOUGHT = 200
#: More than Claude writes: of its thoughts, all of which are billed, only a summary is streamed.
THOUGHT_TOKENS_PER_SECOND = 100


class AnthropicSettings(SdkSettings):
    """Everything under `models.anthropic:`."""

    environment: ClassVar[Mapping[str, str]] = {
        "api_key": "ANTHROPIC_API_KEY",
        "base_url": "ANTHROPIC_BASE_URL",
    }

    api_key: SecretStr | None = None
    """The key of the Anthropic API; write ${ANTHROPIC_API_KEY}."""

    base_url: str | None = None
    """Another address of the API, such as a gateway's."""

    main_model: str = "claude-sonnet-5-5"
    """The main agent's model."""

    subagent_model: str = "claude-haiku-5-5"
    """The model of runs."""

    thinking: Literal["off", "adaptive", "between_tools"] = "adaptive"
    """Thinking of Claude 5 models in a streamed answer: `adaptive` shows summaries of its thoughts
    while it works, `between_tools` thinks only between tool calls (Sonnet 5.5), `off` leaves it to
    the model.
    """

    @property
    def configured(self) -> bool:
        """True if an API key is set."""
        return bool(self.key)

    @property
    def endpoint(self) -> tuple[str, dict[str, str]]:
        """The address of the API, and the headers with the key."""
        base = (self.base_url or "https://api.anthropic.com").rstrip("/")
        headers = {"Authorization": f"Bearer {self.key}", "anthropic-version": "2023-06-01"}
        return f"{base}/v1", headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Claude:
    """Connection to Claude.

    Attributes:
        patience: Retries while Claude is busy, shared with all other requests to Claude.
        answers: Whether Anthropic is the chosen model provider of the bot.
        prices: The prices of requests.
        meter: Reserves an amount for each request; `None` where no limit can apply.
    """

    settings: AnthropicSettings
    patience: Patience
    answers: bool
    prices: Prices
    meter: Meter | None = None


def open_sdk(settings: AnthropicSettings) -> Sdk:
    """Import the SDK, which is slow, and open its client; the caller closes the client.

    Raises:
        ModelError: No API key is set.
    """
    if not settings.configured:
        raise ModelError(
            "There is no key for Anthropic. An admin must set "
            f"`{SETTING}.api_key` in the configuration."
        )
    import anthropic  # noqa: PLC0415 - heavy

    client = anthropic.AsyncAnthropic(api_key=settings.key, **arguments_of(anthropic, settings))
    return sdk_of(
        client, anthropic, settings, PATH, provider=NAME, setting=SETTING, code="error_code"
    )


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
