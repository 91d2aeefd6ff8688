"""Prices of model calls: an admin's own, and otherwise those of the package genai-prices."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from pydantic import Field

from bot.agent.messages import Usage
from bot.models.capabilities import MOST_NAMES
from bot.recent import Recent
from bot.values import Settings

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

#: The pinned version of genai-prices, and the date of the pin: the package works offline, and new
#: prices are a new version.
VERSION, PINNED = "0.2.3", "2026-11-27"
#: Provider of the demo without a model, which costs nothing.
OFFLINE = "offline"
MICRO_DOLLARS = 1_000_000
#: The highest price, so that the cost of every call fits the database: a dollar for a token.
MOST_DOLLARS = 1_000_000
#: The package's names of vendors, where they differ from those of our providers.
_VENDORS = {"bedrock": "aws", "vertex": "google"}


class PriceSettings(Settings):
    """The price of a model, in dollars per million tokens; 0 for a model that costs nothing."""

    input: Decimal = Field(ge=0, le=MOST_DOLLARS)
    """New input tokens."""

    output: Decimal = Field(ge=0, le=MOST_DOLLARS)
    """Output tokens, thinking included."""

    cached_read: Decimal | None = Field(None, ge=0, le=MOST_DOLLARS)
    """Input tokens read from the provider's cache; empty for the price of new ones."""

    cache_write: Decimal | None = Field(None, ge=0, le=MOST_DOLLARS)
    """Input tokens written to the provider's cache; empty for the price of new ones."""

    def of(self, usage: Usage) -> Decimal:
        """Return the price of this usage in micro-dollars."""
        read = self.input if self.cached_read is None else self.cached_read
        write = self.input if self.cache_write is None else self.cache_write
        # Dollars per million tokens are micro-dollars per token.
        return (
            usage.input * self.input
            + usage.cache_read * read
            + usage.cache_write * write
            + usage.output * self.output
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRates:
    """Micro-dollars for each token of a kind, and for a search of the web.

    Attributes:
        above: The input tokens of a call above which they apply.
    """

    above: int
    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal
    search: Decimal

    def of(self, usage: Usage, searches: int) -> Decimal:
        """Return the price of a call in micro-dollars."""
        return (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
            + searches * self.search
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """Returns the prices of model calls.

    Attributes:
        own: The prices that an admin set, by provider and model.
        addresses: The addresses of the APIs of providers whose name does not tell the vendor.
    """

    own: Mapping[tuple[str, str], PriceSettings]
    addresses: Mapping[str, str]
    _rates: Recent[tuple[str, str], list[PackageRates] | None] = field(
        default_factory=lambda: Recent(MOST_NAMES), compare=False
    )

    def load(self) -> None:
        """Load the package, which takes 0.15 s; otherwise the first price does."""
        self.of("anthropic", "", Usage())

    def priced(self, usage: Usage, provider: str, *models: str, searches: int = 0) -> Usage:
        """Return the usage of a call with its cost.

        Args:
            usage: The tokens.
            provider: The provider.
            models: The names of the model, of which the first one with a price counts: a server
                may answer with another model than the requested one.
            searches: See `of`.
        """
        costs = (self.of(provider, name, usage, searches=searches) for name in models if name)
        return replace(usage, cost=next((cost for cost in costs if cost is not None), None))

    def of(self, provider: str, model: str, usage: Usage, *, searches: int = 0) -> int | None:
        """Return the price of a call in micro-dollars, rounded up; `None` if the model has none.

        Args:
            provider: The provider, as in `provider/model`.
            model: The provider's name of the model.
            usage: The tokens of this one call: some prices depend on the length of the input.
            searches: Searches of the web that the provider made.
        """
        if own := self.own.get((provider, model)):
            return math.ceil(own.of(usage))
        if provider == OFFLINE:
            return 0
        key = provider, model
        if key not in self._rates:
            self._rates[key] = self._tiers(*key)
        tiers = self._rates[key]
        if tiers is None:
            found = self._calculated(*key, usage, searches)
            cost = None if found is None else found.total_price * MICRO_DOLLARS
        else:
            cost = next(each for each in tiers if each.above < usage.all_input).of(usage, searches)
        return None if cost is None else math.ceil(cost)

    def _tiers(self, provider: str, model: str) -> "list[PackageRates] | None":
        """Return the rates of a model whose price depends on nothing but the numbers of tokens.

        The package takes 0.3 ms for a price, which each call of a model would pay.
        """
        from genai_prices import types  # noqa: PLC0415

        found = self._calculated(provider, model, Usage(), 0)
        if found is None or not isinstance(found.model.prices, types.ModelPrice):
            return None
        if found.total_price:  # each request costs something by itself
            return None

        def of(usage: Usage, searches: int = 0) -> Decimal:
            found = self._calculated(provider, model, usage, searches)
            return Decimal(0) if found is None else found.total_price * MICRO_DOLLARS

        parts = vars(found.model_price).values()
        tiered = (part.tiers for part in parts if isinstance(part, types.TieredPrices))
        rates: list[PackageRates] = []
        for above in sorted(
            {-1, *(tier.start for tiers in tiered for tier in tiers)}, reverse=True
        ):
            count = max(1, above + 1)  # of input, which decides about the tier
            new = of(Usage(input=count))
            each = PackageRates(
                above=above,
                input=new / count,
                output=(of(Usage(input=count, output=MICRO_DOLLARS)) - new) / MICRO_DOLLARS,
                cache_read=of(Usage(cache_read=count)) / count,
                cache_write=of(Usage(cache_write=count)) / count,
                search=of(Usage(input=count), searches=1) - new,
            )
            rates.append(each)
        return rates

    def _calculated(
        self, provider: str, model: str, usage: Usage, searches: int
    ) -> "PriceCalculation | None":
        # Late, since most commands need no price.
        import genai_prices  # noqa: PLC0415

        address = self.addresses.get(provider)
        # For the package, the input includes what was read from the cache and written to it.
        tokens = genai_prices.Usage(
            input_tokens=usage.all_input,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            output_tokens=usage.output,
            web_searches=searches,
        )
        try:
            if address:
                return genai_prices.calc_price(tokens, model, provider_api_url=address)
            vendor = _VENDORS.get(provider, provider)
            return genai_prices.calc_price(tokens, model, provider_id=vendor)
        except LookupError:
            return None
