"""Requests go past the SDKs' models of bodies and events: everything else must stay the same."""

import ast
import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.messages import UserMessage
from bot.errors import ModelError
from bot.models import anthropic_codec, openai_codec
from bot.models.anthropic import AnthropicSettings, StreamedMessage, anthropic_model
from bot.models.base import ModelRequest, ToolDescription, offered
from bot.models.client import SdkModel
from bot.models.openai import OpenAISettings, StreamedCompletion, openai_model
from bot.models.wire import StreamedError, events_in, written
from bot.values import Json
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.model_server import KEY, Call, ModelServer, Reply, in_order
from tests.fakes.openai_server import FakeOpenAI

TOOL = ToolDescription("look", "Look something up.", {"type": "object", "properties": {}})
REQUEST = ModelRequest(
    model="claude-sonnet-5-5", prompt="You are a bot.", messages=(UserMessage("Grüße, 🦊"),)
)
#: Headers about the length of a body, timeouts, and the way of the SDK that was taken.
DIFFER = {
    *("content-length", "x-stainless-raw-response"),
    *("x-stainless-read-timeout", "x-stainless-timeout"),
}
REPLIES = (
    Reply(text="Hello."),
    Reply(text="I look.", calls=(Call("look", {"word": "tea"}, "a"), Call("look", "{no", "b"))),
    Reply(status=429, kind="rate_limit_error", headers={"retry-after": "7"}),
    Reply(status=529, kind="overloaded_error"),
    Reply(status=401, kind="authentication_error", text="invalid key"),
    Reply(text="So far", kind="overloaded_error", fault="error", after_events=3),
    Reply(text="So far", fault="drop", after_events=3),
    Reply(text="So far", fault="end", after_events=3),
    Reply(fault="garbage"),
)

#: Sends a body in the way of the SDK itself, and returns the whole answer.
Usual = Callable[[Json], Awaitable[Json]]


class Claude:
    """The API of Anthropic, in both ways."""

    def __init__(self, url: str) -> None:
        http = anthropic.DefaultAioHttpClient()
        self.sdk = anthropic.AsyncAnthropic(
            api_key=KEY, base_url=url, max_retries=0, http_client=http
        )
        settings = AnthropicSettings.model_validate({"api_key": KEY, "base_url": url})
        self.model = anthropic_model(settings)

    async def whole(self, body: Json) -> Json:
        response = await self.sdk.messages.with_raw_response.create(**body)
        document: Json = response.http_response.json()
        return document

    async def streamed(self, body: Json) -> Json:
        message = StreamedMessage()
        async for event in await self.sdk.messages.create(**body, stream=True):
            message.take(event.to_dict())
        return message.document if message.complete else {}


class Compatible:
    """The API of OpenAI, in both ways."""

    def __init__(self, url: str) -> None:
        url = f"{url}/v1"
        http = openai.DefaultAioHttpClient()
        self.sdk = openai.AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0, http_client=http)
        settings = OpenAISettings.model_validate({"api_key": KEY, "base_url": url})
        self.model = openai_model(settings)

    async def whole(self, body: Json) -> Json:
        response = await self.sdk.chat.completions.with_raw_response.create(**body)
        document: Json = response.http_response.json()
        return document

    async def streamed(self, body: Json) -> Json:
        completion = StreamedCompletion()
        async for chunk in await self.sdk.chat.completions.create(**body, stream=True):
            completion.take(chunk.to_dict())
        return completion.document if completion.complete else {}


@pytest.fixture(params=[(FakeAnthropic, Claude), (FakeOpenAI, Compatible)])
async def both(request: pytest.FixtureRequest) -> AsyncIterator[tuple[ModelServer, Any]]:
    fake, kind = request.param
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(fake(in_order(Reply(text="Hello."))))
        subject = kind(server.url)
        stack.push_async_callback(subject.sdk.close)
        stack.push_async_callback(subject.model.aclose)
        yield server, subject


async def outcome_of_ours(model: SdkModel, *, streamed: bool) -> object:
    try:
        answer = await model.ask(REQUEST, (lambda _: None) if streamed else None)
    except ModelError as error:
        return type(error), str(error)
    return answer


async def outcome_of_the_sdk(model: SdkModel, sent: Usual, body: Json) -> object:
    """Return the answer that the same body gets in the way of the SDK, or the error."""
    sdk = await model.sdk.get()
    try:
        document = await sent(body)
        if not document:
            return "cut"
        return model.answer_from(document, REQUEST)
    except sdk.troubles as error:
        found = sdk.failure(error, REQUEST.model)
        return type(found), str(found)
    except ValueError:
        return "unreadable"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("reply", REPLIES, ids=lambda each: f"{each.status}{each.fault}{each.text}")
async def test_both_ways_send_the_same_and_end_the_same(
    both: tuple[ModelServer, Any], reply: Reply, *, streamed: bool
) -> None:
    server, subject = both
    server.script = in_order(reply)

    ours = await outcome_of_ours(subject.model, streamed=streamed)
    body = server.requests[0].body
    given = {name: part for name, part in body.items() if name != "stream"}
    usual = subject.streamed if streamed else subject.whole
    theirs = await outcome_of_the_sdk(subject.model, usual, given)

    mine, other = server.requests
    assert mine.body == other.body
    assert kept(mine.headers) == kept(other.headers)
    if theirs in {"cut", "unreadable"} if isinstance(theirs, str) else False:
        assert isinstance(ours, tuple)
    else:
        assert ours == theirs


def kept(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() not in DIFFER}


def test_only_public_names_of_the_sdks_are_used() -> None:
    root = Path(__file__).parents[3]
    adapters = [*root.glob("bot/models/*.py"), *root.glob("skills/web/search/*.py")]
    private = [
        f"{file.name}:{node.lineno}: {ast.unparse(node)}"
        for file in adapters
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if names_private(node)
    ]

    assert len(adapters) > 10
    assert private == []


def names_private(node: ast.AST) -> TypeGuard[ast.expr | ast.stmt]:
    """Return True for a private name of another object or package."""
    names: list[str] = []
    match node:
        case ast.Attribute(ast.Name("self" | "cls" | "models")):
            pass
        case ast.Attribute(attr=name):
            names = [name]
        case ast.ImportFrom(module=str(module)):
            names = [*module.split("."), *(each.name for each in node.names)]
        case ast.Import():
            names = [part for each in node.names for part in each.name.split(".")]
        case ast.Call(ast.Name("getattr"), [_, ast.Constant(str(name)), *_]):
            names = [name]
    return any(name.startswith("_") and not name.startswith("__") for name in names)


@pytest.mark.parametrize(
    "statement",
    [
        "client._client.close()",
        "from anthropic._models import BaseModel",
        "from anthropic import _utils",
        "import openai._models",
        "getattr(client, '_client', None)",
    ],
)
def test_a_private_name_is_found_however_it_is_used(statement: str) -> None:
    assert any(map(names_private, ast.walk(ast.parse(statement))))


@pytest.mark.parametrize(
    "body_for", [anthropic_codec.body_for, partial(openai_codec.body_for, official=True)]
)
def test_tools_are_written_as_json_once_for_all_requests(
    body_for: Callable[[ModelRequest], Json],
) -> None:
    first, second = (
        body_for(replace(REQUEST, prompt=prompt, tools=(TOOL,)))["tools"] for prompt in ("A", "B")
    )

    assert written({"tools": first}) == written({"tools": list(first)})
    assert first.json is second.json


def test_tools_stay_one_object_also_when_a_process_has_seen_very_many_lists() -> None:
    for number in range(500):
        tools = (replace(TOOL, name=f"look_{number}"),)

        assert offered(tools) is offered(tools)


# -- the reader of events --------------------------------------------------------------------------


async def arriving(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


async def read(*pieces: bytes) -> list[Json]:
    return [event async for event in events_in(arriving(pieces))]


@given(
    documents=st.lists(st.dictionaries(st.just("text"), st.text(max_size=20), min_size=1)),
    ending=st.sampled_from([b"\n", b"\r\n"]),
    cuts=st.lists(st.integers(0, 400)),
)
def test_events_are_the_same_however_their_bytes_arrive(
    documents: list[Json], ending: bytes, cuts: list[int]
) -> None:
    lines = [
        line
        for each in documents
        for line in (b"event: delta", b"data: " + json.dumps(each).encode(), b": note", b"")
    ]
    whole = b"".join(line + ending for line in lines)
    at = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(at)]

    assert asyncio.run(read(*pieces)) == documents


async def test_data_of_several_lines_is_one_document() -> None:
    assert await read(b'data: {"a":\ndata: 1}\n\n') == [{"a": 1}]


async def test_an_event_without_its_empty_line_is_left_out() -> None:
    assert await read(b'data: {"a": 1}\n\ndata: {"b": 2}\n') == [{"a": 1}]


async def test_nothing_counts_after_the_mark_of_the_end() -> None:
    assert await read(b"data: [DONE]\n\n", b'data: {"a": 1}\n\n') == []


@pytest.mark.parametrize(
    ("sent", "kind", "message"),
    [
        (b'{"error": {"type": "busy", "message": "Later."}}', "busy", "Later."),
        (b'{"error": "no more"}', "", "no more"),
    ],
)
async def test_an_error_in_a_stream_is_raised(sent: bytes, kind: str, message: str) -> None:
    with pytest.raises(StreamedError) as caught:
        await read(b"data: " + sent + b"\n\n")

    assert (caught.value.type, caught.value.message) == (kind, message)


async def test_an_error_event_needs_no_json() -> None:
    with pytest.raises(StreamedError, match="broken"):
        await read(b"event: error\ndata: broken\n\n")


async def test_an_event_that_is_no_json_is_an_error() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        await read(b"data: broken\n\n")
