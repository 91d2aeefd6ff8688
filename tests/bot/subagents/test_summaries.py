"""When a result is shortened, and what is left alone."""

import asyncio
from typing import Any

import pytest

from bot.agent.budget import WorkClock
from bot.agent.messages import Answer, StopReason, Usage
from bot.catalog.agents import AgentDefinition
from bot.errors import ModelError, ModelUnavailableError
from bot.models.base import Model
from bot.subagents.run_factory import payer_of
from bot.subagents.summaries import LONG, Summaries
from bot.subagents.wording import Outcome
from bot.values import Identity, RunStatus
from db.database import Database
from tests.fakes.agents import FakeAgents
from tests.fakes.clock import FakeClock
from tests.fakes.losing_model import LosingModel
from tests.fakes.scripted_model import Hanging, ScriptedModel, says
from tests.fakes.stored import Stored

AGENT = AgentDefinition(
    name="general", description="Does it.", prompt="Do it.", summarize="In a sentence."
)
REPORT = "A sheep. " * LONG
DONE = Outcome(status=RunStatus.COMPLETED, text=REPORT, usage=Usage(100, 20), seconds_used=1.0)


class Room:
    """A run that came to something, and what shortens it."""

    def __init__(self, database: Database, clock: FakeClock, user: Identity) -> None:
        self._database, self._clock, self._user = database, clock, user
        self.stored = Stored(database, clock)
        self.run_id = ""
        self.spent: list[Usage] = []

    async def shorten(
        self,
        model: Model,
        outcome: Outcome = DONE,
        *,
        clock: WorkClock | None = None,
        **row: Any,
    ) -> Outcome:
        values = {"status": "running", "attempt": 1, "token_budget": 50_000, "model": "m"}
        run = await self.stored.run(self._user, **(values | row))
        self.run_id = run.id
        summaries = Summaries(
            database=self._database,
            agents=FakeAgents({"general": AGENT}),
            model_of=lambda *_: model,
            now=self._clock,
        )
        payer = payer_of(run, self._user)
        return await summaries.shorten(
            run, outcome, clock or WorkClock(60.0), payer=payer, spent=self.spent.append
        )


@pytest.fixture
def room(database: Database, clock: FakeClock, alice: Identity) -> Room:
    return Room(database, clock, alice)


async def test_a_long_result_gets_a_summary_beside_it_which_is_kept_and_paid_for(
    room: Room,
) -> None:
    model = ScriptedModel(says("Sheep.", usage=Usage(70, 5)))

    shortened = await room.shorten(model)

    assert (shortened.text, shortened.summary) == (REPORT, "Sheep.")
    assert shortened.usage == Usage(170, 25)
    assert "In a sentence." in model.last.prompt
    assert (model.last.model, model.last.tools) == ("m", ())
    kept = await room.stored.read_run(room.run_id)
    assert kept.summary == "Sheep."
    assert kept.tokens == 195


@pytest.mark.parametrize(("mode", "background"), [("sync", False), ("async", True)])
async def test_where_a_turn_waits_for_the_summary_it_is_asked_for_like_a_turn(
    room: Room, mode: str, background: bool
) -> None:
    model = ScriptedModel(says("Sheep."))

    await room.shorten(model, mode=mode)

    assert model.last.background is background


async def test_what_an_attempt_before_a_crash_has_shortened_is_not_shortened_again(
    room: Room,
) -> None:
    shortened = await room.shorten(ScriptedModel(), metadata={"summary": "Sheep."})

    assert shortened.summary == "Sheep."
    assert shortened.usage == DONE.usage


@pytest.mark.parametrize(
    ("outcome", "row"),
    [
        (Outcome(status=RunStatus.COMPLETED, text="x" * LONG), {}),
        (Outcome(status=RunStatus.FAILED, text=REPORT), {}),
        (Outcome(status=RunStatus.BUDGET_EXCEEDED, text=REPORT, usage=Usage(49_000)), {}),
        (DONE, {"token_budget": 12_000}),
    ],
    ids=["short", "failed", "no tokens left", "more than is left"],
)
async def test_what_is_short_failed_or_too_dear_is_left_alone(
    room: Room, outcome: Outcome, row: dict[str, Any]
) -> None:
    assert await room.shorten(ScriptedModel(), outcome, **row) == outcome


async def test_with_no_time_left_nothing_is_asked(room: Room) -> None:
    assert await room.shorten(ScriptedModel(), clock=WorkClock(10.0, used=9.0)) == DONE


LOST = Usage(2_000, 30)


@pytest.mark.parametrize(
    ("then", "cost"),
    [
        (ModelUnavailableError("Broken off.", charged=True), LOST + LOST),
        (says("Sheep.", usage=Usage(70, 5)), LOST + LOST + Usage(70, 5)),
    ],
    ids=["failed", "answered"],
)
async def test_requests_for_a_summary_that_broke_off_are_paid_for(
    room: Room, then: Answer | ModelError, cost: Usage
) -> None:
    shortened = await room.shorten(LosingModel(LOST, LOST, then=then))

    assert shortened.usage == Usage(100, 20) + cost
    assert sum(room.spent, Usage()) == cost


async def test_a_model_that_is_too_slow_is_left_and_its_question_paid_for(room: Room) -> None:
    model, clock = LosingModel(then=Hanging()), WorkClock(1.0, used=0.8, monotonic=lambda: 0.0)

    shortened = await room.shorten(model, clock=clock)

    assert shortened.summary == ""
    assert shortened.usage is not None
    assert shortened.usage.input > 10_000


async def test_a_summary_that_is_cut_off_with_its_run_is_counted_at_once(room: Room) -> None:
    hanging = Hanging()
    shortening = asyncio.ensure_future(room.shorten(LosingModel(then=hanging)))
    async with asyncio.timeout(20):
        await hanging.asked.wait()

    shortening.cancel()

    with pytest.raises(asyncio.CancelledError):
        await shortening
    assert sum(room.spent, Usage()).input > 10_000


@pytest.mark.parametrize(
    "answer",
    [
        says("Sheep, she", stop=StopReason.MAX_TOKENS),
        says(""),
        says(REPORT + "And one more."),
        ModelUnavailableError("It is busy."),
    ],
    ids=["cut", "empty", "longer", "busy"],
)
async def test_an_answer_that_is_no_summary_leaves_the_result_whole(
    room: Room, answer: object
) -> None:
    shortened = await room.shorten(ScriptedModel(answer))  # type: ignore[arg-type]

    assert (shortened.text, shortened.summary) == (REPORT, "")
    assert shortened.status is RunStatus.COMPLETED
    assert (await room.stored.read_run(room.run_id)).summary == ""
