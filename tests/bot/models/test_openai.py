"""Chat Completions, through the real SDK against a fake API."""

import asyncio
import base64
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
)
from bot.errors import ContextTooLongError, ModelError, ModelRefusedError, ModelUnavailableError
from bot.models.base import ModelRequest, ToolDescription
from bot.models.client import SdkModel
from bot.models.openai import OpenAISettings, openai_model
from bot.models.openai_codec import NO_PDF, answer_from, body_for, calls_in
from bot.values import Json
from tests.fakes.model_server import KEY, Call, Reply, in_order
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.pictures import PICTURES

TOOL = ToolDescription("look", "Look something up.", {"type": "object", "properties": {}})

Opener = Callable[..., AbstractAsyncContextManager[SdkModel]]


@pytest.fixture
async def server() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI(in_order(Reply(text="Hello."))) as opened:
        yield opened


@pytest.fixture
def opened(server: FakeOpenAI) -> Opener:
    @asynccontextmanager
    async def open_model(**settings: object) -> AsyncIterator[SdkModel]:
        given = {"api_key": KEY, "base_url": f"{server.url}/v1", "timeout_seconds": 20, **settings}
        async with aclosing(openai_model(OpenAISettings.model_validate(given))) as model:
            yield model

    return open_model


@pytest.fixture
async def model(opened: Opener) -> AsyncIterator[SdkModel]:
    async with opened() as given:
        yield given


def ask(*messages: Message, user_hash: str = "", tools_allowed: bool = True) -> ModelRequest:
    return ModelRequest(
        model="some-model",
        prompt="You are a bot.",
        messages=messages or (UserMessage("Hi"),),
        tools=(TOOL,),
        user_hash=user_hash,
        tools_allowed=tools_allowed,
        max_tokens=500,
    )


async def test_images_are_sent_as_addresses_that_hold_them(
    server: FakeOpenAI, model: SdkModel
) -> None:
    shown = tuple(Image(kind, data) for kind, data in PICTURES.items())

    await model.ask(ask(UserMessage("What is this?", shown), Answer("A dot."), UserMessage("Oh.")))

    _, first, _, last = server.requests[0].body["messages"]
    urls = [
        f"data:{kind};base64,{base64.b64encode(data).decode()}" for kind, data in PICTURES.items()
    ]
    assert first["content"] == [
        *({"type": "image_url", "image_url": {"url": url}} for url in urls),
        {"type": "text", "text": "What is this?"},
    ]
    assert last == {"role": "user", "content": "Oh."}


def unheard(_: str) -> None:
    """Take a streamed text that the test does not look at."""


async def test_images_that_a_tool_shows_follow_its_result_and_a_pdf_is_named(
    server: FakeOpenAI, model: SdkModel
) -> None:
    media = (Media("image/png", b"cat", "cat.png"), Media("application/pdf", b"%PDF", "a.pdf", 2))
    results = ToolResults((ToolResult("a", "Look.", media=media),), "Hurry.")

    await model.ask(ask(UserMessage("Hi"), Answer("", (ToolCall("a", "look"),)), results))

    result, images, note = server.requests[0].body["messages"][-3:]
    assert result["content"] == f"Look.\n[a.pdf: {NO_PDF}]"
    assert images["content"] == [
        {"type": "text", "text": "[Images of the results above: cat.png]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,Y2F0"}},
    ]
    assert note == {"role": "user", "content": "Hurry."}


async def test_a_history_is_written_in_the_words_of_chat_completions(
    server: FakeOpenAI, model: SdkModel
) -> None:
    calls = (ToolCall("a", "look", {"at": 1}), ToolCall("b", "look", malformed="{"))
    results = ToolResults((ToolResult("a", "Found."), ToolResult("b", "No JSON.")), "Hurry.")

    await model.ask(ask(UserMessage("Hi"), Answer("", calls), results, Answer("")))

    body = server.requests[0].body
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "look",
                "description": "Look something up.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]
    assert body["messages"] == [
        {"role": "system", "content": "You are a bot."},
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"at": 1}'},
                },
                {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "Found."},
        {"role": "tool", "tool_call_id": "b", "content": "No JSON."},
        {"role": "user", "content": "Hurry."},
    ]


def test_openai_itself_has_other_names_for_two_fields() -> None:
    asked = ask(user_hash="5e88")

    official = body_for(asked, official=True)
    other = body_for(asked, official=False)

    assert (official["max_completion_tokens"], official["safety_identifier"]) == (500, "5e88")
    assert (other["max_tokens"], other["user"]) == (500, "5e88")


@pytest.mark.parametrize(
    ("effort", "sent"), [("low", "low"), ("high", "high"), ("xhigh", "high"), ("max", "high")]
)
def test_an_effort_is_sent_to_models_that_reason_and_is_high_at_most(
    effort: str, sent: str
) -> None:
    asked = replace(ask(), effort=effort, model="gpt-5.2")

    assert body_for(asked, official=True)["reasoning_effort"] == sent
    assert "reasoning_effort" not in body_for(asked, official=False)
    assert "reasoning_effort" not in body_for(replace(asked, model="gpt-4.1"), official=True)


@pytest.mark.parametrize("temperature", [None, 0.0, 0.7])
async def test_a_temperature_is_sent_when_it_is_set(
    server: FakeOpenAI, opened: Opener, temperature: float | None
) -> None:
    async with opened(temperature=temperature) as model:
        await model.ask(ask(tools_allowed=False))

    assert server.requests[0].body.get("temperature") == temperature
    assert server.requests[0].body["tool_choice"] == "none"


async def test_a_server_of_ones_own_needs_no_key(server: FakeOpenAI, opened: Opener) -> None:
    async with opened(api_key=None) as model:
        with pytest.raises(ModelError, match="key"):  # this fake wants one after all
            await model.ask(ask())

    assert server.requests[0].headers["Authorization"] == "Bearer none"


async def test_without_key_and_address_nothing_is_sent() -> None:
    async with aclosing(openai_model(OpenAISettings())) as model:
        with pytest.raises(ModelError, match=r"models\.openai\.base_url"):
            await model.ask(ask())


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", StopReason.END),
        ("length", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
        ("something_new", StopReason.END),
    ],
)
async def test_every_reason_to_stop_is_known(
    server: FakeOpenAI, model: SdkModel, finish: str, expected: StopReason, *, streamed: bool
) -> None:
    server.script = in_order(Reply(text="So far.", stop=finish))

    answer = await model.ask(ask(), unheard if streamed else None)

    assert answer.stop is expected
    assert answer.text == "So far."


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_a_call_of_an_answer_that_was_cut_is_not_made(
    server: FakeOpenAI, model: SdkModel, finish: str, *, streamed: bool
) -> None:
    server.script = in_order(Reply(text="I will", calls=(Call("look", '{"a'),), stop=finish))

    answer = await model.ask(ask(), unheard if streamed else None)

    assert (answer.text, answer.calls) == ("I will", ())


@pytest.mark.parametrize("streamed", [False, True])
async def test_calls_that_end_with_stop_are_made_all_the_same(
    server: FakeOpenAI, model: SdkModel, *, streamed: bool
) -> None:
    server.script = in_order(Reply(calls=(Call("look", {"at": 1}),), stop="stop"))

    answer = await model.ask(ask(), unheard if streamed else None)

    assert answer.stop is StopReason.TOOL_CALLS
    assert answer.calls[0].arguments == {"at": 1}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "raw",
    [
        *('{"at": ', "[1, 2]", '"text"', '{"at": 1e999}', '{"at": NaN}'),
        pytest.param('{"at": ' + "[" * 5_000 + "]" * 5_000 + "}", id="nested"),
    ],
)
async def test_arguments_that_are_no_object_are_kept_as_text(
    server: FakeOpenAI, model: SdkModel, raw: str, *, streamed: bool
) -> None:
    server.script = in_order(Reply(calls=(Call("look", raw, "a"),)), Reply(text="Sorry."))

    answer = await model.ask(ask(), unheard if streamed else None)
    again = await model.ask(
        ask(UserMessage("Hi"), answer, ToolResults((ToolResult("a", "That was no object."),)))
    )

    assert answer.calls == (ToolCall("a", "look", malformed=raw),)
    assert again.text == "Sorry."


def completion(**message: object) -> Json:
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


def test_what_servers_leave_out_is_made_up() -> None:
    calls = [{"function": {"name": "look", "arguments": {"at": 1}}}, {"function": {"name": "look"}}]

    answer = answer_from(completion(tool_calls=calls), ask())

    assert [call.arguments for call in answer.calls] == [{"at": 1}, {}]
    assert len({call.id for call in answer.calls}) == 2
    assert answer.model == "some-model"


def test_a_refusal_is_told_as_one() -> None:
    answer = answer_from(completion(content=None, refusal="I cannot help with that."), ask())

    assert (answer.stop, answer.text) == (StopReason.REFUSAL, "I cannot help with that.")


@pytest.mark.parametrize("document", [{}, {"choices": []}, {"choices": [{"message": None}]}])
def test_a_document_that_is_no_completion_is_a_value_error(document: Json) -> None:
    with pytest.raises(ValueError, match="no completion"):
        answer_from(document, ask())


# -- calls in the text ---------------------------------------------------------------------------

FENCED = 'I look.\n```tool_call\n{"name": "look", "arguments": {"at": 1}}\n```\n'
TAGGED = '<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>'


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("text", "rest"), [(FENCED, "I look."), (TAGGED, "")])
async def test_calls_in_the_text_are_made_when_that_is_switched_on(
    server: FakeOpenAI, opened: Opener, text: str, rest: str, *, streamed: bool
) -> None:
    server.script = in_order(Reply(text=text))

    async with opened(text_tool_calls=True) as model:
        answer = await model.ask(ask(), unheard if streamed else None)

    assert answer.text == rest
    assert [(call.name, call.arguments) for call in answer.calls] == [("look", {"at": 1})]
    assert answer.stop is StopReason.TOOL_CALLS


async def test_calls_in_the_text_stay_text_otherwise(server: FakeOpenAI, model: SdkModel) -> None:
    server.script = in_order(Reply(text=FENCED))

    answer = await model.ask(ask())

    assert (answer.text, answer.calls) == (FENCED, ())


@pytest.mark.parametrize(
    "given", ['{"at": }', pytest.param("[" * 100_000 + "]" * 100_000, id="nested")]
)
def test_a_call_in_the_text_that_is_no_json_is_malformed(given: str) -> None:
    _, calls = calls_in(f'<tool_call>{{"name": "look", "arguments": {given}}}</tool_call>')

    assert calls[0].name == "look"
    assert calls[0].malformed.startswith('{"name"')


def test_a_fence_without_a_name_is_text() -> None:
    text = "```tool_call\nhow to call a tool\n```"

    assert calls_in(text) == (text, ())


def test_several_calls_in_a_text_have_ids_of_their_own() -> None:
    _, calls = calls_in(TAGGED * 2)

    assert len({call.id for call in calls}) == 2


# -- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "kind", "text", "expected"),
    [
        (429, "rate_limit_exceeded", "see your account's billing page", ModelUnavailableError),
        (500, "server_error", "", ModelUnavailableError),
        (503, "", "loading model", ModelUnavailableError),
        (400, "context_length_exceeded", "", ContextTooLongError),
        (400, "", "exceeds the available context size", ContextTooLongError),
        (429, "insufficient_quota", "", ModelRefusedError),
        (403, "permission_denied", "", ModelRefusedError),
        (404, "not_found", "model not found", ModelRefusedError),
        (400, "invalid_value", "", ModelError),
    ],
)
async def test_every_error_says_whether_asking_again_helps(
    server: FakeOpenAI,
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


@pytest.mark.parametrize(
    ("fault", "after"), [("error", 3), ("drop", 0), ("drop", 3), ("end", 3), ("garbage", 2)]
)
async def test_a_stream_that_breaks_is_no_answer(
    server: FakeOpenAI, model: SdkModel, fault: str, after: int
) -> None:
    broken = Reply(
        text="So far, so good",
        kind="server_error",
        fault=fault,  # type: ignore[arg-type]
        after_events=after,
    )
    server.script = in_order(broken)

    with pytest.raises(ModelUnavailableError):
        await model.ask(ask(), unheard)


async def test_a_server_that_stays_silent_is_given_up(server: FakeOpenAI, opened: Opener) -> None:
    server.script = in_order(Reply(text="Never", fault="hang"))
    async with asyncio.timeout(20), opened(timeout_seconds=0.5) as model:
        with pytest.raises(ModelUnavailableError, match="in time"):
            await model.ask(ask())

        await server.disconnected.wait()


@pytest.mark.parametrize("after", [0, 2])
async def test_a_stream_that_falls_silent_is_given_up(
    server: FakeOpenAI, opened: Opener, after: int
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
