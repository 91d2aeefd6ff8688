"""Settings and client of the Anthropic API, shared by all code that calls Claude."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import Field, SecretStr

from bot.errors import ModelError
from bot.models.client import CONNECT_SECONDS, KEPT_CONNECTION_SECONDS, MAX_CONNECTIONS, Sdk
from bot.models.retrying import Patience
from bot.values import Settings

NAME = "Anthropic"
SETTING = "models.anthropic"


class AnthropicSettings(Settings):
    """Everything under `models.anthropic:`."""

    api_key: SecretStr | None = None
    """The key of the Anthropic API; write ${ANTHROPIC_API_KEY}."""

    base_url: str | None = None
    """Another address of the API, such as a gateway's."""

    main_model: str = "claude-sonnet-5-5"
    """The main agent's model."""

    subagent_model: str = "claude-haiku-5-5"
    """The model of runs."""

    thinking: Literal["off", "adaptive", "between_tools"] = "adaptive"
    """What a streamed answer asks of Claude 5 models: `adaptive` shows summaries of its thoughts
    while it works, `between_tools` thinks only between tool calls (Sonnet 5.5), `off` asks for
    nothing and leaves it to the model.
    """

    timeout_seconds: float = Field(300, gt=0)
    """How long to wait for a whole answer that is not streamed."""

    idle_timeout_seconds: float = Field(60, gt=0)
    """How long a stream may be silent before it counts as broken."""

    @property
    def configured(self) -> bool:
        """True if an API key is set."""
        return bool(self.key)

    @property
    def key(self) -> str:
        """The key without surrounding spaces; empty if none is set."""
        return self.api_key.get_secret_value().strip() if self.api_key is not None else ""

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
    """

    settings: AnthropicSettings
    patience: Patience
    answers: bool


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
    import aiohttp  # noqa: PLC0415 - together 1.5 s and 50 MB, which `check` does not need
    import anthropic  # noqa: PLC0415
    import httpx2  # noqa: PLC0415

    client = anthropic.AsyncAnthropic(
        api_key=settings.key,
        base_url=settings.base_url,
        max_retries=0,
        timeout=anthropic.Timeout(settings.timeout_seconds, connect=CONNECT_SECONDS),
        # The default transport takes three times the CPU at 500 calls at once.
        http_client=anthropic.DefaultAioHttpClient(
            limits=httpx2.Limits(
                max_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_CONNECTION_SECONDS
            )
        ),
    )
    stream_timeout = anthropic.Timeout(settings.idle_timeout_seconds, connect=CONNECT_SECONDS)
    return Sdk(
        provider=NAME,
        setting=SETTING,
        close=client.close,
        create_raw=client.messages.with_raw_response.create,
        create_stream=partial(client.messages.create, stream=True, timeout=stream_timeout),
        idle_seconds=settings.idle_timeout_seconds,
        read_timeout=httpx2.ReadTimeout,
        answered=lambda error: isinstance(error, anthropic.APIStatusError),
        code="error_code",
        # The SDK does not wrap connection errors that occur in the middle of a stream.
        troubles=(anthropic.AnthropicError, httpx2.HTTPError, aiohttp.ClientError),
    )
