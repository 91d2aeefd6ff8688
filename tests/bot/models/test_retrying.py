"""Asking a busy provider again, by a clock that moves when somebody waits."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from bot.agent.messages import Answer, UserMessage
from bot.errors import ContextTooLongError, ModelError, ModelUnavailableError
from bot.models.base import ModelRequest, OnText
from bot.models.retrying import (
    LONGEST_REST,
    MOST,
    UNLIMITED_SECONDS,
    ConcurrencyLimit,
    Patience,
    RetryingModel,
    RetrySettings,
)

REQUEST = ModelRequest(model="some-model", prompt="", messages=(UserMessage("Hi"),))
STEADY = RetrySettings(wait_jitter_seconds=0)
AT_ONCE = RetrySettings(wait_initial_seconds=0, wait_max_seconds=0, wait_jitter_seconds=0)


@dataclass
class Time:
    """A clock that goes on only while somebody sleeps by it."""

    now: float = 1_000.0
    waits: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def patience(self, settings: RetrySettings = STEADY) -> Patience:
        return Patience(settings, "Moody", now=self, sleep=self.sleep)


class MoodyModel:
    """Fails as it is told, then answers."""

    def __init__(self, *errors: ModelError, text: str = "") -> None:
        self.asked = 0
        self._errors: Sequence[ModelError] = errors
        self._text = text

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        self.asked += 1
        if on_text is not None and self._text:
            on_text(f"{self._text} {self.asked}")
        if self.asked <= len(self._errors):
            raise self._errors[self.asked - 1]
        return Answer(f"Answer {self.asked}.", model=request.model)


class DeadUntil:
    """Is overloaded until a moment; notes when it was asked."""

    def __init__(self, time: Time, seconds: float, wait: float | None = None) -> None:
        self.time, self.until, self.wait = time, time.now + seconds, wait
        self.asked: list[float] = []

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        self.asked.append(self.time.now)
        if self.time.now < self.until:
            raise busy(self.wait)
        return Answer("Alive.", model=request.model)


def busy(wait: float | None = None) -> ModelUnavailableError:
    return ModelUnavailableError("Busy. Try later.", retry_after_seconds=wait, throttled=True)


def broken() -> ModelUnavailableError:
    return ModelUnavailableError("Broken off.", charged=True)


async def test_a_busy_model_is_asked_again_until_it_answers() -> None:
    model = MoodyModel(busy(), busy())

    answer = await RetryingModel(model, Time().patience()).ask(REQUEST)

    assert answer.text == "Answer 3."


@pytest.mark.parametrize("seconds", [11, 60, 180, 290])
async def test_a_dead_provider_is_waited_for_within_the_time_of_the_work(seconds: float) -> None:
    time = Time()
    model = DeadUntil(time, seconds)
    request = replace(REQUEST, seconds=300)

    answer = await RetryingModel(model, time.patience()).ask(request)

    assert answer.text == "Alive."
    assert time.now <= model.until + 31


async def test_at_the_end_of_the_time_of_the_work_the_error_is_told() -> None:
    time = Time()
    model = DeadUntil(time, 10_000)

    with pytest.raises(ModelUnavailableError, match="Busy"):
        await RetryingModel(model, time.patience()).ask(replace(REQUEST, seconds=300))

    assert model.asked[-1] <= 1_300
    assert time.now <= 1_300


@pytest.mark.parametrize(
    ("asked", "settings", "most"),
    [
        (REQUEST, STEADY, UNLIMITED_SECONDS),
        (replace(REQUEST, seconds=5_000), STEADY, 3600),
        (replace(REQUEST, seconds=0), STEADY, 0),
        (
            replace(REQUEST, seconds=300),
            RetrySettings(total_seconds=7, wait_jitter_seconds=0),
            7,
        ),
    ],
)
async def test_no_wait_passes_its_limit(
    asked: ModelRequest, settings: RetrySettings, most: float
) -> None:
    time = Time()
    model = DeadUntil(time, 10_000)

    with pytest.raises(ModelUnavailableError):
        await RetryingModel(model, time.patience(settings)).ask(asked)

    assert most * 0.8 <= time.now - 1_000 <= most
    assert model.asked


async def test_what_may_be_charged_is_repeated_only_so_often() -> None:
    model = MoodyModel(*[broken() for _ in range(9)])
    patience = Time().patience(AT_ONCE.model_copy(update={"attempts": 4}))

    with pytest.raises(ModelUnavailableError, match="Broken off"):
        await RetryingModel(model, patience).ask(REQUEST)

    assert model.asked == 4


@pytest.mark.parametrize("error", [ModelError("No."), ContextTooLongError("Too long.")])
async def test_what_cannot_help_is_not_repeated(error: ModelError) -> None:
    model = MoodyModel(error)

    with pytest.raises(ModelError) as caught:
        await RetryingModel(model, Time().patience()).ask(REQUEST)

    assert caught.value is error
    assert model.asked == 1


async def test_the_wait_that_the_provider_names_is_the_least() -> None:
    time = Time()
    model = DeadUntil(time, 60, wait=20)

    await RetryingModel(model, time.patience()).ask(replace(REQUEST, seconds=300))

    gaps = [after - before for before, after in zip(model.asked, model.asked[1:], strict=False)]
    assert gaps == [20, 20, 20]


async def test_the_backoff_is_kept_where_the_provider_names_less() -> None:
    time = Time()

    await RetryingModel(MoodyModel(busy(0.001), busy(0.001), busy(0.001)), time.patience()).ask(
        REQUEST
    )

    assert time.waits == [0.5, 1, 2]


async def test_a_random_part_comes_on_top_of_every_wait() -> None:
    time = Time()
    settings = RetrySettings(wait_jitter_seconds=5)

    await RetryingModel(MoodyModel(*[busy(20)] * 4), time.patience(settings)).ask(
        replace(REQUEST, seconds=300)
    )

    assert all(20 <= wait <= 25 for wait in time.waits)
    assert len(set(time.waits)) > 1


async def test_a_wait_that_is_longer_than_the_time_left_fails_at_once() -> None:
    time = Time()
    model = MoodyModel(busy(wait=500))

    with pytest.raises(ModelUnavailableError) as caught:
        await RetryingModel(model, time.patience()).ask(replace(REQUEST, seconds=300))

    assert caught.value.retry_after_seconds == 500
    assert (model.asked, time.waits) == (1, [])


async def test_a_pause_that_a_model_asks_for_holds_for_everybody_who_asks_it() -> None:
    time = Time()
    model, patience = MoodyModel(busy(wait=100)), time.patience()
    retrying = RetryingModel(model, patience)
    with pytest.raises(ModelUnavailableError):
        await retrying.ask(replace(REQUEST, seconds=50))

    with pytest.raises(ModelUnavailableError, match="Try again in 100 seconds"):
        await retrying.ask(replace(REQUEST, seconds=50))
    assert model.asked == 1

    await retrying.ask(replace(REQUEST, model="another", seconds=50))
    assert (model.asked, time.waits) == (2, [])

    await retrying.ask(replace(REQUEST, seconds=150))
    assert (model.asked, time.waits) == (3, [100])


async def test_who_waits_is_told_why_and_how_long() -> None:
    told: list[tuple[str, float]] = []
    request = replace(
        REQUEST, seconds=300, on_wait=lambda reason, seconds: told.append((reason, seconds))
    )

    await RetryingModel(MoodyModel(busy(), busy(40)), Time().patience()).ask(request)

    assert told == [("Busy. Try later.", 0.5), ("Busy. Try later.", 40)]


async def test_a_turn_is_let_in_before_the_runs_that_wait_at_the_gate() -> None:
    patience = Time().patience(AT_ONCE)
    begun: list[str] = []
    open_, going, turn = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def ask(name: str) -> str:
        begun.append(name)
        if name == "first":
            going.set()
            await open_.wait()
        if name == "turn":
            turn.set()
        return name

    patience.gate = ConcurrencyLimit(least=1)
    patience.gate.refused(0)
    assert patience.gate.limit == 1
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for name, background in (("first", True), ("run", True), ("turn", False)):
            group.create_task(
                patience.ask(lambda name=name: ask(name), name="m", background=background)  # type: ignore[misc]
            )
        await going.wait()
        # A turn waits for no run.
        await turn.wait()
        assert begun == ["first", "turn"]
        open_.set()

    assert begun == ["first", "turn", "run"]


@pytest.mark.parametrize(("throttled", "limit"), [(True, 8), (False, MOST)])
async def test_only_a_refusal_for_too_much_lets_fewer_go_at_once(
    *, throttled: bool, limit: int
) -> None:
    patience = Time().patience(AT_ONCE)
    for _ in range(15):
        await patience.gate.enter(background=True)

    with pytest.raises(ModelUnavailableError):
        await RetryingModel(
            MoodyModel(ModelUnavailableError("No.", throttled=throttled)), patience
        ).ask(replace(REQUEST, seconds=0))

    assert patience.gate.limit == limit


async def test_who_waits_at_the_gate_is_told_so() -> None:
    patience = Time().patience(AT_ONCE)
    patience.gate = ConcurrencyLimit(least=1)
    patience.gate.refused(0)
    await patience.gate.enter(background=False)
    told: list[tuple[str, float]] = []
    request = replace(REQUEST, seconds=0, on_wait=lambda *each: told.append(each))

    with pytest.raises(ModelUnavailableError):
        await RetryingModel(MoodyModel(), patience).ask(request)

    assert [(reason.split(". ")[0], seconds) for reason, seconds in told] == [
        ("Moody takes few requests at the moment", math.inf)
    ]


async def test_who_stood_at_the_gate_keeps_a_pause_that_began_meanwhile() -> None:
    time = Time()
    patience = time.patience()
    patience.gate = ConcurrencyLimit(least=1)
    patience.gate.refused(0)
    model = MoodyModel(busy(wait=40))
    held = await patience.gate.enter(background=True)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for _ in range(2):
            request = replace(REQUEST, seconds=300, background=True)
            group.create_task(RetryingModel(model, patience).ask(request))
        await asyncio.sleep(0)
        patience.gate.leave(background=True)

    assert held == 1
    assert model.asked == 3
    assert time.now >= 1_040
    assert time.waits.count(40) == len(time.waits)


async def test_a_pause_ends_for_each_at_another_moment() -> None:
    time = Time()
    patience = time.patience(RetrySettings(wait_jitter_seconds=5))
    with pytest.raises(ModelUnavailableError):
        await RetryingModel(MoodyModel(busy(60)), patience).ask(replace(REQUEST, seconds=1))

    waits = {patience._wait(0, 60.0, 300.0, None) for _ in range(9)}

    assert len(waits) > 1
    assert all(60 <= wait <= 65 for wait in waits)


async def test_a_model_that_asks_for_a_day_is_asked_again_after_ten_minutes() -> None:
    time = Time()
    retrying = RetryingModel(MoodyModel(busy(86_400)), time.patience())
    with pytest.raises(ModelUnavailableError):
        await retrying.ask(replace(REQUEST, seconds=3_000))
    assert time.waits == []

    await retrying.ask(replace(REQUEST, seconds=3_000))

    assert time.waits == [LONGEST_REST]


async def test_a_request_that_has_no_turn_in_its_time_was_not_sent() -> None:
    patience = Time().patience(AT_ONCE)
    patience.gate = ConcurrencyLimit(least=1)
    patience.gate.refused(0)
    number = await patience.gate.enter(background=False)
    model = MoodyModel()

    with pytest.raises(ModelUnavailableError, match="few requests"):
        await RetryingModel(model, patience).ask(replace(REQUEST, seconds=0))

    assert (model.asked, number) == (0, 1)


async def test_waiting_can_be_cancelled_at_any_time() -> None:
    waits = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.set()
        await asyncio.Event().wait()

    model = MoodyModel(busy(wait=100))
    patience = Patience(STEADY, "Moody", sleep=sleep)
    async with asyncio.timeout(20):
        waiting = asyncio.ensure_future(RetryingModel(model, patience).ask(REQUEST))
        await waits.wait()

        waiting.cancel()

        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert model.asked == 1


async def test_a_streamed_text_starts_over() -> None:
    heard: list[str] = []

    await RetryingModel(MoodyModel(busy(), text="try"), Time().patience()).ask(
        REQUEST, heard.append
    )

    assert heard == ["try 1", "try 2"]


async def test_an_outage_is_two_lines_in_the_log_whoever_waits_and_none_on_the_screen(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO")
    error = busy()
    error.add_note("status 529")
    time = Time()
    patience = time.patience()
    for _ in range(3):
        with pytest.raises(ModelUnavailableError):
            await RetryingModel(MoodyModel(*[error] * 99), patience).ask(REQUEST)

    await RetryingModel(MoodyModel(), patience).ask(REQUEST)

    assert [record.getMessage() for record in caplog.records] == [
        "some-model does not answer, it is asked again: Busy. Try later. (status 529)",
        "some-model answers again",
    ]
    assert capsys.readouterr() == ("", "")
