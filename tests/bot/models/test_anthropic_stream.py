"""A streamed message, put together from its events."""

from copy import deepcopy
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from bot.agent.messages import UserMessage
from bot.models.anthropic import LONGEST_THOUGHT, StreamedMessage
from bot.models.anthropic_codec import answer_from
from bot.models.base import ModelRequest
from bot.values import Json

REQUEST = ModelRequest(model="claude-x", prompt="", messages=(UserMessage("Hi"),))
START: Json = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5},
    },
}


def event(document: Json) -> Json:
    """Return an event that the SDK takes for one of the API."""
    from anthropic.types import RawMessageStreamEvent

    adapter: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
    adapter.validate_python(document)
    return deepcopy(document)


def arriving(*documents: Json) -> StreamedMessage:
    message = StreamedMessage()
    for document in (START, *documents):
        message.take(event(document))
    return message


def opened(index: int, **block: object) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def grown(index: int, **delta: object) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def thinking(text: str) -> tuple[Json, Json]:
    return (
        opened(0, type="thinking", thinking="", signature=""),
        grown(0, type="thinking_delta", thinking=text),
    )


def test_the_newest_line_of_thought_is_shown() -> None:
    assert arriving(*thinking("First this.\n\nThen that.\n")).shown == "💭 Then that."


def test_a_long_line_of_thought_does_not_fill_the_chat() -> None:
    shown = arriving(*thinking("and " * 500 + "done")).shown

    assert shown.endswith("and done")
    assert len(shown) <= LONGEST_THOUGHT + 5


@pytest.mark.parametrize("text", ["", "  \n"])
def test_nothing_is_shown_of_nothing(text: str) -> None:
    assert arriving(*thinking(text)).shown == ""


def test_a_text_takes_the_place_of_thoughts() -> None:
    text = (opened(1, type="text", text=""), grown(1, type="text_delta", text="Hello."))

    assert arriving(*thinking("Hm."), *text).shown == "Hello."


def test_texts_with_something_between_them_are_paragraphs() -> None:
    blocks = (
        opened(0, type="text", text="One "),
        opened(1, type="text", text="two."),
        opened(2, type="redacted_thinking", data="x"),
        opened(3, type="text", text="Three."),
    )

    assert arriving(*blocks).shown == "One two.\n\nThree."


def test_counts_that_an_event_leaves_out_stay() -> None:
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 30},
    }

    usage = answer_from(arriving(end).document, REQUEST).usage

    assert (usage.input, usage.cache_read, usage.output) == (10, 5, 30)


def test_a_message_is_complete_with_its_last_event_only() -> None:
    assert not arriving(opened(0, type="text", text="Hello.")).complete
    assert arriving({"type": "message_stop"}).complete


def test_an_event_that_does_not_fit_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="content_block_delta"):
        arriving(grown(7, type="text_delta", text="Hello."))


def test_thoughts_of_a_cancelled_message_are_charged_by_their_time() -> None:
    """Their summary is shorter than what is billed."""
    now = [100.0]
    message = StreamedMessage(monotonic=lambda: now[0])
    request = replace(REQUEST, max_tokens=5_000)

    def output() -> int:
        usage = message.usage(request)
        assert usage is not None
        return usage.output

    message.take(event(START))
    now[0] += 60
    assert output() == 1, "nothing is charged for the wait before it begins"
    for document in thinking("Hm."):
        message.take(event(document))
    now[0] += 20
    thinking_still = output()
    message.take(event({"type": "content_block_stop", "index": 0}))
    message.take(event(opened(1, type="text", text="")))
    now[0] += 60

    assert 2_000 < thinking_still < 2_100
    assert 2_000 < output() < 2_100
    message = StreamedMessage(monotonic=lambda: now[0])
    for document in (START, *thinking("Hm.")):
        message.take(event(document))
    now[0] += 600
    assert output() == request.max_tokens, "no more than it may write"
