"""Remembers how providers answered last, and reports a refusal of the account."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.agent.messages import Answer
from bot.errors import ModelRefusedError, ModelUnavailableError
from bot.models.base import Model, ModelRequest, OnText


@dataclass(slots=True)
class ProviderHealth:
    """The last outcomes of requests to one provider, in this process.

    Attributes:
        on_refused: Called with the provider and the reason of each refusal of the account.
        now: A clock, in seconds.
    """

    name: str
    on_refused: Callable[[str, str], None] = lambda *_: None
    now: Callable[[], float] = time.monotonic
    answered_at: float | None = None
    trouble: str = ""
    trouble_at: float = field(default=0.0)

    def answered(self) -> None:
        """Record an answer."""
        self.answered_at, self.trouble = self.now(), ""

    def failed(self, reason: str) -> None:
        """Record a request without an answer."""
        self.trouble, self.trouble_at = reason, self.now()

    def __str__(self) -> str:
        if self.trouble:
            return f"{self.name}: {self.trouble} ({_ago(self.now() - self.trouble_at)})"
        if self.answered_at is None:
            return f"{self.name}: not asked since the start of this process"
        return f"{self.name}: answered {_ago(self.now() - self.answered_at)}"


@dataclass(frozen=True, slots=True)
class WatchedModel:
    """Wraps a model and records its outcomes."""

    model: Model
    health: ProviderHealth

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; see `bot.models.base.Model`."""
        try:
            answer = await self.model.ask(request, on_text)
        except ModelRefusedError as error:
            self.health.failed(str(error))
            self.health.on_refused(self.health.name, str(error))
            raise
        except ModelUnavailableError as error:
            self.health.failed(str(error))
            raise
        self.health.answered()
        return answer


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"
