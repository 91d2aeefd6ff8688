"""OpenAI and all servers with the Chat Completions API, such as Ollama and vLLM."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field, SecretStr

from bot.agent.messages import Answer, holds_images
from bot.errors import ModelError
from bot.models import failures
from bot.models.base import OnText, Question
from bot.models.client import (
    CONNECT_SECONDS,
    KEPT_CONNECTION_SECONDS,
    MAX_CONNECTIONS,
    Growing,
    Lazy,
    charging,
)
from bot.models.openai_stream import Arriving
from bot.models.openai_wire import answer_from, request_for
from bot.values import Json, Settings

if TYPE_CHECKING:
    import openai
    from openai._legacy_response import LegacyAPIResponse
    from openai.types.chat import ChatCompletion

SETTING = "models.openai"


class OpenAISettings(Settings):
    """Everything under `models.openai:`."""

    api_key: SecretStr | None = Field(
        None, description="The key; write ${OPENAI_API_KEY}. A server of your own may need none."
    )
    base_url: str | None = Field(
        None, description="The address of another server, such as http://localhost:11434/v1."
    )
    main_model: str = Field("", description="The main agent's model, by the server's name for it.")
    subagent_model: str = Field("", description="The model of runs; empty for the main model.")
    temperature: float | None = Field(
        None, ge=0, le=2, description="How freely it writes; empty leaves it to the server."
    )
    text_tool_calls: bool = Field(
        default=False,
        description="Whether tool calls that a small model writes into its text are made.",
    )
    timeout_seconds: float = Field(
        300, gt=0, description="How long to wait for a whole answer that is not streamed."
    )
    idle_timeout_seconds: float = Field(
        60, gt=0, description="How long a stream may be silent before it counts as broken."
    )

    @property
    def configured(self) -> bool:
        """True if a key or a server address is set."""
        return bool(self.base_url or self.key)

    @property
    def key(self) -> str:
        """The key without surrounding spaces; empty if none is set."""
        return self.api_key.get_secret_value().strip() if self.api_key is not None else ""

    @property
    def official(self) -> bool:
        """True if requests go to OpenAI itself, not to a compatible server."""
        return not self.base_url or "//api.openai.com" in self.base_url


@dataclass(frozen=True, slots=True)
class _Sdk:
    """The imported SDK with an open client.

    Attributes:
        create_raw: `chat.completions.create`, returning the raw response.
        read_timeout: The exception raised when an open connection receives nothing in time.
        troubles: All exception types that the SDK and its connection raise.
    """

    client: "openai.AsyncOpenAI"
    create_raw: "Callable[..., Awaitable[LegacyAPIResponse[ChatCompletion]]]"
    stream_timeout: "openai.Timeout"
    read_timeout: type[Exception]
    api_error: "type[openai.APIError]"
    connection_error: "type[openai.APIConnectionError]"
    status_error: "type[openai.APIStatusError]"
    troubles: tuple[type[Exception], ...]


class OpenAIModel:
    """The Chat Completions API behind the model port."""

    provider = "openai"

    def __init__(self, settings: OpenAISettings) -> None:
        self._settings = settings
        self.name = "OpenAI" if settings.official else "The model server"
        self._sdk = Lazy(self._open_sdk)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: OpenAISettings) -> AsyncIterator["OpenAIModel"]:
        """Open the provider; its SDK is imported by `warm` or by the first question."""
        model = cls(settings)
        try:
            yield model
        finally:
            if sdk := model._sdk.opened:
                await sdk.client.close()

    async def warm(self) -> None:
        """Import the SDK in a thread, so that the first question does not wait for the import."""
        await self._sdk.get()

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; see `bot.models.base.Model`."""
        sdk = self._sdk.opened or await self._sdk.get()
        arriving = Arriving()
        with charging(question, partial(arriving.usage, question)):
            return await self._ask(sdk, question, arriving, on_text)

    async def _ask(
        self, sdk: _Sdk, question: Question, arriving: Arriving, on_text: OnText | None
    ) -> Answer:
        try:
            if on_text is None:
                return await self._whole(sdk, question)
            return await self._streamed(sdk, question, arriving, on_text)
        except sdk.troubles as error:
            raise self._failure(sdk, error, question) from error
        except ValueError as error:
            raise failures.unreadable(self.name, error) from error
        except RecursionError as error:
            raise failures.nested(self.name) from error

    async def _whole(self, sdk: _Sdk, question: Question) -> Answer:
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                response = await sdk.create_raw(**self._request(question))
        except TimeoutError as error:
            raise failures.silent(self.name, seconds) from error
        return answer_from(
            response.http_response.json(), question, text_calls=self._settings.text_tool_calls
        )

    async def _streamed(
        self, sdk: _Sdk, question: Question, arriving: Arriving, on_text: OnText
    ) -> Answer:
        growing = Growing(on_text)
        stream = await sdk.client.chat.completions.create(
            **self._request(question),
            stream=True,
            stream_options={"include_usage": True},
            timeout=sdk.stream_timeout,
        )
        async with stream:
            async for chunk in stream:
                arriving.take(chunk)
                if growing.due:
                    growing.say(arriving.text)
        if not arriving.complete:
            raise failures.cut_off(self.name)
        answer = answer_from(arriving.document, question, text_calls=self._settings.text_tool_calls)
        growing.say(answer.text)
        return answer

    def _request(self, question: Question) -> Json:
        return request_for(
            question,
            official=self._settings.official,
            temperature=self._settings.temperature,
        )

    def _failure(self, sdk: _Sdk, error: Exception, question: Question) -> ModelError:
        if any(isinstance(each, sdk.read_timeout) for each in (error, error.__cause__)):
            return failures.silent(self.name, self._settings.idle_timeout_seconds)
        if isinstance(error, sdk.connection_error) or not isinstance(error, sdk.api_error):
            return failures.unreachable(self.name, error.__cause__ or error)
        status, wait = 200, None  # the status when the error came inside a stream
        if isinstance(error, sdk.status_error):
            status, wait = error.status_code, failures.retry_after(error.response.headers)
        return failures.Failure(
            provider=self.name,
            setting=SETTING,
            model=question.model,
            status=status,
            kind=" ".join(filter(None, (error.type, error.code))),
            text=error.message,
            retry_after_seconds=wait,
            images=holds_images(question.messages),
        ).error()

    def _open_sdk(self) -> _Sdk:
        if not self._settings.configured:
            raise ModelError(
                f"There is no key for OpenAI. An admin must set `{SETTING}.api_key`, or "
                f"`{SETTING}.base_url` for a server of your own, in the configuration."
            )
        import aiohttp  # noqa: PLC0415 - together a second, which `check` does not need
        import httpx2  # noqa: PLC0415
        import openai  # noqa: PLC0415

        client = openai.AsyncOpenAI(
            # The SDK requires a key even if the server does not.
            api_key=self._settings.key or "none",
            base_url=self._settings.base_url or None,
            max_retries=0,
            timeout=openai.Timeout(self._settings.timeout_seconds, connect=CONNECT_SECONDS),
            http_client=openai.DefaultAioHttpClient(
                limits=httpx2.Limits(
                    max_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_CONNECTION_SECONDS
                )
            ),
        )
        return _Sdk(
            client=client,
            create_raw=client.chat.completions.with_raw_response.create,
            stream_timeout=openai.Timeout(
                self._settings.idle_timeout_seconds, connect=CONNECT_SECONDS
            ),
            read_timeout=httpx2.ReadTimeout,
            api_error=openai.APIError,
            connection_error=openai.APIConnectionError,
            status_error=openai.APIStatusError,
            troubles=(openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError),
        )
