"""Prices of model calls."""

import math
import re
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.agent.messages import Answer, Usage
from bot.models.attempts import MeteredModel
from bot.models.base import ModelRequest
from bot.models.catalog import ModelSettings
from bot.models.prices import PINNED, VERSION, Prices, PriceSettings
from bot.values import Json
from tests.fakes.losing_model import LosingModel
from tests.fakes.model_server import KEY
from tests.fakes.scripted_model import ScriptedModel

CLAUDE: Json = {"anthropic": {"api_key": KEY}}


def prices(**models: object) -> Prices:
    return ModelSettings.model_validate({**CLAUDE, **models}).price_list


def test_the_shown_version_is_the_pinned_one() -> None:
    pinned = Path("requirements.txt").read_text(encoding="utf-8")

    assert re.findall(r"^genai-prices==(\S+)", pinned, re.MULTILINE) == [VERSION]
    assert version("genai-prices") == VERSION


def test_each_kind_of_token_has_its_price() -> None:
    usage = Usage(input=1_000_000, output=1_000_000, cache_read=1_000_000, cache_write=1_000_000)

    assert prices().of("anthropic", "claude-sonnet-5-5", Usage(input=1_000_000)) == 2_000_000
    assert prices().of("anthropic", "claude-sonnet-5-5", usage) == 2_000_000 + 10_000_000 + (
        100_000 + 2_500_000
    )


def test_cached_tokens_beyond_the_new_ones_have_a_price() -> None:
    usage = Usage(input=10, cache_read=100_000)

    assert prices().of("anthropic", "claude-sonnet-5-5", usage) == 10_020


def test_a_long_input_may_cost_more() -> None:
    of = prices().of

    assert of("anthropic", "claude-haiku-5-5", Usage(input=100_000)) == 10_000
    assert of("anthropic", "claude-haiku-5-5", Usage(input=200_000)) == 100_000


def test_a_part_of_a_micro_dollar_is_rounded_up() -> None:
    assert prices().of("anthropic", "claude-haiku-5-5", Usage(input=11)) == 2
    assert prices().of("anthropic", "claude-haiku-5-5", Usage()) == 0


def test_searches_of_the_provider_have_a_price() -> None:
    assert prices().of("anthropic", "claude-haiku-5-5", Usage(), searches=2) == 20_000


@pytest.mark.parametrize(
    ("provider", "model", "settings"),
    [
        ("anthropic", "claude-unknown-9", {}),
        ("openai", "gpt-4o", {"openai": {"base_url": "http://localhost:1/v1", "main_model": "m"}}),
    ],
)
def test_a_model_without_a_price_has_none(provider: str, model: str, settings: Json) -> None:
    assert prices(**settings).of(provider, model, Usage(input=1)) is None


def test_openai_is_known_by_its_address() -> None:
    official = {"openai": {"base_url": "https://api.openai.com/v1", "main_model": "gpt-4o"}}

    assert prices(**official).of("openai", "gpt-4o", Usage(input=1_000_000)) == 2_500_000


def test_the_offline_demo_costs_nothing() -> None:
    assert prices().of("offline", "offline-demo", Usage(input=1_000)) == 0


def test_an_own_price_comes_first() -> None:
    own = {"input": 3, "cached_read": 0.3, "cache_write": 3.75, "output": 15}
    mine = prices(prices={"claude-sonnet-5-5": own, "anthropic/claude-unknown-9": own})
    usage = Usage(input=1_000, output=100, cache_read=10, cache_write=4)

    for model in ("claude-sonnet-5-5", "claude-unknown-9"):
        assert mine.of("anthropic", model, usage) == 3_000 + 1_500 + 3 + 15


def test_an_own_price_may_be_nothing() -> None:
    server = {"base_url": "http://localhost:1/v1", "main_model": "meta/llama"}
    free = prices(openai=server, prices={"openai/meta/llama": {"input": 0, "output": 0}})

    assert free.of("openai", "meta/llama", Usage(input=9, output=9)) == 0


def test_without_cache_prices_cached_tokens_cost_as_new_ones() -> None:
    price = PriceSettings(input=Decimal(2), output=Decimal(4))

    assert price.of(Usage(cache_read=3, cache_write=5)) == 16


def test_a_price_below_zero_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        prices(prices={"m": {"input": -1, "output": 1}})


async def test_answers_and_lost_requests_of_a_model_have_their_cost() -> None:
    lost: list[Usage] = []
    answer = Answer("Hi.", usage=Usage(1_000, 10), model="claude-haiku-5-5-20261007")
    model = MeteredModel(LosingModel(Usage(500), then=answer), "anthropic", prices())
    request = ModelRequest(
        model="claude-haiku-5-5",
        prompt="",
        messages=(),
        on_lost=lambda _, usage: lost.append(usage),
    )

    answered = await model.ask(request)

    assert answered.usage.cost == 105
    assert [usage.cost for usage in lost] == [50]


async def test_the_model_that_answered_counts_where_the_asked_one_has_no_price() -> None:
    answer = Answer("Hi.", usage=Usage(1_000), model="claude-haiku-5-5")
    model = MeteredModel(ScriptedModel(answer, answer), "anthropic", prices())

    named = await model.ask(ModelRequest(model="gateway-small", prompt="", messages=()))

    assert named.usage.cost == 100


def test_a_sum_with_a_call_without_a_price_has_no_cost() -> None:
    priced, unpriced = Usage(1, cost=5), Usage(1)

    assert (priced + priced).money == 10
    assert (priced + unpriced).money is None
    assert sum([priced], Usage()).money == 5
    assert Usage().money == 0


def test_what_exceeds_a_usage_has_its_part_of_every_count() -> None:
    whole = Usage(100, 20, 30, discount=9, cost=50)

    more = whole.beyond(Usage(60, 5, 10, 4, discount=4, cost=20))

    assert more + Usage(64, 5, 10) == whole
    assert (more.discount, more.cost) == (5, 30)
    assert Usage(1).beyond(whole) == Usage()


@given(st.builds(Usage, *[st.integers(0, 10**7)] * 4))
def test_no_usage_raises_and_more_tokens_never_cost_less(usage: Usage) -> None:
    of = prices().of

    less = of("anthropic", "claude-haiku-5-5", usage)
    more = of("anthropic", "claude-haiku-5-5", usage + Usage(output=1_000))

    assert less is not None
    assert more is not None
    assert 0 <= less < more


@pytest.mark.parametrize("wrong", ["nan", "inf", -1, "1e7"])
def test_a_price_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        PriceSettings.model_validate({"input": 0, "output": wrong})


def test_check_names_version_date_and_models_without_a_price() -> None:
    server = {"base_url": "http://localhost:1/v1", "main_model": "meta/llama"}
    unpriced = ModelSettings.model_validate({"openai": server})
    priced = ModelSettings.model_validate(CLAUDE)

    assert f"prices: genai-prices {VERSION}, pinned on {PINNED}" in unpriced.describe()
    assert "only tokens are counted: openai/meta/llama (" in "\n".join(unpriced.describe())
    assert "only tokens" not in "\n".join(priced.describe())


def every_price() -> list[tuple[str, str]]:
    from genai_prices.data import providers

    return [(each.id, model.id) for each in providers for model in each.models]


COUNT = st.integers(0, 3_000_000)
PACKAGE = Prices({}, {})


@settings(max_examples=300)
@given(
    named=st.deferred(lambda: st.sampled_from(every_price())),
    usage=st.builds(Usage, input=COUNT, output=COUNT, cache_read=COUNT, cache_write=COUNT),
    searches=st.integers(0, 5),
)
def test_a_price_is_that_of_the_package_to_the_micro_dollar(
    named: tuple[str, str], usage: Usage, searches: int
) -> None:
    import genai_prices

    provider, model = named
    counts = genai_prices.Usage(
        input_tokens=usage.all_input,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        output_tokens=usage.output,
        web_searches=searches,
    )
    try:
        total = genai_prices.calc_price(counts, model, provider_id=provider).total_price
        expected = math.ceil(total * 1_000_000)
    except LookupError:
        expected = None

    found = [PACKAGE.of(provider, model, usage, searches=searches) for _ in range(2)]

    assert found == [expected] * 2
