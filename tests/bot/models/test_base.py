"""Weights of cached input, by model."""

import pytest

from bot.models.capabilities import cached_weight


@pytest.mark.parametrize(
    ("model", "weight"),
    [
        ("claude-opus-5-5", 0.05),
        ("claude-sonnet-5-5-20260901", 0.05),
        ("anthropic/claude-sonnet-5.5", 0.05),
        ("claude-fable-5-1", 0.025),
        ("claude-mythos-5-1", 0.025),
        ("claude-mythos-5", 0.1),
        ("claude-haiku-5-5", 0.1),
        ("claude-sonnet-5", 0.1),
        ("gpt-6-luna", 0.1),
        ("", 0.1),
    ],
)
def test_cached_input_weighs_its_price_relative_to_new_input(model: str, weight: float) -> None:
    assert cached_weight(model) == weight
