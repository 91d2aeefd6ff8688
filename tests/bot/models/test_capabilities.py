"""Capabilities of models: an admin's word, the catalogue, and careful defaults."""

import json
from pathlib import Path

import pytest

from bot.models.capabilities import UNKNOWN, CapabilitySettings, ModelCapabilities

FOUND = ModelCapabilities(vendors={"here": "ollama"})


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-5-5"),
        ("anthropic", "claude-sonnet-5-5-20260901"),
        ("bedrock", "eu.anthropic.claude-sonnet-5-5-v1:0"),
        ("gateway", "anthropic/claude-sonnet-5.5"),
    ],
)
def test_a_model_is_known_by_all_of_its_names(provider: str, model: str) -> None:
    can = FOUND.of(provider, model)

    assert can.known
    assert can.tools and can.images and can.thinking and can.effort and can.loads_tools  # noqa: PT018
    assert (can.context_tokens, can.cache_minimum, can.cached_weight) == (1_000_000, 512, 0.05)


def test_an_older_model_takes_neither_effort_nor_adaptive_thinking() -> None:
    can = FOUND.of("anthropic", "claude-haiku-4-5")

    assert (can.effort, can.thinking, can.tools) == (False, False, True)


@pytest.mark.parametrize(
    ("provider", "model", "known"),
    [("anthropic", "claude-opus-5-9", True), ("openai", "gpt-5.9", True), ("here", "phi-9", False)],
)
def test_a_later_release_can_do_what_its_generation_can(
    provider: str, model: str, *, known: bool
) -> None:
    assert FOUND.of(provider, model).effort is known


def test_a_model_of_a_server_that_calls_no_tools_is_known() -> None:
    assert not FOUND.of("here", "llama2:13b").tools
    assert FOUND.of("here", "llama3.1").tools


def test_an_unknown_model_calls_tools_and_promises_nothing_else() -> None:
    can = FOUND.of("here", "our-own")

    assert can is UNKNOWN
    assert (can.tools, can.images, can.thinking, can.effort) == (True, True, False, False)
    assert can.context_tokens is None


@pytest.mark.parametrize("name", ["here/our-own", "our-own"])
def test_the_word_of_an_admin_counts_and_leaves_the_rest(name: str) -> None:
    own = {name: CapabilitySettings(tools=False, context_tokens=8192)}

    can = ModelCapabilities(own).of("here", "our-own")

    assert (can.tools, can.context_tokens, can.images) == (False, 8192, True)
    known = ModelCapabilities({"claude-haiku-5-5": CapabilitySettings(images=False)})
    assert known.of("anthropic", "claude-haiku-5-5").context_tokens == 1_000_000


def test_the_catalogue_names_its_source_and_licence() -> None:
    file = Path(__file__).parents[3] / "bot/models/capabilities.json"
    read = json.loads(file.read_text("utf-8"))

    assert "litellm" in read["source"]
    assert "MIT" in read["notice"]
    assert len(read["models"]) > 500
