"""The port through which model calls draw from the limits on tokens and money."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from bot.agent.messages import Usage
from bot.models.capabilities import cached_weight
from bot.models.prices import Prices
from bot.spending.pools import CallBounds, Payer, Pool

#: Output tokens by which the price of one is computed.
_SAMPLE = 1_000


@dataclass(slots=True)
class MeteredCall:
    """A model call for which an amount is reserved.

    Attributes:
        max_output: The most output tokens that it may ask for.
        tokens: The weighted tokens that were billed so far.
        cost: The micro-dollars that were billed so far.
        unpriced: Whether a charge had no price, so that the whole reservation counts as billed.
    """

    max_output: int
    tokens: int = 0
    cost: int = 0
    unpriced: bool = False

    def charge(self, usage: Usage, model: str) -> None:
        """Add what was billed for a request, with an answer or without."""
        cached = int(usage.cache_read * (1 - cached_weight(model)))
        self.tokens += usage.total - cached
        if usage.money is None:
            self.unpriced = True
        self.cost += usage.money or 0


class Meter(Protocol):
    """Reserves an amount for each model call, and settles it with what was billed."""

    async def limits(self, payer: Payer | None) -> Sequence[Pool]:
        """Return the limits that apply to a payer; without any, a call need not be reserved.

        Raises:
            SpendingLimitError: The limits of the payer's role are unknown.
        """

    def call(
        self, payer: Payer, limits: Sequence[Pool], bounds: CallBounds, *, counted: bool
    ) -> AbstractAsyncContextManager[MeteredCall]:
        """Reserve an amount for a call, which is settled when the block ends.

        Args:
            payer: The payer.
            limits: The limits that apply to the payer.
            bounds: The most that the call can cost.
            counted: Whether the provider has counted the input. An estimate raises `NearLimitError`
                where its error counts.

        Raises:
            NearLimitError: The call is near a limit and its input is an estimate.
            SpendingLimitError: The call exceeds a limit.
        """


def bounds_of(
    prices: Prices,
    provider: str,
    model: str,
    *,
    input_tokens: int,
    max_output: int,
    last: bool = False,
) -> CallBounds:
    """Return the most that a call can cost.

    All of the input may be new, or be written to the cache at a price of its own.
    """

    def price(output: int) -> int | None:
        kinds = (Usage(input_tokens, output), Usage(0, output, cache_write=input_tokens))
        costs = [cost for usage in kinds if (cost := prices.of(provider, model, usage)) is not None]
        return max(costs, default=None)

    of_input, whole = price(0), price(_SAMPLE)
    known = of_input is not None and whole is not None
    return CallBounds(
        input_tokens=input_tokens,
        input_cost=Decimal(of_input) if of_input is not None else None,
        output_cost=Decimal((whole or 0) - (of_input or 0)) / _SAMPLE if known else Decimal(0),
        max_output=max_output,
        last=last,
    )
