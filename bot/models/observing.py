"""Publishes an event for each attempt of a model call."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.agent.messages import Answer, Usage
from bot.counted_events import ModelCalled
from bot.errors import ModelError, ModelRefusedError, ModelUnavailableError, SpendingLimitError
from bot.models.base import Model, ModelRequest, OnText

#: Receives the event of each attempt.
Observe = Callable[[ModelCalled], None]


def outcome_of(error: BaseException) -> str:
    """Return the label of an attempt that raised an error."""
    match error:
        case ModelUnavailableError():
            return "unavailable"
        case ModelRefusedError():
            return "refused"
        case SpendingLimitError():
            return "limit"
        case ModelError():
            return "failed"
        case Exception():
            return "error"
        case _:
            return "cancelled"


@dataclass(frozen=True, slots=True)
class ObservedModel:
    """Wraps a model and publishes the outcome, the time and the usage of each attempt."""

    model: Model
    provider: str
    observe: Observe
    monotonic: Callable[[], float] = time.monotonic

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; see `bot.models.base.Model`."""
        began, outcome, usage = self.monotonic(), "answered", Usage()

        def on_lost(asked: ModelRequest, lost: Usage) -> None:
            nonlocal usage
            usage += lost
            if request.on_lost is not None:
                request.on_lost(asked, lost)

        try:
            answer = await self.model.ask(replace(request, on_lost=on_lost), on_text)
        except BaseException as error:
            outcome = outcome_of(error)
            raise
        else:
            usage += answer.usage
            return answer
        finally:
            self.observe(
                ModelCalled(
                    provider=self.provider,
                    outcome=outcome,
                    seconds=self.monotonic() - began,
                    repeated=request.repeated,
                    input=usage.input,
                    output=usage.output,
                    cache_read=usage.cache_read,
                    cache_write=usage.cache_write,
                    cost=usage.money,
                )
            )
