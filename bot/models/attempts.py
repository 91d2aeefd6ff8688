"""Wraps the attempts of model calls: reserves and charges the cost of each, and publishes it."""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from bot.agent.messages import Answer, Usage
from bot.counted_events import ModelCalled
from bot.errors import (
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    NearLimitError,
    SpendingLimitError,
)
from bot.models.base import Model, ModelRequest, OnText
from bot.models.client import estimated_input
from bot.models.metering import Meter, MeteredCall, bounds_of
from bot.models.prices import Prices

#: Receives the priced usage of a request and the name of its model.
Charge = Callable[[Usage, str], None]
#: Receives the event of each attempt.
Observe = Callable[[ModelCalled], None]


class CountingModel(Model, Protocol):
    """A provider that may count the input tokens of a request."""

    async def count(self, request: ModelRequest) -> int | None:
        """Return the input tokens of a request; `None` if the provider does not count them."""


@dataclass(frozen=True, slots=True)
class MeteredModel:
    """Makes each request to a provider within the spending limits of its payer.

    Attributes:
        provider: The provider, as in `provider/model`.
        meter: Reserves the amounts; `None` where no limit can apply.
    """

    model: CountingModel
    provider: str
    prices: Prices
    meter: Meter | None = None

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the provider's answer; see `bot.models.base.Model`.

        Raises:
            SpendingLimitError: The request exceeds a limit; the provider was not asked.
        """
        meter, payer = self.meter, request.payer
        if meter is None or payer is None or not (limits := await meter.limits(payer)):
            return await self._ask(request, on_text, lambda _, __: None)
        reserve = partial(meter.call, payer, limits)
        expected = request.expected_input or estimated_input(request)
        try:
            return await self._reserved(reserve, request, on_text, expected, counted=False)
        except NearLimitError:
            found = await self.model.count(request) or expected
            return await self._reserved(reserve, request, on_text, found, counted=True)

    async def _reserved(
        self,
        reserve: Callable[..., AbstractAsyncContextManager[MeteredCall]],
        request: ModelRequest,
        on_text: OnText | None,
        expected: int,
        *,
        counted: bool,
    ) -> Answer:
        """Reserve an amount, ask, and settle what was billed."""
        bounds = bounds_of(
            self.prices,
            self.provider,
            request.model,
            input_tokens=expected,
            max_output=request.max_tokens,
            last=not request.tools_allowed,
        )
        async with reserve(bounds, counted=counted) as call:
            asked = replace(request, max_tokens=min(request.max_tokens, call.max_output))
            return await self._ask(asked, on_text, call.charge)

    async def _ask(self, request: ModelRequest, on_text: OnText | None, charge: Charge) -> Answer:
        def on_lost(lost: ModelRequest, usage: Usage) -> None:
            priced = self.prices.priced(usage, self.provider, lost.model)
            charge(priced, lost.model)
            if request.on_lost is not None:
                request.on_lost(lost, priced)

        answer = await self.model.ask(replace(request, on_lost=on_lost), on_text)
        priced = self.prices.priced(answer.usage, self.provider, request.model, answer.model)
        charge(priced, answer.model or request.model)
        return replace(answer, usage=priced)


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
