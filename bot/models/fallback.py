"""Other models that answer while the one that was asked for cannot."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from bot.agent.messages import Answer
from bot.errors import ModelError, ModelRefusedError, ModelUnavailableError
from bot.models.base import Model, OnText, Question
from bot.models.retrying import UNLIMITED_SECONDS

log = logging.getLogger(__name__)

#: How long a model that was not available is not asked first.
DOWN_SECONDS = 60.0
#: Between two rounds through all models, at least.
LEAST_WAIT = 1.0


@dataclass(slots=True)
class Candidate:
    """A model that may answer.

    Attributes:
        name: Its `provider/model`, for people.
        model: What the provider calls it.
        ask: Its provider.
        down_until: By the clock of `Fallbacks`.
    """

    name: str
    model: str
    ask: Model
    down_until: float = 0.0


@dataclass(slots=True)
class Fallbacks:
    """The models that may answer for others, in order, and which of all models are down.

    Attributes:
        seconds: How long a model is waited for while there is another one.
        now: A clock that nobody sets, in seconds.
        sleep: Waits by that clock.
    """

    seconds: float
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    candidates: dict[str, Candidate] = field(default_factory=dict)

    def add(self, name: str, model: str, ask: Model) -> Candidate:
        """Return the candidate of this name, the same each time."""
        return self.candidates.setdefault(name, Candidate(name, model, ask))


class FallbackModel:
    """Asks one model, and others in their order while it is busy, down or refused.

    Each candidate is given `Fallbacks.seconds` in turn. When all have been tried in vain, the
    next round begins after the shortest pause that one of them asked for, while there is time.
    An error about the question itself counts only from the model that is asked for.

    Args:
        first: What is asked for.
        others: What answers in its place, in order.
    """

    def __init__(self, first: Candidate, others: Sequence[Candidate], fallbacks: Fallbacks) -> None:
        self.provider = first.ask.provider
        self._first = first
        self._others = [other for other in others if other is not first]
        self._fallbacks = fallbacks

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        """Return the first answer; see `bot.models.base.Model`."""
        now = self._fallbacks.now
        until = now() + (UNLIMITED_SECONDS if question.seconds is None else question.seconds)
        told: ModelError = ModelUnavailableError(f"{self._first.name} does not answer.")
        out: set[str] = set()
        while True:
            errors: dict[str, ModelError] = {}
            for candidate in self._in_order(out):
                left = max(0.0, until - now())
                asked = replace(question, seconds=min(left, self._fallbacks.seconds))
                try:
                    return await self._ask(candidate, asked, on_text)
                except ModelError as error:
                    self._take(candidate, error)
                    errors[candidate.name] = error
            if self._first.name in errors:
                told = errors[self._first.name]
            # The same question may be answered later at no further cost.
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
            if question.on_wait is not None:
                question.on_wait(str(told), wait)
            await self._fallbacks.sleep(wait)

    def _take(self, candidate: Candidate, error: ModelError) -> None:
        """Take note of an error; raise it where it is about the question, not about the model."""
        unavailable = isinstance(error, ModelUnavailableError | ModelRefusedError)
        if candidate is self._first and not unavailable:
            raise error
        now = self._fallbacks.now()
        level = logging.DEBUG if candidate.down_until > now else logging.WARNING
        log.log(level, "%s does not answer, another model is asked", candidate.name)
        if unavailable:
            candidate.down_until = now + DOWN_SECONDS

    def _in_order(self, out: set[str]) -> list[Candidate]:
        """Return the candidates that are not out, those that were down a moment ago last."""
        now = self._fallbacks.now()
        found = [each for each in (self._first, *self._others) if each.name not in out]
        return sorted(found, key=lambda each: each.down_until > now)

    async def _ask(
        self, candidate: Candidate, question: Question, on_text: OnText | None
    ) -> Answer:
        first = candidate is self._first
        asked = question if first else replace(question, model=candidate.model)
        answer = await candidate.ask.ask(asked, on_text)
        candidate.down_until = 0.0
        return answer if first else replace(answer, fallback=candidate.name)
