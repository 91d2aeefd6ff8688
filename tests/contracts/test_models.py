"""What every model behind the port promises: real SDKs against fake providers, and the demo."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from bot.agent.messages import (
    Answer,
    Image,
    Message,
    StopReason,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    from_json,
    to_json,
)
from bot.errors import (
    ContextTooLongError,
    ImagesRefusedError,
    ModelError,
    ModelUnavailableError,
)
from bot.models.anthropic import AnthropicSettings, anthropic_model
from bot.models.base import Model, ModelRequest, ToolDescription
from bot.models.offline import OfflineModel, OfflineSettings
from bot.models.openai import OpenAISettings, openai_model
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.model_server import KEY, Call, ModelServer, Reply, in_order
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.pictures import PICTURES

SPAWN = ToolDescription(
    "sessions_spawn",
    "Start a run.",
    {
        "type": "object",
        "properties": {"task": {"type": "string"}, "label": {"type": "string"}},
        "required": ["task"],
    },
)
#: A message that makes the demo call the tool twice, as the scripts of the fakes do.
TWO_RUNS = "research tea and coffee in the background"


@dataclass
class Subject:
    """A model under test.

    Attributes:
        server: The fake behind it; the demo has none.
        setting: The config group that an admin is sent to.
    """

    model: Model
    server: ModelServer | None = None
    setting: str = ""
    heard: list[str] = field(default_factory=list)

    def will_answer(self, *replies: Reply) -> None:
        """Script the fake; the demo answers by its own rules."""
        if self.server is not None:
            self.server.script = in_order(*replies)

    @property
    def fake(self) -> ModelServer:
        assert self.server is not None
        return self.server


Opener = Callable[[str], AbstractAsyncContextManager[Subject]]


@asynccontextmanager
async def anthropic(key: str = KEY) -> AsyncIterator[Subject]:
    async with FakeAnthropic(in_order(Reply(text="Hello."))) as server:
        settings = AnthropicSettings(
            api_key=key, base_url=server.url, timeout_seconds=20, idle_timeout_seconds=20
        )
        async with aclosing(anthropic_model(settings)) as model:
            yield Subject(model, server, "models.anthropic")


@asynccontextmanager
async def openai(key: str = KEY) -> AsyncIterator[Subject]:
    async with FakeOpenAI(in_order(Reply(text="Hello."))) as server:
        settings = OpenAISettings(
            api_key=key,
            base_url=f"{server.url}/v1",
            main_model="m",
            timeout_seconds=20,
            idle_timeout_seconds=20,
        )
        async with aclosing(openai_model(settings)) as model:
            yield Subject(model, server, "models.openai")


@asynccontextmanager
async def offline(_: str = "") -> AsyncIterator[Subject]:
    yield Subject(OfflineModel(OfflineSettings(pace_seconds=0)))


NETWORK: dict[str, Opener] = {"anthropic": anthropic, "openai": openai}
ALL: dict[str, Opener] = {**NETWORK, "offline": offline}


@pytest.fixture(params=ALL)
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    async with ALL[request.param](KEY) as opened:
        yield opened


@pytest.fixture(params=NETWORK)
async def remote(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    async with NETWORK[request.param](KEY) as opened:
        yield opened


@pytest.fixture(params=NETWORK)
async def stranger(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    """A model whose key is wrong."""
    async with NETWORK[request.param]("sk-wrong-key") as opened:
        yield opened


def ask(*messages: Message, tools_allowed: bool = True) -> ModelRequest:
    return ModelRequest(
        model="some-model",
        prompt="You are a bot.",
        messages=messages or (UserMessage("Hello"),),
        tools=(SPAWN,),
        tools_allowed=tools_allowed,
    )


def two_calls() -> Reply:
    return Reply(
        text="Starting both.",
        calls=(
            Call("sessions_spawn", {"task": "tea", "label": "tea"}),
            Call("sessions_spawn", {"task": "coffee", "label": "coffee"}),
        ),
    )


@pytest.mark.parametrize("words", ["What is this?", ""])
async def test_a_message_with_images_is_answered_whether_or_not_there_are_words(
    subject: Subject, words: str
) -> None:
    subject.will_answer(Reply(text="A dot."))
    shown = tuple(Image(kind, data) for kind, data in PICTURES.items())

    answer = await subject.model.ask(ask(UserMessage(words, shown)))

    assert answer.text
    assert answer.usage.total > 0


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_model_that_takes_no_images_says_so_in_a_sentence(
    remote: Subject, *, streamed: bool
) -> None:
    refusal = Reply(
        status=400, kind="invalid_request_error", text="this model does not support image input"
    )
    remote.will_answer(refusal)
    asked = ask(UserMessage("Look.", (Image("image/png", PICTURES["image/png"]),)))

    with pytest.raises(ImagesRefusedError, match="some-model may not read images"):
        await remote.model.ask(asked, remote.heard.append if streamed else None)


async def test_a_plain_question_gets_a_plain_answer(subject: Subject) -> None:
    subject.will_answer(Reply(text="Hello there."))

    answer = await subject.model.ask(ask())

    assert answer.text
    assert answer.calls == ()
    assert answer.stop is StopReason.END
    assert answer.model == "some-model"


async def test_several_calls_come_in_one_answer_with_ids_of_their_own(subject: Subject) -> None:
    subject.will_answer(two_calls())

    answer = await subject.model.ask(ask(UserMessage(TWO_RUNS)))

    assert [call.name for call in answer.calls] == ["sessions_spawn", "sessions_spawn"]
    assert "tea" in answer.calls[0].arguments["task"]
    assert "coffee" in answer.calls[1].arguments["task"]
    assert len({call.id for call in answer.calls}) == 2
    assert answer.stop is StopReason.TOOL_CALLS


async def test_results_of_several_calls_go_back_in_one_message(subject: Subject) -> None:
    subject.will_answer(two_calls(), Reply(text="Both are running."))
    asked = UserMessage(TWO_RUNS)
    answer = await subject.model.ask(ask(asked))
    results = ToolResults(
        tuple(ToolResult(call.id, '{"status": "accepted"}') for call in answer.calls),
        note="80 % of your time is used.",
    )

    reply = await subject.model.ask(ask(asked, answer, results))

    assert reply.text
    assert reply.calls == ()


async def test_a_step_survives_being_stored(subject: Subject) -> None:
    subject.will_answer(two_calls(), Reply(text="Both are running."))
    asked = UserMessage(TWO_RUNS)

    answer = await subject.model.ask(ask(asked))
    stored = from_json(to_json(answer))

    assert stored == answer


async def test_a_streamed_text_grows_into_the_answer(subject: Subject) -> None:
    subject.will_answer(
        Reply(text="One sentence. Another sentence. A third one.", gap_seconds=0.06)
    )

    answer = await subject.model.ask(ask(), subject.heard.append)

    assert len(subject.heard) > 1
    assert all(
        later.startswith(earlier)
        for earlier, later in zip(subject.heard, subject.heard[1:], strict=False)
    )
    assert subject.heard[-1] == answer.text


async def test_calls_can_be_streamed_too(subject: Subject) -> None:
    subject.will_answer(two_calls())

    answer = await subject.model.ask(ask(UserMessage(TWO_RUNS)), subject.heard.append)

    assert "tea" in answer.calls[0].arguments["task"]
    assert "coffee" in answer.calls[1].arguments["task"]
    assert answer.stop is StopReason.TOOL_CALLS


@pytest.mark.parametrize("streamed", [False, True])
async def test_where_tools_are_not_allowed_no_call_is_made(
    subject: Subject, *, streamed: bool
) -> None:
    subject.will_answer(two_calls())

    answer = await subject.model.ask(
        ask(UserMessage(TWO_RUNS), tools_allowed=False), subject.heard.append if streamed else None
    )

    assert answer.text
    assert answer.calls == ()
    assert answer.stop is StopReason.END


@pytest.mark.parametrize("streamed", [False, True])
async def test_tokens_are_counted(subject: Subject, *, streamed: bool) -> None:
    counted = Usage(input=50, output=7, cache_read=30, cache_write=20)
    subject.will_answer(Reply(text="Hello.", usage=counted))

    answer = await subject.model.ask(ask(), subject.heard.append if streamed else None)

    assert answer.usage.all_input > 0
    assert answer.usage.output > 0
    if subject.server is not None:
        assert answer.usage == counted


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_provider_that_does_not_count_gets_an_upper_estimate(
    remote: Subject, *, streamed: bool
) -> None:
    remote.will_answer(Reply(text="word " * 100, usage=None))

    answer = await remote.model.ask(
        ask(UserMessage("word " * 1000)), remote.heard.append if streamed else None
    )

    assert answer.usage.input > 1000
    assert answer.usage.output > 100


@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelling_ends_the_waiting_at_once(streamed: bool) -> None:
    model = OfflineModel(OfflineSettings(pace_seconds=60))
    heard: list[str] = []
    async with asyncio.timeout(5):
        waiting = asyncio.ensure_future(model.ask(ask(), heard.append if streamed else None))
        await asyncio.sleep(0)

        waiting.cancel()

        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelling_closes_the_connection(remote: Subject, *, streamed: bool) -> None:
    remote.will_answer(Reply(text="Never", fault="hang", after_events=2))
    async with asyncio.timeout(20):
        waiting = asyncio.ensure_future(
            remote.model.ask(ask(), remote.heard.append if streamed else None)
        )
        await remote.fake.received()

        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        await remote.fake.disconnected.wait()


async def lost_by(remote: Subject, request: ModelRequest, *, streamed: bool = True) -> list[Usage]:
    """Ask in vain; return the usage of what was reported as lost."""
    lost: list[Usage] = []
    asked = replace(request, on_lost=lambda _, usage: lost.append(usage))
    with pytest.raises(ModelError) as caught:
        await remote.model.ask(asked, remote.heard.append if streamed else None)
    assert caught.value.charged is bool(lost)
    return lost


@pytest.mark.parametrize("fault", ["drop", "end", "garbage", "error"])
@pytest.mark.parametrize("calls", [(), (Call("sessions_spawn", {"task": "tea " * 50}),)])
async def test_a_stream_that_breaks_after_it_began_is_reported_as_charged(
    remote: Subject, fault: str, calls: tuple[Call, ...]
) -> None:
    text = "" if calls else "word " * 50
    remote.will_answer(Reply(text=text, calls=calls, fault=fault, after_events=5))  # type: ignore[arg-type]

    (lost,) = await lost_by(remote, ask(UserMessage("word " * 1000)))

    # Only Anthropic counts the input at the beginning: 100 by its own count.
    assert lost.input == 100 or lost.input > 1000
    assert lost.output > 5


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_that_is_not_waited_for_is_reported_as_charged(
    remote: Subject, *, streamed: bool
) -> None:
    remote.will_answer(Reply(text="Never", fault="hang", after_events=0))
    lost: list[Usage] = []
    request = replace(ask(), on_lost=lambda _, usage: lost.append(usage))
    async with asyncio.timeout(20):
        waiting = asyncio.ensure_future(
            remote.model.ask(request, remote.heard.append if streamed else None)
        )
        await remote.fake.received()

        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    assert [usage.output for usage in lost] == [0]
    assert lost[0].input > 10


async def test_an_answer_that_cannot_be_read_is_reported_as_charged(remote: Subject) -> None:
    remote.will_answer(Reply(text="Hello.", fault="garbage"))

    (lost,) = await lost_by(remote, ask(), streamed=False)

    assert lost.input > 10


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_nested_beyond_reading_is_charged_and_not_asked_for_again(
    remote: Subject, *, streamed: bool
) -> None:
    remote.will_answer(Reply(text="word " * 50, fault="nested", after_events=5))

    with pytest.raises(ModelError, match="nested too deeply") as caught:
        await remote.model.ask(ask(), remote.heard.append if streamed else None)

    assert caught.value.charged
    assert not isinstance(caught.value, ModelUnavailableError)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        *(Reply(status=status, kind="api_error") for status in (400, 401, 404, 429, 500, 529)),
        Reply(fault="drop"),
    ],
)
async def test_a_refusal_before_any_output_is_not_charged(
    remote: Subject, reply: Reply, *, streamed: bool
) -> None:
    remote.will_answer(reply)

    assert await lost_by(remote, ask(), streamed=streamed) == []


async def test_an_error_at_the_beginning_of_a_stream_is_not_charged(remote: Subject) -> None:
    remote.will_answer(Reply(text="So", kind="overloaded_error", fault="error"))

    assert await lost_by(remote, ask()) == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_busy_provider_may_be_asked_again_when_it_says(
    remote: Subject, *, streamed: bool
) -> None:
    remote.will_answer(Reply(status=429, kind="rate_limit_error", headers={"retry-after": "7"}))

    with pytest.raises(ModelUnavailableError, match="in 7 seconds") as caught:
        await remote.model.ask(ask(), remote.heard.append if streamed else None)

    assert caught.value.retry_after_seconds == 7


async def test_a_wrong_key_sends_the_admin_to_the_setting(stranger: Subject) -> None:
    with pytest.raises(ModelError, match=f"{stranger.setting}.api_key") as caught:
        await stranger.model.ask(ask())

    assert not isinstance(caught.value, ModelUnavailableError)
    assert "sk-wrong-key" not in str(caught.value)


async def test_messages_that_do_not_fit_are_told_apart(remote: Subject) -> None:
    remote.will_answer(
        Reply(
            status=400,
            kind="invalid_request_error",
            text="prompt is too long: 1000001 tokens > 1000000 maximum",
        )
    )

    with pytest.raises(ContextTooLongError, match="!new"):
        await remote.model.ask(ask())


async def test_a_history_of_another_model_is_accepted(remote: Subject) -> None:
    history = (
        UserMessage("Hello"),
        Answer("", native=[{"type": "thinking", "thinking": "…", "signature": "s"}], model="other"),
        UserMessage("And now?"),
    )

    answer = await remote.model.ask(ask(*history))

    assert answer.text == "Hello."
