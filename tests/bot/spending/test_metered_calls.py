"""Each request to a provider is made within what the limits leave, and draws what it has cost."""

from dataclasses import replace
from typing import Any

import pytest

from bot.agent.messages import Answer, Usage
from bot.errors import ModelUnavailableError, SpendingLimitError
from bot.models.attempts import MeteredModel
from bot.models.base import ModelRequest
from bot.models.metering import bounds_of
from bot.models.prices import Prices
from bot.models.retrying import Patience, RetryingModel, RetrySettings
from bot.values import Identity
from tests.fakes.bank import Bank, billed, call, payer
from tests.fakes.losing_model import LosingModel
from tests.fakes.scripted_model import ScriptedModel, says

CLAUDE = "claude-sonnet-5-5"
PRICES = Prices({}, {})
AT_ONCE = RetrySettings(wait_initial_seconds=0, wait_jitter_seconds=0)


def request(alice: Identity, **fields: Any) -> ModelRequest:
    plain = ModelRequest(model=CLAUDE, prompt="", messages=(), payer=payer(alice), max_tokens=8_000)
    return replace(plain, **fields)


async def test_no_more_output_is_asked_for_than_a_quarter_of_what_a_limit_leaves(
    bank: Bank, alice: Identity
) -> None:
    bank.limit(bot={"day": {"tokens": 40_000}})
    await bank.spend(payer(alice), billed(10_000, 0), call(10_000, 10))
    model = ScriptedModel(says("Hens."), says("Hens."))
    metered = MeteredModel(model, "anthropic", PRICES, bank.ledger())

    await metered.ask(request(alice))
    await metered.ask(request(alice, max_tokens=500))

    # A turn may use 95 % of a limit: 38,000 tokens, of which 28,000 are left.
    assert [each.max_tokens for each in model.requests] == [7_000, 500]


async def test_input_is_reserved_at_the_price_of_new_input_or_of_writing_it_to_the_cache() -> None:
    new, written = (
        PRICES.of("anthropic", CLAUDE, usage)
        for usage in (Usage(100_000), Usage(cache_write=100_000))
    )

    found = bounds_of(PRICES, "anthropic", CLAUDE, input_tokens=100_000, max_output=1_000)

    assert new
    assert written
    assert found.input_cost == written > new
    assert found.cost(1_000) == written + 10_000


async def test_a_request_without_an_answer_draws_what_may_be_charged(
    bank: Bank, alice: Identity
) -> None:
    bank.limit(bot={"day": {"usd": 1}})
    failure = ModelUnavailableError("Broken off.", charged=True)
    model = LosingModel(Usage(1_000, 100), then=failure)
    metered = MeteredModel(model, "anthropic", PRICES, bank.ledger())

    with pytest.raises(ModelUnavailableError):
        await metered.ask(request(alice))

    (state,) = await bank.states(payer(alice))
    assert (state.used_tokens, state.used_cost, state.reserved_cost) == (1_100, 3_000, 0)


async def test_each_attempt_of_a_retry_draws_from_the_limits_and_must_fit_them(
    bank: Bank, alice: Identity
) -> None:
    bank.limit(bot={"day": {"tokens": 20_000}})
    failure = ModelUnavailableError("Broken off.", charged=True)
    model = LosingModel(Usage(6_000), then=failure)
    metered = MeteredModel(model, "anthropic", PRICES, bank.ledger())
    retrying = RetryingModel(metered, Patience(AT_ONCE, "Claude"))

    with pytest.raises(SpendingLimitError, match="18,000 of 20,000 weighted tokens used"):
        await retrying.ask(request(alice, expected_input=1_000))

    (state,) = await bank.states(payer(alice))
    assert (state.used_tokens, state.reserved_tokens) == (18_000, 0)


async def test_a_payer_without_limits_is_asked_for_as_the_request_says(
    bank: Bank, alice: Identity
) -> None:
    model = ScriptedModel(Answer("Hens.", usage=Usage(10)))

    await MeteredModel(model, "anthropic", PRICES, bank.ledger()).ask(request(alice))

    assert model.last.max_tokens == 8_000
