"""Messages survive being stored, and tokens are estimated rather too high than too low."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.messages import (
    IMAGE_TOKENS,
    Answer,
    Image,
    Message,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    estimate_tokens,
    from_json,
    to_json,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
documents = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers() | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
counts = st.integers(0, 10**7)
usages = st.builds(Usage, counts, counts, counts, counts)
calls = st.builds(ToolCall, texts, texts, documents, texts)
answers = st.builds(
    Answer,
    texts,
    st.lists(calls, max_size=3).map(tuple),
    st.sampled_from(StopReason),
    usages,
    texts,
    st.none() | st.lists(documents, max_size=2),
)
results = st.builds(
    ToolResults,
    st.lists(st.builds(ToolResult, texts, texts, st.booleans()), max_size=3).map(tuple),
    texts,
)
images = st.lists(st.builds(Image, texts, st.binary(max_size=20)), max_size=2).map(tuple)
messages: st.SearchStrategy[Message] = st.builds(UserMessage, texts, images) | answers | results


@given(messages)
def test_a_message_is_the_same_after_it_was_stored(message: Message) -> None:
    stored = json.loads(json.dumps(to_json(message)))

    assert from_json(stored) == message


@pytest.mark.parametrize("document", [{}, {"kind": "poem"}, {"kind": "user", "text": 3}])
def test_a_document_that_is_no_message_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="No message"):
        from_json(document)


@given(usages, usages)
def test_usage_adds_up_and_cached_tokens_count(one: Usage, other: Usage) -> None:
    both = one + other

    assert both.total == one.total + other.total
    assert one.all_input == one.input + one.cache_read + one.cache_write
    assert one.total == one.all_input + one.output


@given(st.lists(messages, max_size=5), messages)
def test_a_longer_history_is_never_estimated_smaller(history: list[Message], more: Message) -> None:
    assert 1 <= estimate_tokens(history) <= estimate_tokens([*history, more])


@given(texts)
def test_a_text_is_estimated_at_a_third_of_its_bytes_at_least(text: str) -> None:
    size = len(text.encode(errors="replace"))
    assert size / 3 <= estimate_tokens(text) <= size / 3 + 1


@given(images)
def test_every_image_counts_whatever_its_size(shown: tuple[Image, ...]) -> None:
    more = estimate_tokens([UserMessage("Look.", shown)]) - estimate_tokens([UserMessage("Look.")])

    assert more == IMAGE_TOKENS * len(shown)


def test_what_is_written_about_a_message_does_not_hold_its_images() -> None:
    message = UserMessage("Look.", (Image("image/png", b"pixels"),))

    assert "pixels" not in repr(message)


def test_arguments_and_native_blocks_count() -> None:
    long = "x" * 3_000

    for answer in (
        Answer("", (ToolCall("a", "save", {"text": long}),)),
        Answer("", native=[{"type": "thinking", "text": long}]),
        Answer(long),
    ):
        assert estimate_tokens([answer]) > 1_000
