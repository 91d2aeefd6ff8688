"""Requests that fit the model which answers."""

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
from bot.models.capabilities import UNKNOWN, Capabilities
from bot.models.fitted import PLAIN, FittedModel, fitted
from tests.fakes.scripted_model import ScriptedModel

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
