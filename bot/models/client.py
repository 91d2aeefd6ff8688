"""The part that all adapters around an SDK share: opening, streaming, errors and charges."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from bot.agent.messages import Answer, Usage, estimate_tokens, holds_images
from bot.errors import ModelError
from bot.models import failures
from bot.models.base import OnText, Question
from bot.values import Json

CONNECT_SECONDS = 10.0

#: Keep-alive of idle connections. A run's steps are seconds apart, and a TLS handshake for each
#: would cost more than the request.
KEPT_CONNECTION_SECONDS = 60.0

MAX_CONNECTIONS = 1000

#: Exceptions raised by a malformed response.
MALFORMED = (LookupError, TypeError, AttributeError)

T = TypeVar("T")


class Lazy(Generic[T]):
    """Opens a slow resource once, in a thread, on first use.

    The SDKs take more than a second to import, which would block the event loop.
    """

    def __init__(self, opener: Callable[[], T]) -> None:
        self._opener = opener
        self._opening = asyncio.Lock()
        self._value: T | None = None

    @property
    def opened(self) -> T | None:
        """The opened resource, or `None` before its first use."""
        return self._value

    async def get(self) -> T:
        """Return the resource; open it on the first call."""
        if self._value is None:
            async with self._opening:
                if self._value is None:
                    self._value = await asyncio.to_thread(self._opener)
        return self._value


class Growing:
    """Throttles updates of a growing text to one per 50 ms: each may redraw a whole message."""

    def __init__(self, on_text: OnText, *, seconds: float = 0.05) -> None:
        self._on_text = on_text
        self._seconds = seconds
        self._next = 0.0
        self._said = ""

    @property
    def due(self) -> bool:
        """True if the next update may be sent now."""
        return time.monotonic() >= self._next

    def say(self, text: str) -> None:
        """Send the whole text so far, unless it is empty or unchanged."""
        if text and text != self._said:
            self._said = text
            self._next = time.monotonic() + self._seconds
            self._on_text(text)


def estimated_input(question: Question) -> int:
    """Return an estimate of a question's input tokens, on the high side."""
    tools = sum(len(tool.description) + len(str(tool.schema)) for tool in question.tools)
    return estimate_tokens(question.prompt) + estimate_tokens(question.messages) + tools // 3


@contextmanager
def charging(question: Question, so_far: Callable[[], Usage | None]) -> Iterator[None]:
    """Report a request that fails or is cancelled but may still be charged (ADR 21).

    Args:
        question: The question of the request.
        so_far: Returns the usage of the answer so far; `None` before the answer began.
    """
    try:
        yield
    except (ModelError, asyncio.CancelledError) as error:
        lost = so_far()
        given_up = isinstance(error, asyncio.CancelledError) or error.charged
        if lost is None and given_up:
            lost = Usage(input=estimated_input(question))
        if lost is not None:
            if isinstance(error, ModelError):
                error.charged = True
            if question.on_lost is not None:
                question.on_lost(question, lost)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """An imported SDK with an open client.

    Attributes:
        provider: The provider's display name.
        setting: The config group of the provider, such as `models.anthropic`.
        close: Closes the client.
        create_raw: Requests an answer, and returns the raw response.
        create_stream: Requests a streamed answer.
        idle_seconds: Longest silence of a stream.
        read_timeout: The exception raised when an open connection receives nothing in time.
        answered: The exception types for an error that the provider sent.
        code: The attribute of such an error with the provider's error code.
        troubles: All exception types that the SDK and its connection raise.
    """

    provider: str
    setting: str
    close: Callable[[], Awaitable[None]]
    create_raw: Callable[..., Awaitable[Any]]
    create_stream: Callable[..., Awaitable[Any]]
    idle_seconds: float
    read_timeout: type[Exception]
    answered: Callable[[Exception], bool]
    code: str
    troubles: tuple[type[Exception], ...]

    def failure(self, error: Any, model: str, *, images: bool = False) -> ModelError:
        """Return the error for the user that corresponds to one of `troubles`.

        Args:
            error: The exception raised.
            model: The requested model.
            images: Whether the request contained images.
        """
        if any(isinstance(each, self.read_timeout) for each in (error, error.__cause__)):
            return failures.silent(self.provider, self.idle_seconds)
        if not self.answered(error):
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


class StreamedAnswer(Protocol):
    """An answer that arrives in events.

    Attributes:
        complete: Whether the last event has arrived.
    """

    complete: bool

    @property
    def shown(self) -> str:
        """The text for the user so far."""
        ...

    @property
    def document(self) -> Json:
        """The answer so far, in the format of a response without streaming."""
        ...

    def usage(self, question: Question) -> Usage | None:
        """Return the usage so far; `None` before the answer began."""
        ...

    def take(self, event: Any) -> None:
        """Add one event.

        Raises:
            ValueError: The event does not fit the earlier events.
        """
        ...


class SdkModel(ABC):
    """A provider behind the model port, through its SDK.

    Args:
        name: The provider's display name.
        open_sdk: Imports the SDK, which is slow, and opens its client.
        timeout_seconds: Longest wait for an answer that is not streamed.
    """

    provider: str

    def __init__(self, name: str, open_sdk: Callable[[], Sdk], *, timeout_seconds: float) -> None:
        self.name = name
        self._sdk = Lazy(open_sdk)
        self._timeout_seconds = timeout_seconds

    @abstractmethod
    def _request(self, question: Question, *, streamed: bool) -> Json:
        """Return the request for a question."""

    @abstractmethod
    def _answer(self, document: Json, question: Question) -> Answer:
        """Return the answer in a response.

        Raises:
            ValueError: The response is malformed.
        """

    @abstractmethod
    def _new_stream(self) -> StreamedAnswer:
        """Return a streamed answer before its first event."""

    @asynccontextmanager
    async def closing(self) -> AsyncIterator[None]:
        """Close the SDK's client at the end."""
        try:
            yield
        finally:
            if sdk := self._sdk.opened:
                await sdk.close()

    async def warm(self) -> None:
        """Import the SDK in a thread, so that the first question does not wait for the import."""
        await self._sdk.get()

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        """Return the provider's answer; see `bot.models.base.Model`."""
        sdk = self._sdk.opened or await self._sdk.get()
        stream = self._new_stream()
        with charging(question, partial(stream.usage, question)):
            try:
                if on_text is None:
                    return await self._ask_whole(sdk, question)
                return await self._ask_streamed(sdk, question, stream, on_text)
            except sdk.troubles as error:
                images = holds_images(question.messages)
                raise sdk.failure(error, question.model, images=images) from error
            except ValueError as error:
                raise failures.unreadable(self.name, error) from error
            except RecursionError as error:
                raise failures.nested(self.name) from error

    async def _ask_whole(self, sdk: Sdk, question: Question) -> Answer:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # The raw response skips the SDK's models: their blocks would be converted back to
                # JSON here anyway, and must be sent back unchanged.
                response = await sdk.create_raw(**self._request(question, streamed=False))
        except TimeoutError as error:
            raise failures.silent(self.name, self._timeout_seconds) from error
        return self._answer(response.http_response.json(), question)

    async def _ask_streamed(
        self, sdk: Sdk, question: Question, stream: StreamedAnswer, on_text: OnText
    ) -> Answer:
        growing = Growing(on_text)
        # Raw events: the SDK's own accumulation fails on a tool input that is invalid JSON.
        events = await sdk.create_stream(**self._request(question, streamed=True))
        async with events:
            async for event in events:
                stream.take(event)
                if growing.due:
                    growing.say(stream.shown)
        if not stream.complete:
            raise failures.cut_off(self.name)
        answer = self._answer(stream.document, question)
        growing.say(answer.text)
        return answer
