"""Each attempt of a model call is published with its outcome and usage."""

import asyncio
from dataclasses import dataclass, field

import pytest

from bot.agent.messages import Answer, Usage, UserMessage
from bot.counted_events import ModelCalled
from bot.errors import (
    ContextTooLongError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    SpendingLimitError,
)
from bot.models.attempts import ObservedModel, outcome_of
from bot.models.base import ModelRequest, OnText
from bot.models.retrying import Patience, RetryingModel, RetrySettings

REQUEST = ModelRequest(model="some-model", prompt="", messages=(UserMessage("Hi"),))
AT_ONCE = RetrySettings(wait_initial_seconds=0, wait_max_seconds=0, wait_jitter_seconds=0)


@dataclass
class FailingModel:
    """Fails so often, each time at a cost, and then answers."""

    errors: list[ModelError] = field(default_factory=list)

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        if self.errors:
            if request.on_lost is not None:
                request.on_lost(request, Usage(5, 0, cost=10))
            raise self.errors.pop(0)
        return Answer(text="Hi", usage=Usage(3, 2, cost=40))


async def test_attempts_are_published_and_those_after_a_failure_are_repeated() -> None:
    published: list[ModelCalled] = []
    failing = FailingModel([ModelUnavailableError("Busy."), ModelUnavailableError("Busy.")])
    observed = ObservedModel(failing, "moody", published.append)

    await RetryingModel(observed, Patience(AT_ONCE, "Moody")).ask(REQUEST)

    assert [(each.outcome, each.repeated) for each in published] == [
        ("unavailable", False),
        ("unavailable", True),
        ("answered", True),
    ]
    assert [(each.input, each.output, each.cost) for each in published] == [
        (5, 0, 10),
        (5, 0, 10),
        (3, 2, 40),
    ]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ModelRefusedError("No."), "refused"),
        (SpendingLimitError("No."), "limit"),
        (ContextTooLongError("No."), "failed"),
        (ValueError(), "error"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
def test_each_kind_of_error_is_an_outcome(error: BaseException, outcome: str) -> None:
    assert outcome_of(error) == outcome
