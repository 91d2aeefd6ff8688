"""Settings and client of the Anthropic API, shared by all code that calls Claude."""

from dataclasses import dataclass
from typing import Literal

from pydantic import SecretStr

from bot.errors import ModelError
from bot.models.client import Sdk, SdkSettings, arguments_of, sdk_of
from bot.models.metering import Meter
from bot.models.prices import Prices
from bot.models.retrying import Patience

NAME = "Anthropic"
SETTING = "models.anthropic"
#: The path of the endpoint that creates answers.
PATH = "/v1/messages"


class AnthropicSettings(SdkSettings):
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
