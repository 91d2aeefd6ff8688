"""A model that asks again."""

import asyncio
from collections.abc import Sequence

import pytest

from bot.agent.messages import Answer, UserMessage
from bot.errors import ContextTooLongError, ModelError, ModelUnavailableError
from bot.models.base import OnText, Question
from bot.models.retrying import RetryingModel, RetrySettings

QUESTION = Question(model="some-model", prompt="", messages=(UserMessage("Hi"),))
AT_ONCE = RetrySettings(wait_initial_seconds=0, wait_max_seconds=0, wait_jitter_seconds=0)


class MoodyModel:
    """Fails as it is told, then answers."""

    provider = "moody"

    def __init__(self, *errors: ModelError) -> None:
        self.asked = 0
        self.failed = asyncio.Event()
        self._errors: Sequence[ModelError] = errors

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        self.asked += 1
        if on_text is not None:
            on_text(f"try {self.asked}")
        if self.asked <= len(self._errors):
            self.failed.set()
            raise self._errors[self.asked - 1]
        return Answer(f"Answer {self.asked}.", model=question.model)


def busy(wait: float | None = None) -> ModelUnavailableError:
    return ModelUnavailableError("Busy.", retry_after_seconds=wait)


async def test_a_busy_model_is_asked_again_until_it_answers() -> None:
    model = MoodyModel(busy(), busy())

    answer = await RetryingModel(model, AT_ONCE).ask(QUESTION)

    assert answer.text == "Answer 3."


async def test_it_is_the_provider_that_it_wraps() -> None:
    assert RetryingModel(MoodyModel(), AT_ONCE).provider == "moody"


async def test_after_the_last_attempt_the_error_is_told() -> None:
    model = MoodyModel(*[busy() for _ in range(9)])

    with pytest.raises(ModelUnavailableError, match="Busy"):
        await RetryingModel(model, AT_ONCE.model_copy(update={"attempts": 4})).ask(QUESTION)

    assert model.asked == 4


@pytest.mark.parametrize("error", [ModelError("No."), ContextTooLongError("Too long.")])
async def test_what_cannot_help_is_not_repeated(error: ModelError) -> None:
    model = MoodyModel(error)

    with pytest.raises(ModelError) as caught:
        await RetryingModel(model, AT_ONCE).ask(QUESTION)

    assert caught.value is error
    assert model.asked == 1


async def test_the_wait_that_the_provider_names_is_kept() -> None:
    model = MoodyModel(busy(wait=0.2))
    clock = asyncio.get_running_loop().time
    began = clock()

    await RetryingModel(model, AT_ONCE).ask(QUESTION)

    assert clock() - began >= 0.19


async def test_the_backoff_is_kept_where_the_provider_names_less() -> None:
    model = MoodyModel(busy(wait=0.001))
    clock = asyncio.get_running_loop().time
    began = clock()
    waits = {"wait_initial_seconds": 0.2, "wait_max_seconds": 0.2}

    await RetryingModel(model, AT_ONCE.model_copy(update=waits)).ask(QUESTION)

    assert clock() - began >= 0.19


async def test_a_wait_beyond_all_patience_is_not_begun() -> None:
    model = MoodyModel(busy(wait=500))

    async with asyncio.timeout(5):
        with pytest.raises(ModelUnavailableError) as caught:
            await RetryingModel(model, AT_ONCE).ask(QUESTION)

    assert caught.value.retry_after_seconds == 500
    assert model.asked == 1


async def test_after_the_total_time_no_attempt_is_begun() -> None:
    model = MoodyModel(*[busy(wait=0.02) for _ in range(9)])
    patience = AT_ONCE.model_copy(update={"attempts": 10, "total_seconds": 0.05})

    with pytest.raises(ModelUnavailableError):
        await RetryingModel(model, patience).ask(QUESTION)

    assert 2 <= model.asked < 6


async def test_waiting_can_be_cancelled_at_any_time() -> None:
    model = MoodyModel(busy(wait=100))
    patience = AT_ONCE.model_copy(update={"total_seconds": 1000})
    async with asyncio.timeout(5):
        waiting = asyncio.ensure_future(RetryingModel(model, patience).ask(QUESTION))
        await model.failed.wait()

        waiting.cancel()

        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert model.asked == 1


async def test_the_callers_deadline_ends_the_waiting() -> None:
    model = MoodyModel(busy(wait=100))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await RetryingModel(model, AT_ONCE).ask(QUESTION)


async def test_a_streamed_text_starts_over() -> None:
    heard: list[str] = []

    await RetryingModel(MoodyModel(busy()), AT_ONCE).ask(QUESTION, heard.append)

    assert heard == ["try 1", "try 2"]


async def test_a_retry_is_one_line_in_the_log_and_none_on_the_screen(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    await RetryingModel(MoodyModel(busy()), AT_ONCE).ask(QUESTION)

    assert [record.getMessage() for record in caplog.records] == [
        "Asking some-model again, attempt 2"
    ]
    assert capsys.readouterr() == ("", "")
