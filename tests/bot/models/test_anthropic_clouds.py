"""Claude on Bedrock and Vertex, through the SDK's clients against fakes of both formats."""

import sys
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from bot.agent.messages import Answer, StopReason, ToolCall, ToolResult, ToolResults, UserMessage
from bot.errors import ModelError, ModelRefusedError
from bot.models.anthropic_clouds import (
    BedrockSettings,
    VertexSettings,
    bedrock_model,
    lacks,
    vertex_model,
)
from bot.models.base import ModelRequest, ToolDescription
from bot.values import Json
from tests.fakes.claude_clouds import FakeClouds
from tests.fakes.model_server import KEY, Call, Reply, in_order

BEDROCK, VERTEX = "eu.anthropic.claude-sonnet-5-5-v1:0", "claude-sonnet-5-5@20260401"
TOOL = ToolDescription("look", "Look something up.", {"type": "object", "properties": {}})
SIGNED: Json = {"access_key": "AKIAFAKE", "secret_key": "fake-secret", "api_key": None}


@pytest.fixture
async def clouds() -> AsyncIterator[FakeClouds]:
    async with FakeClouds(in_order(Reply(text="Hello."))) as opened:
        yield opened


def ask(model: str, **fields: object) -> ModelRequest:
    given: Json = {"messages": (UserMessage("Hi"),), "tools": (TOOL,), **fields}
    return ModelRequest(model=model, prompt="You are a bot.", **given)


def bedrock(clouds: FakeClouds, **given: object) -> BedrockSettings:
    base: Json = {"region": "eu-central-1", "base_url": clouds.url, "api_key": KEY}
    return BedrockSettings.model_validate(base | given)


def vertex(clouds: FakeClouds, **given: object) -> VertexSettings:
    base: Json = {"project": "ours", "region": "eu", "base_url": f"{clouds.url}/v1", "api_key": KEY}
    return VertexSettings.model_validate(base | given)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("signed", [False, True])
async def test_bedrock_answers_with_a_key_or_a_signature(
    clouds: FakeClouds, *, signed: bool, streamed: bool
) -> None:
    clouds.script = in_order(Reply(text="I look.", calls=(Call("look", {"word": "tea"}, "a"),)))
    heard: list[str] = []
    async with aclosing(bedrock_model(bedrock(clouds, **(SIGNED if signed else {})))) as model:
        answer = await model.ask(ask(BEDROCK), heard.append if streamed else None)

    assert (answer.text, answer.calls) == ("I look.", (ToolCall("a", "look", {"word": "tea"}),))
    assert answer.stop is StopReason.TOOL_CALLS
    assert (answer.usage.input, answer.usage.output) == (100, 20)
    assert bool(heard) == streamed
    assert clouds.requests[0].body["model"] == BEDROCK
    assert KEY not in clouds.requests[0].headers.get("X-Api-Key", "")


@pytest.mark.parametrize("streamed", [False, True])
async def test_vertex_answers(clouds: FakeClouds, *, streamed: bool) -> None:
    heard: list[str] = []
    async with aclosing(vertex_model(vertex(clouds))) as model:
        answer = await model.ask(ask(VERTEX), heard.append if streamed else None)

    assert answer.text == "Hello."
    sent = clouds.requests[0].body
    assert (sent["project"], sent["region"], sent["model"]) == ("ours", "eu", VERTEX)
    assert bool(heard) == streamed


async def test_a_cloud_caches_the_end_of_the_messages(clouds: FakeClouds) -> None:
    """A cloud has no breakpoint for the whole request; the fake refuses it."""
    called = (UserMessage("Hi"), Answer("", (ToolCall("a", "look"),)))
    results = ToolResults((ToolResult("a", "Found."),))
    async with aclosing(vertex_model(vertex(clouds))) as model:
        await model.ask(ask(VERTEX, messages=(*called, results)))

    marked = clouds.requests[0].body["messages"][-1]["content"][-1]
    assert marked["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_refused_key_sends_the_admin_to_the_setting(
    clouds: FakeClouds, *, streamed: bool
) -> None:
    settings = vertex(clouds, api_key="wrong")
    async with aclosing(vertex_model(settings)) as model:
        with pytest.raises(ModelRefusedError, match=r"models\.vertex\.api_key"):
            await model.ask(ask(VERTEX), (lambda _: None) if streamed else None)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("cloud", ["bedrock", "vertex"])
async def test_a_machine_without_credentials_is_a_refusal_that_says_the_remedy(
    clouds: FakeClouds, cloud: str, monkeypatch: pytest.MonkeyPatch, *, streamed: bool
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("HOME", "/nowhere")
    settings = bedrock(clouds, api_key=None) if cloud == "bedrock" else vertex(clouds, api_key=None)
    made = bedrock_model(settings) if cloud == "bedrock" else vertex_model(settings)  # type: ignore[arg-type]

    async with aclosing(made) as model:
        with pytest.raises(ModelRefusedError, match=rf"`models\.{cloud}\.api_key`"):
            await model.ask(ask(VERTEX), (lambda _: None) if streamed else None)

    assert clouds.requests == []


@pytest.mark.parametrize(("module", "extra"), [("boto3", "bedrock"), ("google", "vertex")])
async def test_without_its_libraries_a_cloud_says_what_to_install(
    clouds: FakeClouds, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])
    for name in [each for each in sys.modules if each.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    settings = bedrock(clouds) if extra == "bedrock" else vertex(clouds, api_key=None)

    assert f"retinue[{extra}]" in lacks(settings)
    made = bedrock_model(settings) if extra == "bedrock" else vertex_model(settings)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="are not installed"):
        await made.ask(ask(BEDROCK))
