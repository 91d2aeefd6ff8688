"""Several servers that speak like OpenAI, by names of their own."""

from contextlib import AsyncExitStack

import pytest
from pydantic import ValidationError

from bot.agent.messages import UserMessage
from bot.models.base import ModelRequest
from bot.models.catalog import ModelChoice, ModelSettings
from bot.models.openai import PRESETS
from bot.models.providers import Models
from bot.values import Json
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.model_server import KEY, Reply, in_order
from tests.fakes.openai_server import FakeOpenAI

REQUEST = ModelRequest(model="", prompt="", messages=(UserMessage("Hi"),))


def settings(**servers: Json) -> ModelSettings:
    return ModelSettings.model_validate({"servers": servers})


def test_the_first_server_answers_where_nothing_else_is_set_up() -> None:
    found = settings(here={"preset": "ollama", "main_model": "qwen3", "subagent_model": "phi"})

    assert str(found.main) == "here/qwen3"
    assert str(found.subagent) == "here/phi"
    assert found.providers["here"].endpoint[0] == PRESETS["ollama"]


def test_an_address_replaces_that_of_the_preset() -> None:
    given = {"preset": "vllm", "base_url": "http://gpu:8000/v1", "main_model": "m"}

    assert settings(here=given).providers["here"].endpoint[0] == "http://gpu:8000/v1"


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ({"openai": {"preset": "ollama", "main_model": "m"}}, "cannot be called 'openai'"),
        ({"My Server": {"preset": "ollama", "main_model": "m"}}, "small letters"),
        ({"here": {"main_model": "m"}}, "needs `base_url` or `preset`"),
        ({"here": {"preset": "ollama"}}, r"models\.servers\.here\.main_model"),
        ({"here": {"preset": "nowhere", "main_model": "m"}}, "ollama"),
        (
            {"here": {"preset": "ollama", "main_model": "m", "headers": {"X Y": "1"}}},
            "cannot be sent",
        ),
        (
            {"here": {"preset": "ollama", "main_model": "m", "headers": {"X": "a\r\nHost: b"}}},
            "cannot be sent",
        ),
    ],
)
def test_a_server_that_cannot_work_is_refused_with_the_remedy(servers: Json, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(**servers)


def test_a_provider_that_is_not_set_up_is_refused_with_the_names() -> None:
    with pytest.raises(ValidationError, match="one of auto, anthropic, openai, bedrock"):
        ModelSettings.model_validate({"provider": "nowhere"})


async def test_each_server_gets_its_own_key_and_headers_and_stands_in_for_another() -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(FakeOpenAI(in_order(Reply(status=503))))
        second = await stack.enter_async_context(FakeOpenAI(in_order(Reply(text="From two."))))
        claude = await stack.enter_async_context(FakeAnthropic(in_order(Reply(status=529))))
        given: Json = {
            "provider": "one",
            "anthropic": {"api_key": KEY, "base_url": claude.url},
            "servers": {
                "one": {
                    "base_url": f"{first.url}/v1",
                    "api_key": KEY,
                    "main_model": "alpha",
                    "headers": {"X-Title": "Retinue"},
                },
                "two": {"base_url": f"{second.url}/v1", "api_key": KEY, "main_model": "org/beta"},
            },
            "fallbacks": ["anthropic/claude-haiku-5-5", "two/org/beta"],
            "fallback_after_seconds": 0,
        }
        found = ModelSettings.model_validate(given)
        models = await stack.enter_async_context(Models.open(lambda: found))
        model, name = models.for_main("")
        answer = await model.ask(
            ModelRequest(model=name, prompt="", messages=(UserMessage("Hi"),), seconds=30)
        )

        assert answer.text == "From two."
        assert first.requests[0].body["model"] == "alpha"
        assert titles(first) == ["Retinue"] * len(first.requests)
        assert second.requests[0].body["model"] == "org/beta"
        assert titles(second) == []
        assert len(claude.requests) >= 1


def titles(server: FakeOpenAI) -> list[str]:
    headers = (item for each in server.requests for item in each.headers.items())
    return [text for name, text in headers if name.lower() == "x-title"]


def test_a_server_and_its_models_are_named_in_check() -> None:
    found = settings(here={"preset": "ollama", "main_model": "llama2", "subagent_model": "ours"})

    lines = "\n".join(found.describe())

    assert "only talk, since they call no tools: here/llama2" in lines
    assert "not in the catalogue, and taken to call tools: here/ours" in lines


def test_a_slash_in_a_name_does_not_make_a_provider_of_it() -> None:
    found = ModelSettings.model_validate(
        {
            "servers": {"here": {"preset": "openrouter", "api_key": KEY, "main_model": "a/b"}},
            "allowed": ["meta/llama", "here/meta/llama"],
        }
    )

    assert found.choices == (ModelChoice("here", "a/b"), ModelChoice("here", "meta/llama"))
