"""Helpers of the adapters around an SDK: lazy opening, limits, throttled streaming, charges."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from bot.agent.messages import Usage, estimate_tokens
from bot.errors import ModelError
from bot.models.base import OnText, Question

CONNECT_SECONDS = 10.0

#: Keep-alive of idle connections. A run's steps are seconds apart, and a TLS handshake for each
#: would cost more than the request.
KEPT_CONNECTION_SECONDS = 60.0

MAX_CONNECTIONS = 1000

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
