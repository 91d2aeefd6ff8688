"""Other models in place of one that does not answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from bot.agent.messages import Answer, UserMessage, from_json, to_json
from bot.errors import ContextTooLongError, ModelError, ModelRefusedError, ModelUnavailableError
from bot.models.base import ModelRequest, OnText
from bot.models.fallback import DOWN_SECONDS, FallbackModel, Fallbacks

REQUEST = ModelRequest(model="best", prompt="", messages=(UserMessage("Hi"),), seconds=300)
FIRST, SECOND, THIRD = "acme/best", "acme/good", "other/plain"


@dataclass
class World:
    """Three models of two providers, each of which does what is set for it."""

    now: float = 0.0
    asked: list[tuple[str, float | None]] = field(default_factory=list)
    moods: dict[str, ModelError | None] = field(default_factory=dict)
    pauses: int = 0
    #: Happens after so many pauses.
    after: dict[int, Callable[[], object]] = field(default_factory=dict)
    fallbacks: Fallbacks = field(init=False)

    def __post_init__(self) -> None:
        self.fallbacks = Fallbacks(20, lambda: self.now, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses += 1
        self.after.pop(self.pauses, lambda: None)()

    def model(self, others: Sequence[str] = (SECOND, THIRD)) -> FallbackModel:
        found = []
        for name in (FIRST, *others):
            provider, _, model = name.partition("/")
            found.append(self.fallbacks.add(name, model, Provider(provider, self)))
        return FallbackModel(found[0], found[1:], self.fallbacks)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


@dataclass
class Provider:
    provider: str
    world: World

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        world = self.world
        world.asked.append((request.model, request.seconds))
        error = world.moods.get(request.model)
        if error is None:
            return Answer("Here.", model=request.model)
        if isinstance(error, ModelUnavailableError) and error.retry_after_seconds is None:
            world.now += request.seconds or 0
        raise error


def busy(wait: float | None = None) -> ModelUnavailableError:
    return ModelUnavailableError("Busy.", retry_after_seconds=wait)


async def test_while_the_first_answers_nobody_else_is_asked() -> None:
    world = World()

    answer = await world.model().ask(REQUEST)

    assert (answer.model, answer.fallback) == ("best", "")
    assert world.asked == [("best", 20)]


@pytest.mark.parametrize("error", [busy(), busy(500), ModelRefusedError("No credit.")])
async def test_others_answer_in_their_order(error: ModelError) -> None:
    world = World(moods={"best": error, "good": error})

    answer = await world.model().ask(REQUEST)

    assert (answer.model, answer.fallback) == ("plain", THIRD)
    assert world.names == ["best", "good", "plain"]


@pytest.mark.parametrize("error", [ModelError("Refused."), ContextTooLongError("Too long.")])
async def test_what_is_wrong_with_the_question_is_told_at_once(error: ModelError) -> None:
    world = World(moods={"best": error})

    with pytest.raises(type(error)):
        await world.model().ask(REQUEST)

    assert world.names == ["best"]


async def test_a_model_that_was_down_is_asked_last_for_a_while() -> None:
    world = World(moods={"best": busy()})
    model = world.model()
    await model.ask(REQUEST)
    world.asked.clear()

    await model.ask(REQUEST)
    assert world.names == ["good"]

    world.now += DOWN_SECONDS
    world.moods.clear()
    answer = await model.ask(REQUEST)
    assert (answer.model, answer.fallback) == ("best", "")


async def test_who_asks_for_another_model_knows_which_are_down() -> None:
    world = World(moods={"best": busy(), "good": busy()})
    await world.model().ask(REQUEST)
    world.asked.clear()

    candidates = world.fallbacks.candidates
    await FallbackModel(candidates[SECOND], [candidates[THIRD]], world.fallbacks).ask(REQUEST)

    assert world.names == ["plain"]


async def test_when_none_answers_all_are_asked_again_after_the_shortest_pause() -> None:
    world = World(moods={"best": busy(120), "good": busy(40), "plain": ModelRefusedError("No.")})

    with pytest.raises(ModelUnavailableError):
        await world.model().ask(replace(REQUEST, seconds=100))

    assert world.names == ["best", "good", "plain", *["best", "good"] * 2]
    assert world.now == 80


async def test_a_model_that_comes_back_answers_while_another_stays_dead() -> None:
    world = World(moods={"best": busy(), "good": busy(30), "plain": ModelRefusedError("No.")})
    world.after[1] = lambda: world.moods.pop("good")

    answer = await world.model().ask(REQUEST)

    assert (answer.fallback, world.now) == (SECOND, 41)


@pytest.mark.parametrize("error", [ContextTooLongError("Too long."), ModelError("Refused.")])
async def test_a_fallback_that_the_question_does_not_fit_ends_nothing(error: ModelError) -> None:
    world = World(moods={"best": busy(30), "good": error, "plain": error})
    world.after[1] = lambda: world.moods.pop("best")

    answer = await world.model().ask(REQUEST)

    assert (answer.model, answer.fallback) == ("best", "")
    assert world.names == ["best", "good", "plain", "best"]


async def test_when_the_time_is_over_the_error_of_the_first_is_told() -> None:
    world = World(moods={"best": busy(), "good": ModelRefusedError("No."), "plain": busy()})

    with pytest.raises(ModelUnavailableError, match="Busy"):
        await world.model().ask(replace(REQUEST, seconds=30))

    assert world.asked == [("best", 20), ("good", 10), ("plain", 10)]


def test_which_model_answered_is_stored() -> None:
    answer = Answer("Here.", model="plain", fallback=THIRD)

    assert from_json(to_json(answer)) == answer
