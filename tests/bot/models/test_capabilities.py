"""Capabilities of models, by an admin or the catalogue, and requests that fit them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.messages import (
    Answer,
    Image,
    Message,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
    estimate_tokens,
)
from bot.errors import ImagesRefusedError
from bot.models.base import ModelRequest, ToolDescription
from bot.models.capabilities import (
    PLAIN,
    UNKNOWN,
    Capabilities,
    CapabilitySettings,
    FittedModel,
    ModelCapabilities,
    fitted,
)
from tests.fakes.scripted_model import ScriptedModel

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


TOOL = ToolDescription("look", "Look something up.", {"type": "object"})
CALLED: tuple[Message, ...] = (
    UserMessage("Look it up."),
    Answer("I look.", (ToolCall("a", "look", {"word": "tea"}),)),
    ToolResults((ToolResult("a", "A plant."),), "Be brief."),
)
PLAIN_TALKER = Capabilities(known=True, tools=False)


def ask(*messages: Message, max_tokens: int = 1000) -> ModelRequest:
    return ModelRequest(
        model="m", prompt="You are a bot.", messages=messages, tools=(TOOL,), max_tokens=max_tokens
    )


def test_a_request_to_a_model_that_can_everything_stays_as_it_is() -> None:
    request = ask(*CALLED)

    assert fitted(request, UNKNOWN) is request


async def test_a_model_without_tools_only_talks_and_says_so() -> None:
    inner = ScriptedModel(Answer("Hello."))
    model = FittedModel(inner, lambda _: PLAIN_TALKER)

    answer = await model.ask(ask(*CALLED))

    [sent] = inner.requests
    assert answer.text == "Hello."
    assert (sent.tools, sent.found) == ((), ())
    assert sent.prompt == f"You are a bot.\n\n{PLAIN}"
    assert not any(isinstance(each, ToolResults) for each in sent.messages)
    said = "\n".join(each.text for each in sent.messages if not isinstance(each, ToolResults))
    assert "look" in said and "A plant." in said and "Be brief." in said  # noqa: PT018


def test_images_are_refused_before_a_model_that_reads_none_is_asked() -> None:
    picture = UserMessage("What is it?", (Image("image/png", b"cat"),))

    with pytest.raises(ImagesRefusedError, match="does not read images"):
        fitted(ask(picture), Capabilities(images=False))


@given(
    texts=st.lists(st.integers(1, 5_000), min_size=1, max_size=12),
    context=st.integers(1_000, 20_000),
    wanted=st.integers(100, 16_000),
)
def test_a_request_fits_a_small_context(texts: list[int], context: int, wanted: int) -> None:
    """Unless the newest message alone is larger, which the model has to refuse."""
    messages = tuple(UserMessage("x" * size) for size in texts)

    sent = fitted(ask(*messages, max_tokens=wanted), Capabilities(context_tokens=context))

    assert sent.messages[-1] == messages[-1]
    assert 0 < sent.max_tokens <= wanted
    needed = estimate_tokens(sent.messages) + sent.max_tokens
    ends = estimate_tokens((messages[0], messages[-1])) + 50
    assert needed <= context or ends > context // 4


def test_an_answer_is_no_longer_than_the_model_can_write() -> None:
    assert fitted(ask(max_tokens=16_000), Capabilities(output_tokens=4096)).max_tokens == 4096
