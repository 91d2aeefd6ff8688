"""What the adapters around an SDK share: opening it late, its numbers, streaming at a calm pace."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from bot.agent.messages import Usage, estimate_tokens
from bot.errors import ModelError
from bot.models.base import OnText, Question

CONNECT_SECONDS = 10.0

#: A run's steps are seconds apart; a new TLS handshake for each costs more than the call.
KEPT_CONNECTION_SECONDS = 60.0

MAX_CONNECTIONS = 1000

T = TypeVar("T")


class Lazy(Generic[T]):
    """Something slow to open: opened once, in a thread, when it is first needed.

    The SDKs take more than a second to import; the loop must not stand still for so long.
    """

    def __init__(self, opener: Callable[[], T]) -> None:
        self._opener = opener
        self._opening = asyncio.Lock()
        self._value: T | None = None

    @property
    def opened(self) -> T | None:
        """What was opened, or `None` when nobody needed it yet."""
        return self._value

    async def get(self) -> T:
        """Return it, opened."""
        if self._value is None:
            async with self._opening:
                if self._value is None:
                    self._value = await asyncio.to_thread(self._opener)
        return self._value


class Growing:
    """Hands a growing text on, at most every 50 ms: every call may redraw a whole message."""

    def __init__(self, on_text: OnText, *, seconds: float = 0.05) -> None:
        self._on_text = on_text
        self._seconds = seconds
        self._next = 0.0
        self._said = ""

    @property
    def due(self) -> bool:
        """Whether it is time to say the text again."""
        return time.monotonic() >= self._next

    def say(self, text: str) -> None:
        """Hand on the whole text so far, unless it is empty or known already."""
        if text and text != self._said:
            self._said = text
            self._next = time.monotonic() + self._seconds
            self._on_text(text)


def estimated_input(question: Question) -> int:
    """Return the input tokens of a question, rather too high, where the provider counts none."""
    tools = sum(len(tool.description) + len(str(tool.schema)) for tool in question.tools)
    return estimate_tokens(question.prompt) + estimate_tokens(question.messages) + tools // 3


@contextmanager
def charging(question: Question, so_far: Callable[[], Usage | None]) -> Iterator[None]:
    """Report a request that comes to no answer and may be charged: see ADR 21.

    Args:
        question: What is asked.
        so_far: Returns what the answer has cost so far; `None` before it began.
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
