"""Asks fallback models while the requested model is unavailable."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from bot.agent.messages import Answer
from bot.errors import ModelError, ModelRefusedError, ModelUnavailableError
from bot.models.base import Model, ModelRequest, OnText
from bot.models.retrying import UNLIMITED_SECONDS

log = logging.getLogger(__name__)

#: How long an unavailable model is moved to the end of the order.
DOWN_SECONDS = 60.0
#: Shortest pause between two rounds through all models, in seconds.
LEAST_WAIT = 1.0


@dataclass(slots=True)
class FallbackCandidate:
    """A model that may answer.

    Attributes:
        name: The `provider/model` shown to users.
        model: The provider's name of the model.
        ask: The provider.
        down_until: End of the time at the end of the order, by the clock of `Fallbacks`.
    """

    name: str
    model: str
    ask: Model
    down_until: float = 0.0


@dataclass(slots=True)
class Fallbacks:
    """Shared state of all fallback models: the candidates and their availability.

    Attributes:
        seconds: Longest wait for a busy model before the next one is asked.
        now: A monotonic clock, in seconds.
        sleep: Sleeps by that clock.
    """

    seconds: float
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    candidates: dict[str, FallbackCandidate] = field(default_factory=dict)

    def add(self, name: str, model: str, ask: Model) -> FallbackCandidate:
        """Return the candidate with this name; create it on the first call."""
        return self.candidates.setdefault(name, FallbackCandidate(name, model, ask))


class FallbackModel:
    """Asks a model, and fallbacks in order while the model is busy, down or refused.

    Each candidate may wait `Fallbacks.seconds`. When all have failed, the next round begins after
    the shortest pause that one of them requested, until the request's deadline. An error about
    the request itself is raised only if it comes from the requested model.

    Args:
        first: The requested model.
        others: The fallbacks, in order.
    """

    def __init__(
        self, first: FallbackCandidate, others: Sequence[FallbackCandidate], fallbacks: Fallbacks
    ) -> None:
        self._first = first
        self._others = [other for other in others if other is not first]
        self._fallbacks = fallbacks

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the first answer; see `bot.models.base.Model`."""
        now = self._fallbacks.now
        until = now() + (UNLIMITED_SECONDS if request.seconds is None else request.seconds)
        told: ModelError = ModelUnavailableError(f"{self._first.name} does not answer.")
        out: set[str] = set()
        while True:
            errors: dict[str, ModelError] = {}
            candidates = [each for each in (self._first, *self._others) if each.name not in out]
            # Candidates marked as down are asked last.
            for candidate in sorted(candidates, key=lambda each: each.down_until > now()):
                left = max(0.0, until - now())
                asked = replace(request, seconds=min(left, self._fallbacks.seconds))
                try:
                    first = candidate is self._first
                    asked = asked if first else replace(asked, model=candidate.model)
                    answer = await candidate.ask.ask(asked, on_text)
                    candidate.down_until = 0.0
                    return answer if first else replace(answer, fallback=candidate.name)
                except ModelError as error:
                    self._take(candidate, error)
                    errors[candidate.name] = error
            if self._first.name in errors:
                told = errors[self._first.name]
            # Only models that did not charge for the request are asked again.
            passing = {
                name: error.retry_after_seconds or 0.0
                for name, error in errors.items()
                if isinstance(error, ModelUnavailableError) and not error.charged
            }
            out |= errors.keys() - passing.keys()
            left = until - now()
            wait = max(LEAST_WAIT, min(passing.values(), default=0.0))
            if not passing or wait > left:
                raise told
            if request.on_wait is not None:
                request.on_wait(str(told), wait)
            await self._fallbacks.sleep(wait)

    def _take(self, candidate: FallbackCandidate, error: ModelError) -> None:
        """Log an error and mark an unavailable candidate as down.

        Raises:
            ModelError: The requested model's error, if it is about the request itself.
        """
        unavailable = isinstance(error, ModelUnavailableError | ModelRefusedError)
        if candidate is self._first and not unavailable:
            raise error
        now = self._fallbacks.now()
        level = logging.DEBUG if candidate.down_until > now else logging.WARNING
        log.log(level, "%s does not answer, another model is asked", candidate.name)
        if unavailable:
            candidate.down_until = now + DOWN_SECONDS
