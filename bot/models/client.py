"""The part that all adapters around an SDK share: opening, streaming, errors and charges."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import Field, SecretStr

from bot.agent.messages import Answer, Usage, estimate_tokens, holds_images
from bot.errors import ModelError
from bot.models import failures
from bot.models.base import ModelRequest, OnText, offered
from bot.models.wire import StreamedError, events_in, written
from bot.setting_types import LONGEST_WORK_SECONDS, plain_secret
from bot.values import Json, Settings

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0

#: Keep-alive of idle connections. A run's steps are seconds apart, and a TLS handshake for each
#: would cost more than the request.
KEPT_CONNECTION_SECONDS = 60.0

MAX_CONNECTIONS = 1000

#: Longest wait for a count of input tokens, and the parts of a request that a count does not take.
COUNT_SECONDS = 10.0
_UNCOUNTED = frozenset({"max_tokens", "metadata"})

#: Shortest time between two updates of a growing text: each may redraw a whole message.
SHOWN_EVERY_SECONDS = 0.05

#: Exceptions raised by a malformed response.
MALFORMED = (LookupError, TypeError, AttributeError)

T = TypeVar("T")


@dataclass(slots=True)
class Lazy(Generic[T]):
    """Opens a slow resource once, in a thread, on first use.

    The SDKs take more than a second to import, which would block the event loop.

    Attributes:
        opener: Opens the resource.
        opened: The opened resource, or `None` before its first use.
    """

    opener: Callable[[], T]
    opened: T | None = None
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(self) -> T:
        """Return the resource; open it on the first call."""
        if self.opened is None:
            async with self._opening:
                if self.opened is None:
                    self.opened = await asyncio.to_thread(self.opener)
        return self.opened


def estimated_input(request: ModelRequest) -> int:
    """Return an estimate of a request's input tokens, on the high side."""
    tools = offered(request.tools).size
    return estimate_tokens(request.prompt) + estimate_tokens(request.messages) + tools


@contextmanager
def charging(request: ModelRequest, so_far: Callable[[], Usage | None]) -> Iterator[None]:
    """Report a request that fails or is cancelled but may still be charged (ADR 21).

    Args:
        request: The request.
        so_far: Returns the usage of the answer so far; `None` before the answer began.
    """
    try:
        yield
    except (ModelError, asyncio.CancelledError) as error:
        lost = so_far()
        given_up = isinstance(error, asyncio.CancelledError) or error.charged
        if lost is None and given_up:
            lost = Usage(input=estimated_input(request))
        if lost is not None:
            if isinstance(error, ModelError):
                error.charged = True
            if request.on_lost is not None:
                request.on_lost(request, lost)
        raise


class SdkSettings(Settings):
    """The keys in a provider's section that every SDK needs.

    Attributes:
        needed: The key without which the provider is not set up.
        environment: Variables that fill keys of the section when nothing else sets them, by key.
    """

    needed: ClassVar[str] = "api_key"
    environment: ClassVar[Mapping[str, str]] = {}

    api_key: SecretStr | None = None

    base_url: str | None = None

    timeout_seconds: float = Field(300, gt=0, le=LONGEST_WORK_SECONDS)
    """The longest wait for a whole answer that is not streamed."""

    idle_timeout_seconds: float = Field(60, gt=0, le=LONGEST_WORK_SECONDS)
    """The longest silence of a stream before it counts as broken."""

    @property
    def key(self) -> str:
        """The key without surrounding spaces; empty if none is set."""
        return plain_secret(self.api_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """An imported SDK with an open client.

    Attributes:
        provider: The provider's display name.
        setting: The config group of the provider, such as `models.anthropic`.
        close: Closes the client.
        send: Sends the body of a request, and returns the response.
        stream: Sends the body of a request; the block gets the events of the answer.
        count_tokens: Counts the input tokens of a request; `None` if the provider does not.
        idle_seconds: Longest silence of a stream.
        read_timeout: The exception raised when an open connection receives nothing in time.
        answered: The exception types for an error that the provider sent.
        code: The attribute of such an error with the provider's error code.
        troubles: All exception types that the SDK and its connection raise.
    """

    provider: str
    setting: str
    close: Callable[[], Awaitable[None]]
    send: Callable[[Json], Awaitable[Any]]
    stream: Callable[[Json], AbstractAsyncContextManager[AsyncIterator[Json]]]
    idle_seconds: float
    read_timeout: type[Exception]
    answered: Callable[[Exception], bool]
    code: str
    troubles: tuple[type[Exception], ...]
    count_tokens: Callable[..., Awaitable[Any]] | None = None

    def failure(self, error: Any, model: str, *, images: bool = False) -> ModelError:
        """Return the error for the user that corresponds to one of `troubles`.

        Args:
            error: The exception raised.
            model: The requested model.
            images: Whether the request contained images.
        """
        if any(isinstance(each, self.read_timeout) for each in (error, error.__cause__)):
            return failures.silent(self.provider, self.idle_seconds)
        if not isinstance(error, StreamedError) and not self.answered(error):
            return failures.unreachable(self.provider, error.__cause__ or error)
        # An error inside a stream has neither a status nor headers.
        response = getattr(error, "response", None)
        return failures.Failure(
            provider=self.provider,
            setting=self.setting,
            model=model,
            status=getattr(error, "status_code", 200),
            kind=" ".join(filter(None, (error.type, getattr(error, self.code)))),
            text=error.message,
            retry_after_seconds=failures.retry_after(response.headers) if response else None,
            images=images,
        ).error()


def arguments_of(library: Any, settings: SdkSettings) -> dict[str, Any]:
    """Return the arguments that every client of an SDK gets; the clients share one generator."""
    import httpx2  # noqa: PLC0415 - with aiohttp 1.5 s and 50 MB, which `check` does not need

    return {
        "base_url": settings.base_url or None,
        "max_retries": 0,
        "timeout": library.Timeout(settings.timeout_seconds, connect=CONNECT_SECONDS),
        # The default transport takes three times the CPU at 500 calls at once.
        "http_client": library.DefaultAioHttpClient(
            limits=httpx2.Limits(
                max_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_CONNECTION_SECONDS
            )
        ),
    }


def sdk_of(
    client: Any,
    library: Any,
    settings: SdkSettings,
    path: str,
    *,
    provider: str,
    setting: str,
    code: str,
    as_bytes: bool = True,
) -> Sdk:
    """Return an open client of an SDK.

    Args:
        client: The client.
        library: The module of the SDK.
        settings: The section of the provider.
        path: The path of the endpoint that creates answers.
        provider: See `Sdk`, as for the next two.
        setting: The config group.
        code: The attribute with the provider's error code.
        as_bytes: Whether the client takes a body as bytes. The clients of clouds read the body.
    """
    import aiohttp  # noqa: PLC0415
    import httpx2  # noqa: PLC0415

    idle = library.Timeout(settings.idle_timeout_seconds, connect=CONNECT_SECONDS)

    def given(body: Json) -> dict[str, Any]:
        # As bytes: the SDK would copy every list and mapping of a body in each request, which is
        # the largest part of its work. Retries, errors, keys and headers are the same.
        return {"content": written(body)} if as_bytes else {"body": body}

    @asynccontextmanager
    async def stream(body: Json) -> AsyncIterator[AsyncIterator[Json]]:
        response = await client.post(
            path,
            **given(body),
            cast_to=httpx2.Response,
            stream=True,
            stream_cls=library.AsyncStream,
            options={"timeout": idle},
        )
        async with aclosing(response):
            yield events_in(response.aiter_bytes())

    return Sdk(
        provider=provider,
        setting=setting,
        close=client.close,
        send=lambda body: client.post(path, **given(body), cast_to=httpx2.Response),
        stream=stream,
        idle_seconds=settings.idle_timeout_seconds,
        read_timeout=httpx2.ReadTimeout,
        answered=lambda error: (
            isinstance(error, library.APIError)
            and not isinstance(error, library.APIConnectionError)
        ),
        code=code,
        # The SDKs do not wrap connection errors that occur in the middle of a stream.
        troubles=(
            *(library.APIError, getattr(library, "AnthropicError", library.APIError)),
            *(httpx2.HTTPError, aiohttp.ClientError, StreamedError),
        ),
        count_tokens=getattr(getattr(client, "messages", None), "count_tokens", None),
    )


class StreamedAnswer(Protocol):
    """An answer that arrives in events.

    Attributes:
        complete: Whether the last event has arrived.
    """

    complete: bool

    @property
    def shown(self) -> str:
        """The text for the user so far."""

    @property
    def document(self) -> Json:
        """The answer so far, in the format of a response without streaming."""

    def usage(self, request: ModelRequest) -> Usage | None:
        """Return the usage so far; `None` before the answer began."""

    def take(self, event: Json) -> None:
        """Add one event.

        Raises:
            ValueError: The event does not fit the earlier events.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkModel:
    """A provider behind the model port, through its SDK.

    Attributes:
        name: The provider's display name.
        sdk: Imports the SDK, which is slow, and opens its client, on first use.
        body_for: Returns the body of a request; `streamed` tells if its answer is.
        answer_from: Returns the answer in a response to a request; raises `ValueError` if the
            response is malformed.
        new_stream: Returns a streamed answer before its first event.
        timeout_seconds: Longest wait for an answer that is not streamed.
    """

    name: str
    sdk: Lazy[Sdk]
    body_for: Callable[..., Json]
    answer_from: Callable[[Json, ModelRequest], Answer]
    new_stream: Callable[[], StreamedAnswer]
    timeout_seconds: float

    async def aclose(self) -> None:
        """Close the SDK's client."""
        if self.sdk.opened:
            await self.sdk.opened.close()

    async def count(self, request: ModelRequest) -> int | None:
        """Return the input tokens of a request; `None` if the provider cannot count them now."""
        sdk = await self.sdk.get()
        if sdk.count_tokens is None:
            return None
        body = self.body_for(request, streamed=False)
        counted = {name: part for name, part in body.items() if name not in _UNCOUNTED}
        troubles: tuple[type[Exception], ...] = (*sdk.troubles, TimeoutError)
        try:
            async with asyncio.timeout(COUNT_SECONDS):
                answer = await sdk.count_tokens(**counted)
        except troubles as error:
            log.info("%s did not count the input of a request: %s", self.name, error)
            return None
        tokens = getattr(answer, "input_tokens", None)
        return tokens if isinstance(tokens, int) else None

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the provider's answer; see `bot.models.base.Model`."""
        sdk = await self.sdk.get()
        stream = self.new_stream()
        with charging(request, partial(stream.usage, request)):
            try:
                if request.on_activity is not None:
                    request.on_activity()
                if on_text is not None or request.on_activity is not None:
                    return await self._ask_streamed(sdk, request, stream, on_text)
                try:
                    async with asyncio.timeout(self.timeout_seconds):
                        # Without the SDK's models: their blocks would be converted back to JSON
                        # here anyway, and must be sent back unchanged.
                        response = await sdk.send(self.body_for(request, streamed=False))
                except TimeoutError as error:
                    raise failures.silent(self.name, self.timeout_seconds) from error
                return self.answer_from(json.loads(response.content), request)
            except sdk.troubles as error:
                images = holds_images(request.messages)
                raise sdk.failure(error, request.model, images=images) from error
            except ValueError as error:
                raise failures.unreadable(self.name, error) from error
            except RecursionError as error:
                raise failures.nested(self.name) from error

    async def _ask_streamed(
        self, sdk: Sdk, request: ModelRequest, stream: StreamedAnswer, on_text: OnText | None
    ) -> Answer:
        shown, next_at = "", 0.0
        # Raw events: the SDK's own accumulation fails on a tool input that is invalid JSON.
        body = self.body_for(request, streamed=True) | {"stream": True}
        async with sdk.stream(body) as events:
            async for event in events:
                stream.take(event)
                if request.on_activity is not None:
                    request.on_activity()
                if on_text is None:
                    continue
                if time.monotonic() >= next_at and (text := stream.shown) not in {"", shown}:
                    shown, next_at = text, time.monotonic() + SHOWN_EVERY_SECONDS
                    on_text(text)
        if not stream.complete:
            raise failures.cut_off(self.name)
        answer = self.answer_from(stream.document, request)
        if on_text is not None and answer.text not in {"", shown}:
            on_text(answer.text)
        return answer
