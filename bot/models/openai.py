"""OpenAI and all servers with the Chat Completions API, such as Ollama and vLLM."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from pydantic import Field, SecretStr

from bot.agent.messages import Answer
from bot.errors import ModelError
from bot.models.base import Question
from bot.models.client import (
    CONNECT_SECONDS,
    KEPT_CONNECTION_SECONDS,
    MAX_CONNECTIONS,
    Sdk,
    SdkModel,
)
from bot.models.openai_codec import answer_from, request_for
from bot.models.openai_stream import StreamedCompletion
from bot.values import Json, Settings

SETTING = "models.openai"


class OpenAISettings(Settings):
    """Everything under `models.openai:`."""

    api_key: SecretStr | None = None
    """The key; write ${OPENAI_API_KEY}. A server of your own may need none."""

    base_url: str | None = None
    """The address of another server, such as http://localhost:11434/v1."""

    main_model: str = ""
    """The main agent's model, by the server's name for it."""

    subagent_model: str = ""
    """The model of runs; empty for the main model."""

    temperature: float | None = Field(None, ge=0, le=2)
    """How freely it writes; empty leaves it to the server."""

    text_tool_calls: bool = False
    """Whether tool calls that a small model writes into its text are made."""

    timeout_seconds: float = Field(300, gt=0)
    """How long to wait for a whole answer that is not streamed."""

    idle_timeout_seconds: float = Field(60, gt=0)
    """How long a stream may be silent before it counts as broken."""

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


class OpenAIModel(SdkModel):
    """The Chat Completions API behind the model port."""

    provider = "openai"

    def __init__(self, settings: OpenAISettings) -> None:
        name = "OpenAI" if settings.official else "The model server"
        super().__init__(name, self._open_sdk, timeout_seconds=settings.timeout_seconds)
        self._settings = settings

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: OpenAISettings) -> AsyncIterator["OpenAIModel"]:
        """Open the provider; its SDK is imported by `warm` or by the first question."""
        model = cls(settings)
        async with model.closing():
            yield model

    def _request(self, question: Question, *, streamed: bool) -> Json:
        request = request_for(
            question, official=self._settings.official, temperature=self._settings.temperature
        )
        return request | {"stream_options": {"include_usage": True}} if streamed else request

    def _answer(self, document: Json, question: Question) -> Answer:
        return answer_from(document, question, text_calls=self._settings.text_tool_calls)

    def _new_stream(self) -> StreamedCompletion:
        return StreamedCompletion()

    def _open_sdk(self) -> Sdk:
        settings = self._settings
        if not settings.configured:
            raise ModelError(
                f"There is no key for OpenAI. An admin must set `{SETTING}.api_key`, or "
                f"`{SETTING}.base_url` for a server of your own, in the configuration."
            )
        import aiohttp  # noqa: PLC0415 - together a second, which `check` does not need
        import httpx2  # noqa: PLC0415
        import openai  # noqa: PLC0415

        client = openai.AsyncOpenAI(
            # The SDK requires a key even if the server does not.
            api_key=settings.key or "none",
            base_url=settings.base_url or None,
            max_retries=0,
            timeout=openai.Timeout(settings.timeout_seconds, connect=CONNECT_SECONDS),
            http_client=openai.DefaultAioHttpClient(
                limits=httpx2.Limits(
                    max_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_CONNECTION_SECONDS
                )
            ),
        )
        create = client.chat.completions
        stream_timeout = openai.Timeout(settings.idle_timeout_seconds, connect=CONNECT_SECONDS)
        return Sdk(
            provider=self.name,
            setting=SETTING,
            close=client.close,
            create_raw=create.with_raw_response.create,
            create_stream=partial(create.create, stream=True, timeout=stream_timeout),
            idle_seconds=settings.idle_timeout_seconds,
            read_timeout=httpx2.ReadTimeout,
            answered=lambda error: (
                isinstance(error, openai.APIError)
                and not isinstance(error, openai.APIConnectionError)
            ),
            code="code",
            troubles=(openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError),
        )
