"""Which model answers whom."""

from collections.abc import AsyncIterator

import pytest
from pydantic import ValidationError

from bot.agent.messages import UserMessage
from bot.errors import BadRequestError
from bot.models.base import ModelRequest
from bot.models.catalog import ModelChoice, ModelSettings
from bot.models.providers import Models
from bot.values import Json
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.model_server import KEY, Reply, in_order
from tests.fakes.openai_server import FakeOpenAI

CLAUDE: Json = {"anthropic": {"api_key": KEY}}
OLLAMA: Json = {"openai": {"base_url": "http://localhost:11434/v1", "main_model": "meta/llama"}}
BOTH: Json = {**CLAUDE, **OLLAMA, "allowed": ["openai/meta/llama", "claude-opus-5-5"]}

MAIN = ModelChoice("anthropic", "claude-sonnet-5-5")
RUNS = ModelChoice("anthropic", "claude-haiku-5-5")


def settings(**given: object) -> ModelSettings:
    return ModelSettings.model_validate(given)


@pytest.fixture
async def models() -> AsyncIterator[Models]:
    async with Models.open(settings(**BOTH)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("given", "main", "runs"),
    [
        ({}, "offline/offline-demo", "offline/offline-demo"),
        (CLAUDE, str(MAIN), str(RUNS)),
        (OLLAMA, "openai/meta/llama", "openai/meta/llama"),
        ({**CLAUDE, **OLLAMA}, str(MAIN), str(RUNS)),
        ({**CLAUDE, **OLLAMA, "provider": "openai"}, "openai/meta/llama", "openai/meta/llama"),
        ({**CLAUDE, "provider": "offline"}, "offline/offline-demo", "offline/offline-demo"),
        (
            # The key of OpenAI is there for a fallback.
            {
                "openai": {"api_key": "sk-x"},
                "servers": {"shop": {"preset": "ollama", "main_model": "qwen3"}},
                "fallbacks": ["openai/gpt-6-luna"],
            },
            "shop/qwen3",
            "shop/qwen3",
        ),
        ({"anthropic": {"api_key": " "}}, "offline/offline-demo", "offline/offline-demo"),
    ],
)
def test_the_first_provider_that_is_set_up_answers(given: Json, main: str, runs: str) -> None:
    chosen = settings(**given)

    assert (str(chosen.main), str(chosen.subagent)) == (main, runs)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"provider": "anthropic"}, r"models\.anthropic\.api_key"),
        ({"provider": "openai"}, r"models\.openai\.api_key"),
        ({"openai": {"api_key": "sk-x"}}, r"models\.openai\.main_model"),
        ({**CLAUDE, "allowed": ["openai/gpt-6-luna"]}, r"openai/gpt-6-luna needs"),
    ],
)
def test_a_model_that_cannot_be_asked_is_an_error_of_the_configuration(
    given: Json, words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        settings(**given)


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        (None, None, RUNS),
        ("", "", RUNS),
        ("anthropic", None, RUNS),
        ("openai", None, ModelChoice("openai", "meta/llama")),
        (None, "meta/llama", ModelChoice("openai", "meta/llama")),
        (None, "openai/meta/llama", ModelChoice("openai", "meta/llama")),
        (None, "claude-sonnet-5-5", MAIN),
        ("anthropic", "claude-opus-5-5", ModelChoice("anthropic", "claude-opus-5-5")),
        (None, "opus", ModelChoice("anthropic", "claude-opus-5-5")),
        (None, "haiku", RUNS),
        (None, "Opus", ModelChoice("anthropic", "claude-opus-5-5")),
    ],
)
async def test_an_allowed_model_is_found_by_its_names(
    models: Models, provider: str | None, model: str | None, expected: ModelChoice
) -> None:
    assert models.settings.choose(provider, model, models.settings.subagent) == expected


@pytest.mark.parametrize(
    ("provider", "model"),
    [(None, "gpt-6-luna"), ("openai", "claude-haiku-5-5"), ("offline", None), ("nobody", None)],
)
async def test_any_other_model_is_refused_with_a_list(
    models: Models, provider: str | None, model: str | None
) -> None:
    with pytest.raises(BadRequestError) as caught:
        models.settings.choose(provider, model, models.settings.main)

    assert "anthropic/claude-opus-5-5" in str(caught.value)
    assert "openai/meta/llama" in str(caught.value)


def test_a_family_is_found_in_the_names_of_a_gateway() -> None:
    gateway = {"base_url": "http://localhost:4000", "main_model": "eu/claude-3-7-Sonnet@v1"}
    given = settings(openai=gateway, allowed=["eu/claude-4-opus-latest"])

    assert given.of_agent(None, "sonnet") == (given.main, True)
    assert given.of_agent(None, "opus") == (ModelChoice("openai", "eu/claude-4-opus-latest"), True)
    assert given.of_agent(None, "eu") == (given.main, False)


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        (None, None, (RUNS, True)),
        (None, "sonnet", (MAIN, True)),
        (None, "claude-2-instant", (RUNS, False)),
        ("openai", "meta/llama", (ModelChoice("openai", "meta/llama"), True)),
        ("openai", "sonnet", (ModelChoice("openai", "meta/llama"), False)),
    ],
)
def test_an_agent_whose_model_may_not_be_asked_for_has_another_of_the_same_provider(
    provider: str | None, model: str | None, expected: tuple[ModelChoice, bool]
) -> None:
    assert settings(**BOTH).of_agent(provider, model) == expected


async def test_an_agent_of_a_provider_that_may_not_be_asked_gets_no_other(models: Models) -> None:
    with pytest.raises(BadRequestError, match="The model offline may not be asked for"):
        models.settings.of_agent("offline", None)


async def test_each_choice_is_asked_at_its_own_provider() -> None:
    claude, other = in_order(Reply(text="Claude here.")), in_order(Reply(text="Llama here."))
    async with FakeAnthropic(claude) as anthropic, FakeOpenAI(other) as openai:
        given = settings(
            anthropic={"api_key": KEY, "base_url": anthropic.url},
            openai={"api_key": KEY, "base_url": f"{openai.url}/v1", "main_model": "llama"},
            offline={"pace_seconds": 0},
            allowed=["openai/llama"],
        )
        async with Models.open(given) as models:
            await models.warm()
            choices = (
                models.settings.main,
                ModelChoice("openai", "llama"),
                ModelChoice("offline", "offline-demo"),
            )
            texts = [await text_of(models, choice) for choice in choices]

    assert texts[:2] == ["Claude here.", "Llama here."]
    assert "offline demo" in texts[2]


async def text_of(models: Models, choice: ModelChoice) -> str:
    said = (UserMessage("Hello"),)
    answer = await models.of(choice).ask(ModelRequest(model=choice.model, prompt="", messages=said))
    return answer.text


async def test_a_busy_provider_is_asked_again() -> None:
    script = in_order(Reply(status=529, kind="overloaded_error"), Reply(text="Now."))
    async with FakeAnthropic(script) as server:
        at_once = {"wait_initial_seconds": 0, "wait_jitter_seconds": 0}
        given = settings(anthropic={"api_key": KEY, "base_url": server.url}, retry=at_once)
        async with Models.open(given) as models:
            text = await text_of(models, models.settings.main)

    assert text == "Now."


def test_the_models_describe_themselves_to_an_admin() -> None:
    both = "\n".join(settings(**BOTH).describe())
    none = "\n".join(settings().describe())

    assert both.splitlines() == [
        f"main agent: {MAIN}",
        f"runs: {RUNS}",
        "runs may also ask for: openai/meta/llama, anthropic/claude-opus-5-5",
        "why: it is the first that is set up with a main model",
        "not in the catalogue, and taken to call tools: openai/meta/llama (`models.capabilities` "
        "says what they can do)",
        "prices: genai-prices 0.2.3, pinned on 2026-11-27",
        "no price, so that only tokens are counted: openai/meta/llama (`models.prices` sets one)",
    ]
    assert "ANTHROPIC_API_KEY" in none
    assert KEY not in both


@pytest.mark.parametrize(
    ("chosen", "answers"),
    [
        ("openai/meta/llama", "openai/meta/llama"),
        ("anthropic/a-model-that-was-taken-away", str(MAIN)),
        ("", str(MAIN)),
    ],
)
async def test_a_model_that_was_chosen_answers_for_as_long_as_it_may_be_asked_for(
    models: Models, chosen: str, answers: str
) -> None:
    assert models.kept(chosen) == answers


async def test_changed_settings_count_for_the_next_request_and_not_for_one_under_way() -> None:
    held = [settings(**BOTH)]
    async with Models.open(lambda: held[0]) as opened:
        before, name = opened.for_main("")
        same, _ = opened.for_main("")
        held[0] = held[0].model_copy(
            update={"anthropic": held[0].anthropic.model_copy(update={"main_model": "claude-new"})}
        )
        after, new_name = opened.for_main("")

        assert same is before
        assert after is not before
        assert (name, new_name) == (held[0].anthropic.__class__().main_model, "claude-new")
        assert opened.names()[0].endswith("claude-new")
