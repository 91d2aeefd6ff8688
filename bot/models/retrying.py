"""A model that asks again when its provider was busy."""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import stamina
from pydantic import Field

from bot.agent.messages import Answer
from bot.errors import ModelUnavailableError
from bot.models.base import Model, OnText, Question
from bot.values import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")


class RetrySettings(Settings):
    """Everything under `models.retry:`."""

    attempts: int = Field(5, ge=1, le=20, description="How often a busy provider is asked in all.")
    total_seconds: float = Field(
        180, gt=0, description="After so long no further attempt is begun, in seconds."
    )
    wait_initial_seconds: float = Field(
        0.5, ge=0, description="The wait before the second attempt; it doubles each time."
    )
    wait_max_seconds: float = Field(
        30, ge=0, description="The longest wait between attempts, unless the provider asks more."
    )
    wait_jitter_seconds: float = Field(
        1, ge=0, description="A random part on top, so that runs do not all come back at once."
    )


class RetryingModel:
    """A model around a model: asks again while the provider is busy, within bounds.

    Only a question to which nothing came of is repeated: an answer that arrived broken was not
    acted on. A streamed text starts over.
    """

    def __init__(self, model: Model, settings: RetrySettings) -> None:
        self.provider = model.provider
        self._model = model
        self._settings = settings

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; see `bot.models.base.Model`."""
        return await asked_again(
            lambda: self._model.ask(question, on_text), self._settings, name=question.model
        )


async def asked_again(ask: Callable[[], Awaitable[T]], settings: RetrySettings, *, name: str) -> T:
    """Return what comes of asking, again and again while the provider is busy, within bounds.

    Args:
        ask: Asks once.
        settings: The bounds.
        name: Of what is asked, for the log.

    Raises:
        ModelError: Whatever the last attempt raised.
    """
    try:
        # The usual case: it costs no more than the call itself.
        return await ask()
    except ModelUnavailableError as error:
        first: ModelUnavailableError | None = error
    # Its default hook prints every retry to the terminal; they are logged below.
    stamina.instrumentation.set_on_retry_hooks(())
    patience = _Patience(settings)
    async for attempt in stamina.retry_context(
        on=patience,
        attempts=settings.attempts,
        timeout=settings.total_seconds,
        wait_initial=settings.wait_initial_seconds,
        wait_max=settings.wait_max_seconds,
        wait_jitter=settings.wait_jitter_seconds,
    ):
        with attempt:
            patience.backoff = attempt.next_wait
            if first is not None:
                known, first = first, None
                raise known
            log.warning("Asking %s again, attempt %d", name, attempt.num)
            return await ask()
    raise AssertionError("the loop above returns or raises")


class _Patience:
    """Whether and how long to wait after an error: the hook that stamina calls.

    Attributes:
        backoff: The wait that the backoff alone would choose, without jitter.
    """

    def __init__(self, settings: RetrySettings) -> None:
        self.backoff = 0.0
        self._settings = settings

    def __call__(self, error: Exception) -> bool | float:
        """Return `False` to give up, `True` for the usual wait, or the seconds to wait."""
        if not isinstance(error, ModelUnavailableError):
            return False
        least = error.retry_after_seconds
        if least is None:
            return True
        if least > self._settings.total_seconds:
            return False
        jitter = random.uniform(0, self._settings.wait_jitter_seconds)  # noqa: S311
        return max(least, self.backoff) + jitter
