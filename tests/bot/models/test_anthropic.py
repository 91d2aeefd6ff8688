"""Claude, through the real SDK against a fake API."""

import asyncio
import base64
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace

import pytest

from bot.agent.messages import (
    Answer,
    Image,
    Media,
    Message,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    from_json,
    to_json,
)
from bot.conversations.files import FileSettings
from bot.errors import ContextTooLongError, ModelError, ModelRefusedError, ModelUnavailableError
from bot.models.anthropic import AnthropicSettings, anthropic_model
from bot.models.base import ModelRequest, ToolDescription
from bot.models.client import SdkModel
from bot.values import Json
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.model_server import KEY, Call, Reply, in_order
from tests.fakes.pictures import PICTURES

SONNET, HAIKU, OLD = "claude-sonnet-5-5", "claude-haiku-5-5", "claude-haiku-4-5"
TOOL = ToolDescription("look", "Look something up.", {"type": "object", "properties": {}})
THOUGHT: Json = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
SEALED: Json = {"type": "redacted_thinking", "data": "c2VhbGVk"}

Opener = Callable[..., AbstractAsyncContextManager[SdkModel]]


@pytest.fixture
async def server() -> AsyncIterator[FakeAnthropic]:
    async with FakeAnthropic(in_order(Reply(text="Hello."))) as opened:
        yield opened


@pytest.fixture
def opened(server: FakeAnthropic) -> Opener:
    @asynccontextmanager
    async def open_model(**settings: object) -> AsyncIterator[SdkModel]:
        given = {"api_key": KEY, "base_url": server.url, "timeout_seconds": 20, **settings}
        async with aclosing(anthropic_model(AnthropicSettings.model_validate(given))) as model:
            yield model

    return open_model


@pytest.fixture
async def model(opened: Opener) -> AsyncIterator[SdkModel]:
    async with opened() as given:
        yield given


def ask(*messages: Message, model: str = SONNET, **fields: object) -> ModelRequest:
    fields = {"messages": messages or (UserMessage("Hi"),), "tools": (TOOL,), **fields}
    return ModelRequest(model=model, prompt="You are a bot.", **fields)  # type: ignore[arg-type]


def unheard(_: str) -> None:
    """Take a streamed text that the test does not look at."""


# -- what is sent --------------------------------------------------------------------------------


async def test_prompt_and_history_are_both_cached(server: FakeAnthropic, model: SdkModel) -> None:
    await model.ask(ask())

    body = server.requests[0].body
    assert body["system"] == [
        {"type": "text", "text": "You are a bot.", "cache_control": {"type": "ephemeral"}}
    ]
    assert body["cache_control"] == {"type": "ephemeral"}


async def test_the_end_of_the_history_and_of_the_step_before_are_cached_too(
    server: FakeAnthropic, model: SdkModel
) -> None:
    calls = (ToolCall("a", "look"),)
    results = ToolResults((ToolResult("a", "Found."),))
    talk = (UserMessage("Hi"), Answer("Hello."), UserMessage("Look it up."))

    await model.ask(ask(*talk, Answer("", calls), results, history=2))

    sent = server.requests[0].body["messages"]
    blocks = [
        block
        for message in sent
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    marked = [block.get("text") for block in blocks if "cache_control" in block]
    assert marked == ["Hello.", "Look it up."]


async def test_an_answer_of_thoughts_alone_is_known_as_such(
    server: FakeAnthropic, model: SdkModel
) -> None:
    server.script = in_order(Reply(blocks=(THOUGHT,)), Reply(text="Twelve."))

    thoughts, words = await model.ask(ask()), await model.ask(ask())

    assert (thoughts.text, thoughts.thought) == ("", True)
    assert not words.thought
    assert from_json(to_json(thoughts)) == thoughts


async def test_no_breakpoint_is_set_on_a_thought(server: FakeAnthropic, model: SdkModel) -> None:
    thoughtful = Answer("", model=SONNET, native=[THOUGHT])

    await model.ask(ask(UserMessage("Hi"), thoughtful, UserMessage("Well?"), history=2))

    assert server.requests[0].body["messages"][1]["content"] == [THOUGHT]


async def test_the_user_is_known_to_the_provider_as_a_hash_only(
    server: FakeAnthropic, model: SdkModel
) -> None:
    await model.ask(ask(user_hash="5e884898"))
    await model.ask(ask())

    assert server.requests[0].body["metadata"] == {"user_id": "5e884898"}
    assert "metadata" not in server.requests[1].body


async def test_tools_are_sent_even_where_they_may_not_be_used(
    server: FakeAnthropic, model: SdkModel
) -> None:
    await model.ask(ask(tools_allowed=False))

    body = server.requests[0].body
    assert [tool["name"] for tool in body["tools"]] == ["look"]
    assert body["tool_choice"] == {"type": "none"}


async def test_all_results_and_the_note_go_into_one_user_message(
    server: FakeAnthropic, model: SdkModel
) -> None:
    calls = (ToolCall("a", "look", {"at": 1}), ToolCall("b", "look"))
    results = ToolResults((ToolResult("a", "Found."), ToolResult("b", "", failed=True)), "Hurry.")

    await model.ask(ask(UserMessage("Hi"), Answer("", calls), results))

    sent = server.requests[0].body["messages"]
    assert sent[1]["content"] == [
        {"type": "tool_use", "id": "a", "name": "look", "input": {"at": 1}},
        {"type": "tool_use", "id": "b", "name": "look", "input": {}},
    ]
    assert sent[2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "Found."},
            {"type": "tool_result", "tool_use_id": "b", "content": "It failed.", "is_error": True},
            {"type": "text", "text": "Hurry."},
        ],
    }
    assert len(sent) == 3


async def test_what_a_tool_shows_is_sent_with_its_result(
    server: FakeAnthropic, model: SdkModel
) -> None:
    media = (Media("image/png", b"cat", "cat.png"), Media("application/pdf", b"%PDF", "a.pdf", 2))
    results = ToolResults((ToolResult("a", "Look.", media=media),))

    await model.ask(ask(UserMessage("Hi"), Answer("", (ToolCall("a", "look"),)), results))

    (sent,) = server.requests[0].body["messages"][2]["content"]
    assert sent["content"] == [
        {"type": "text", "text": "Look."},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "Y2F0"},
        },
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
            "title": "a.pdf",
        },
    ]


async def test_images_are_sent_before_the_words_about_them(
    server: FakeAnthropic, model: SdkModel
) -> None:
    shown = tuple(Image(kind, data) for kind, data in PICTURES.items())

    await model.ask(ask(UserMessage("What is this?", shown), Answer("A dot."), UserMessage("Oh.")))

    sent = server.requests[0].body["messages"]
    assert sent[0]["content"] == [
        *(
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": kind,
                    "data": base64.b64encode(data).decode(),
                },
            }
            for kind, data in PICTURES.items()
        ),
        {"type": "text", "text": "What is this?"},
    ]
    assert sent[2] == {"role": "user", "content": [{"type": "text", "text": "Oh."}]}


# The SDK's client hands a body over in one piece: some milliseconds for one of this size.
@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
async def test_the_largest_image_that_is_taken_by_default_is_taken_by_the_api(
    model: SdkModel,
) -> None:
    largest = PICTURES["image/png"].ljust(FileSettings().image_bytes, b"\0")

    answer = await model.ask(ask(UserMessage(" ", (Image("image/png", largest),))))

    assert answer.text == "Hello."


async def test_an_empty_answer_and_an_empty_message_do_not_break_the_history(
    model: SdkModel,
) -> None:
    answer = await model.ask(ask(UserMessage("Hi"), Answer(" \n"), UserMessage("  ")))

    assert answer.text == "Hello."


@pytest.mark.parametrize(
    ("setting", "name", "streamed", "sent"),
    [
        ("adaptive", SONNET, True, {"type": "adaptive", "display": "summarized"}),
        ("adaptive", HAIKU, True, {"type": "adaptive", "display": "summarized"}),
        ("adaptive", OLD, True, None),
        ("adaptive", SONNET, False, None),
        ("between_tools", SONNET, True, {"type": "between_tools"}),
        ("between_tools", HAIKU, True, {"type": "adaptive", "display": "summarized"}),
        ("off", SONNET, True, None),
    ],
)
async def test_thinking_is_asked_for_where_a_stream_would_look_dead(
    server: FakeAnthropic,
    opened: Opener,
    setting: str,
    name: str,
    sent: Json | None,
    *,
    streamed: bool,
) -> None:
    async with opened(thinking=setting) as model:
        await model.ask(ask(model=name), unheard if streamed else None)

    assert server.requests[0].body.get("thinking") == sent


# -- what comes back -----------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("end_turn", StopReason.END),
        ("stop_sequence", StopReason.END),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("pause_turn", StopReason.PAUSE),
        ("refusal", StopReason.REFUSAL),
        ("model_context_window_exceeded", StopReason.CONTEXT_FULL),
        ("something_new", StopReason.END),
    ],
)
async def test_every_reason_to_stop_is_known(
    server: FakeAnthropic,
    model: SdkModel,
    stop: str,
    expected: StopReason,
    *,
    streamed: bool,
) -> None:
    server.script = in_order(Reply(text="So far.", stop=stop))

    answer = await model.ask(ask(), unheard if streamed else None)

    assert answer.stop is expected
    assert answer.text == "So far."


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "model_context_window_exceeded"])
async def test_a_call_of_an_answer_that_was_cut_is_not_made(
    server: FakeAnthropic, model: SdkModel, stop: str, *, streamed: bool
) -> None:
    blocks = (THOUGHT, {"type": "text", "text": "I will"}, use("a", {}))
    server.script = in_order(Reply(blocks=blocks, stop=stop), Reply(text="Then."))

    answer = await model.ask(ask(), unheard if streamed else None)
    again = await model.ask(ask(UserMessage("Hi"), answer, UserMessage("Go on.")))

    assert (answer.text, answer.calls) == ("I will", ())
    assert again.text == "Then."


async def test_a_refusal_without_words_is_explained(server: FakeAnthropic, model: SdkModel) -> None:
    details = {"stop_details": {"type": "refusal", "explanation": "That would be dangerous."}}
    server.script = in_order(Reply(stop="refusal", details=details))

    answer = await model.ask(ask())

    assert answer.stop is StopReason.REFUSAL
    assert answer.text == "That would be dangerous."


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "raw",
    [
        *('{"at": ', "[1, 2]", '"text"', '{"at": 1e999}', '{"at": NaN}'),
        pytest.param('{"at": ' + "[" * 5_000 + "]" * 5_000 + "}", id="nested"),
    ],
)
async def test_arguments_that_are_no_object_are_kept_as_text(
    server: FakeAnthropic, model: SdkModel, raw: str, *, streamed: bool
) -> None:
    server.script = in_order(Reply(calls=(Call("look", raw, "a"),)), Reply(text="Sorry."))

    answer = await model.ask(ask(), unheard if streamed else None)
    results = ToolResults((ToolResult("a", "That was no JSON object.", failed=True),))
    again = await model.ask(ask(UserMessage("Hi"), answer, results))

    assert answer.calls[0].arguments == {}
    assert answer.calls[0].malformed.strip('"') == raw.strip('"')
    assert again.text == "Sorry."


def use(call_id: str, given: object) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": given}


@pytest.mark.parametrize("streamed", [False, True])
async def test_thoughts_go_back_unchanged_to_the_model_that_had_them(
    server: FakeAnthropic, model: SdkModel, *, streamed: bool
) -> None:
    blocks = (THOUGHT, SEALED, {"type": "text", "text": "Looking."}, use("a", {"at": "x"}))
    server.script = in_order(Reply(blocks=blocks), Reply(text="Done."))
    answer = await model.ask(ask(), unheard if streamed else None)
    stored = from_json(to_json(answer))

    await model.ask(ask(UserMessage("Hi"), stored, ToolResults((ToolResult("a", "Found."),))))

    assert server.requests[1].body["messages"][1]["content"] == list(blocks)


async def test_thoughts_beside_arguments_that_are_no_object_go_back_all_the_same(
    server: FakeAnthropic, model: SdkModel
) -> None:
    server.script = in_order(Reply(blocks=(THOUGHT, use("a", "[1]"))), Reply(text="Sorry."))
    answer = await model.ask(ask())

    results = ToolResults((ToolResult("a", "That was no JSON object.", failed=True),))
    await model.ask(ask(UserMessage("Hi"), answer, results))

    assert server.requests[1].body["messages"][1]["content"] == [THOUGHT, use("a", {})]


async def test_thoughts_are_left_out_for_another_model(
    server: FakeAnthropic, model: SdkModel
) -> None:
    server.script = in_order(Reply(blocks=(THOUGHT, {"type": "text", "text": "Hello."})))
    answer = await model.ask(ask())

    await model.ask(ask(UserMessage("Hi"), answer, UserMessage("And?"), model=HAIKU))

    sent = server.requests[1].body["messages"][1]["content"]
    assert sent == [{"type": "text", "text": "Hello."}]


async def test_a_dated_name_is_the_same_model(server: FakeAnthropic, model: SdkModel) -> None:
    said = (THOUGHT, {"type": "text", "text": "Hello."})
    server.script = in_order(Reply(blocks=said, model="claude-haiku-4-5-20251001"))
    answer = await model.ask(ask(model=OLD))

    await model.ask(ask(UserMessage("Hi"), answer, UserMessage("And?"), model=OLD))

    assert answer.model == "claude-haiku-4-5-20251001"
    assert server.requests[1].body["messages"][1]["content"] == list(said)


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_of_text_and_calls_has_nothing_native(
    server: FakeAnthropic, model: SdkModel, *, streamed: bool
) -> None:
    server.script = in_order(Reply(text="Looking.", calls=(Call("look"),)))

    answer = await model.ask(ask(), unheard if streamed else None)

    assert answer.native is None


async def test_thoughts_are_shown_until_there_is_a_text(
    server: FakeAnthropic, model: SdkModel
) -> None:
    blocks = (THOUGHT, {"type": "text", "text": "Hello."})
    server.script = in_order(Reply(blocks=blocks, gap_seconds=0.06))
    heard: list[str] = []

    answer = await model.ask(ask(), heard.append)

    assert heard[0].startswith("💭 Let me see")
    assert heard[-1] == answer.text == "Hello."


async def test_a_fast_stream_redraws_the_message_seldom(
    server: FakeAnthropic, model: SdkModel
) -> None:
    server.script = in_order(Reply(text="word " * 2000))
    heard: list[str] = []

    answer = await model.ask(ask(), heard.append)

    assert len(heard) < 200  # of 834 pieces, on a machine ten times slower than usual
    assert heard[-1] == answer.text


# -- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "text", "expected"),
    [
        (408, "timeout_error", "", ModelUnavailableError),
        (409, "conflict_error", "", ModelUnavailableError),
        (429, "rate_limit_error", "", ModelUnavailableError),
        (500, "api_error", "", ModelUnavailableError),
        (503, "api_error", "", ModelUnavailableError),
        (529, "overloaded_error", "", ModelUnavailableError),
        (400, "invalid_request_error", "prompt is too long: 3 > 2", ContextTooLongError),
        (413, "request_too_large", "", ContextTooLongError),
        (401, "authentication_error", "", ModelRefusedError),
        (403, "permission_error", "", ModelRefusedError),
        (402, "billing_error", "", ModelRefusedError),
        (404, "not_found_error", "", ModelRefusedError),
        (400, "invalid_request_error", "Your credit balance is too low", ModelRefusedError),
        (422, "invalid_request_error", "", ModelError),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_every_error_says_whether_asking_again_helps(
    server: FakeAnthropic,
    model: SdkModel,
    status: int,
    kind: str,
    text: str,
    expected: type[ModelError],
    *,
    streamed: bool,
) -> None:
    server.script = in_order(Reply(status=status, kind=kind, text=text))

    with pytest.raises(ModelError) as caught:
        await model.ask(ask(), unheard if streamed else None)

    assert type(caught.value) is expected
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["overloaded_error", "api_error", "rate_limit_error"])
async def test_an_error_inside_a_stream_may_be_asked_again(
    server: FakeAnthropic, model: SdkModel, kind: str
) -> None:
    server.script = in_order(Reply(text="So far", kind=kind, fault="error", after_events=4))

    with pytest.raises(ModelUnavailableError, match="busy"):
        await model.ask(ask(), unheard)


async def test_a_refused_request_inside_a_stream_is_not_asked_again(
    server: FakeAnthropic, model: SdkModel
) -> None:
    server.script = in_order(Reply(text="So", kind="invalid_request_error", fault="error"))

    with pytest.raises(ModelError) as caught:
        await model.ask(ask(), unheard)

    assert not isinstance(caught.value, ModelUnavailableError)


@pytest.mark.parametrize(("fault", "after"), [("drop", 0), ("drop", 5), ("end", 5), ("garbage", 3)])
async def test_a_stream_that_breaks_is_no_answer(
    server: FakeAnthropic, model: SdkModel, fault: str, after: int
) -> None:
    broken = Reply(text="So far", calls=(Call("look"),), fault=fault, after_events=after)  # type: ignore[arg-type]
    server.script = in_order(broken)

    with pytest.raises(ModelUnavailableError):
        await model.ask(ask(), unheard)


@pytest.mark.parametrize("fault", ["drop", "garbage"])
async def test_a_broken_answer_may_be_asked_again(
    server: FakeAnthropic, model: SdkModel, fault: str
) -> None:
    server.script = in_order(Reply(text="Hello.", fault=fault))  # type: ignore[arg-type]

    with pytest.raises(ModelUnavailableError):
        await model.ask(ask())


async def test_a_document_that_is_no_message_may_be_asked_again(
    server: FakeAnthropic, model: SdkModel
) -> None:
    server.script = in_order(Reply(text="Hello.", details={"content": None}))

    with pytest.raises(ModelUnavailableError, match="cannot be read"):
        await model.ask(ask())


async def test_a_provider_that_stays_silent_is_given_up(
    server: FakeAnthropic, opened: Opener
) -> None:
    server.script = in_order(Reply(text="Never", fault="hang"))
    async with asyncio.timeout(20), opened(timeout_seconds=0.5) as model:
        with pytest.raises(ModelUnavailableError, match="in time"):
            await model.ask(ask())

        await server.disconnected.wait()


@pytest.mark.parametrize("after", [0, 5])
async def test_a_stream_that_falls_silent_is_given_up(
    server: FakeAnthropic, opened: Opener, after: int
) -> None:
    server.script = in_order(Reply(text="Never ends", fault="hang", after_events=after))
    lost: list[Usage] = []
    request = replace(ask(), on_lost=lambda _, usage: lost.append(usage))
    async with asyncio.timeout(20), opened(idle_timeout_seconds=0.5) as model:
        with pytest.raises(ModelUnavailableError, match="in time") as caught:
            await model.ask(request, unheard)

        await server.disconnected.wait()
    assert caught.value.charged
    assert len(lost) == 1


async def test_the_provider_counts_the_input_of_a_request(
    server: FakeAnthropic, opened: Opener
) -> None:
    asked: list[Json] = []

    def count(body: Json) -> int:
        asked.append(body)
        return 321

    async with opened() as model:
        without = await model.count(ask())
        server.count = count
        counted = await model.count(ask())

    assert (without, counted) == (None, 321)
    assert "max_tokens" not in asked[0]
    assert asked[0]["messages"]
    assert server.requests == []


async def test_nobody_listening_means_out_of_reach() -> None:
    settings = AnthropicSettings(api_key=KEY, base_url="http://127.0.0.1:1")
    async with aclosing(anthropic_model(settings)) as model:
        with pytest.raises(ModelUnavailableError, match="out of reach"):
            await model.ask(ask())


@pytest.mark.parametrize("key", [None, "  "])
async def test_without_a_key_nothing_is_sent(
    server: FakeAnthropic, opened: Opener, key: str | None
) -> None:
    async with opened(api_key=key) as model:
        with pytest.raises(ModelError, match=r"models\.anthropic\.api_key"):
            await model.ask(ask())

    assert server.requests == []


async def test_many_calls_at_once_share_one_client(server: FakeAnthropic, model: SdkModel) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(model.ask(ask())) for _ in range(50)]

    assert [task.result().text for task in tasks] == ["Hello."] * 50
    assert len(server.requests) == 50


@pytest.mark.processes
def test_the_sdk_is_imported_only_when_it_is_needed() -> None:
    program = """
import asyncio, sys
from contextlib import aclosing
from bot.models.anthropic import AnthropicSettings, anthropic_model
async def main():
    async with aclosing(anthropic_model(AnthropicSettings(api_key="sk-x"))) as model:
        print("anthropic" in sys.modules)
        await model.sdk.get()
        print("anthropic.resources.messages" in sys.modules)
asyncio.run(main())
"""
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50
    ).stdout

    assert printed.split() == ["False", "True"]
