"""Claude, through the Anthropic SDK."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field, SecretStr

from bot.agent.messages import Answer, holds_images
from bot.errors import ModelError
from bot.models import failures
from bot.models.anthropic_stream import Arriving
from bot.models.anthropic_wire import answer_from, request_for
from bot.models.base import OnText, Question
from bot.models.client import (
    CONNECT_SECONDS,
    KEPT_CONNECTION_SECONDS,
    MAX_CONNECTIONS,
    Growing,
    Lazy,
)
from bot.values import Json, Settings

if TYPE_CHECKING:
    import anthropic

NAME = "Anthropic"
SETTING = "models.anthropic"


class AnthropicSettings(Settings):
    """Everything under `models.anthropic:`."""

    api_key: SecretStr | None = Field(
        None, description="The key of the Anthropic API; write ${ANTHROPIC_API_KEY}."
    )
    base_url: str | None = Field(
        None, description="Another address of the API, such as a gateway's."
    )
    main_model: str = Field("claude-sonnet-5-5", description="The main agent's model.")
    subagent_model: str = Field("claude-haiku-5-5", description="The model of runs.")
    thinking: Literal["off", "adaptive", "between_tools"] = Field(
        "adaptive",
        description="What a streamed answer asks of Claude 5 models: `adaptive` shows summaries "
        "of its thoughts while it works, `between_tools` thinks only between tool calls (Sonnet "
        "5.5), `off` asks for nothing and leaves it to the model.",
    )
    timeout_seconds: float = Field(
        120, gt=0, description="How long to wait for a whole answer that is not streamed."
    )
    idle_timeout_seconds: float = Field(
        60, gt=0, description="How long a stream may be silent before it counts as broken."
    )

    @property
    def configured(self) -> bool:
        """Whether there is a key."""
        return self.api_key is not None and bool(self.api_key.get_secret_value().strip())


@dataclass(frozen=True, slots=True)
class _Sdk:
    """The SDK, imported, with its client.

    Attributes:
        create_raw: `messages.create`, answering with the response as it came.
        troubles: Every kind of error that the SDK and the connection below it raise.
    """

    client: "anthropic.AsyncAnthropic"
    create_raw: "Callable[..., Awaitable[anthropic.AsyncAPIResponse[anthropic.types.Message]]]"
    stream_timeout: "anthropic.Timeout"
    status_error: "type[anthropic.APIStatusError]"
    troubles: tuple[type[Exception], ...]


class AnthropicModel:
    """The Anthropic Messages API behind the model port."""

    provider = "anthropic"

    def __init__(self, settings: AnthropicSettings) -> None:
        self._settings = settings
        self._sdk = Lazy(self._open_sdk)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: AnthropicSettings) -> AsyncIterator["AnthropicModel"]:
        """Open the provider; the SDK itself is imported by `warm`, or with the first question."""
        model = cls(settings)
        try:
            yield model
        finally:
            if sdk := model._sdk.opened:
                await sdk.client.close()

    async def warm(self) -> None:
        """Import the SDK now, in a thread, so that the first question does not wait for it."""
        await self._sdk.get()

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        """Return Claude's answer; see `bot.models.base.Model`."""
        sdk = self._sdk.opened or await self._sdk.get()
        try:
            if on_text is None:
                return await self._whole(sdk, question)
            return await self._streamed(sdk, question, on_text)
        except sdk.troubles as error:
            raise self._failure(sdk, error, question) from error
        except ValueError as error:
            raise failures.unreadable(NAME, error) from error

    async def _whole(self, sdk: _Sdk, question: Question) -> Answer:
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                # The raw response spares the SDK's models: their blocks would be turned back into
                # JSON here anyway, and must be sent back just as they came.
                response = await sdk.create_raw(**request_for(question))
        except TimeoutError as error:
            raise failures.silent(NAME, seconds) from error
        return answer_from(response.http_response.json(), question)

    async def _streamed(self, sdk: _Sdk, question: Question, on_text: OnText) -> Answer:
        arriving = Arriving()
        growing = Growing(on_text)
        request = request_for(question, self._thinking(question.model))
        # Raw events, since the SDK's own accumulation fails on a tool input that is no JSON.
        stream = await sdk.client.messages.create(
            **request, stream=True, timeout=sdk.stream_timeout
        )
        async with stream:
            async for event in stream:
                arriving.take(event)
                if growing.due:
                    growing.say(arriving.shown)
        if not arriving.complete:
            raise failures.cut_off(NAME)
        answer = answer_from(arriving.document, question)
        growing.say(answer.text)
        return answer

    def _thinking(self, model: str) -> Json | None:
        """Return what to ask for, so that a stream shows something while Claude thinks."""
        if self._settings.thinking == "off" or not re.search(r"claude-[a-z]+-5(-|$)", model):
            return None
        if self._settings.thinking == "between_tools" and "sonnet-5-5" in model:
            return {"type": "between_tools"}
        return {"type": "adaptive", "display": "summarized"}

    def _failure(self, sdk: _Sdk, error: Exception, question: Question) -> ModelError:
        if not isinstance(error, sdk.status_error):
            return failures.unreachable(NAME, error.__cause__ or error)
        return failures.Failure(
            provider=NAME,
            setting=SETTING,
            model=question.model,
            status=error.status_code,
            kind=" ".join(filter(None, (error.type, error.error_code))),
            text=error.message,
            retry_after_seconds=failures.retry_after(error.response.headers),
            images=holds_images(question.messages),
        ).error()

    def _open_sdk(self) -> _Sdk:
        key = self._settings.api_key
        if key is None or not self._settings.configured:
            raise ModelError(
                "There is no key for Anthropic. An admin must set "
                f"`{SETTING}.api_key` in the configuration."
            )
        import aiohttp  # noqa: PLC0415 - together 1.5 s and 50 MB, which `check` does not need
        import anthropic  # noqa: PLC0415
        import httpx2  # noqa: PLC0415

        client = anthropic.AsyncAnthropic(
            api_key=key.get_secret_value(),
            base_url=self._settings.base_url,
            max_retries=0,
            timeout=anthropic.Timeout(self._settings.timeout_seconds, connect=CONNECT_SECONDS),
            # The default transport takes three times the CPU at 500 calls at once.
            http_client=anthropic.DefaultAioHttpClient(
                limits=httpx2.Limits(
                    max_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_CONNECTION_SECONDS
                )
            ),
        )
        return _Sdk(
            client=client,
            create_raw=client.messages.with_raw_response.create,
            stream_timeout=anthropic.Timeout(
                self._settings.idle_timeout_seconds, connect=CONNECT_SECONDS
            ),
            status_error=anthropic.APIStatusError,
            # What breaks in the middle of a stream comes through as the connection raised it.
            troubles=(anthropic.AnthropicError, httpx2.HTTPError, aiohttp.ClientError),
        )
