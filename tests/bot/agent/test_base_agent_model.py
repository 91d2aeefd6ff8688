"""Models that refuse, break off, pause, overflow, say nothing, or cannot be reached."""

from dataclasses import replace
from math import inf

import pytest

from bot.agent.budget import TokenBudget
from bot.agent.messages import (
    Answer,
    Image,
    Message,
    StopReason,
    ToolResults,
    Usage,
    UserMessage,
    estimate_tokens,
    holds_images,
)
from bot.errors import (
    ContextTooLongError,
    ImagesRefusedError,
    ModelError,
    ModelUnavailableError,
)
from bot.models.base import ModelRequest, OnText
from bot.values import Json, RunStatus
from skills.base import ToolContext
from tests.bot.agent.things import Office, a_tool, an_agent, told
from tests.fakes.around import FakeBudget, FakeReporter, FakeTimer, MemoryJournal, surroundings
from tests.fakes.scripted_model import Line, ScriptedModel, asks_for, call, says

PICTURES = (Image("image/png", b"pixels"),)


@pytest.mark.parametrize("text", ["", "I will not."])
async def test_a_refusal_ends_the_work_and_is_not_asked_again(office: Office, text: str) -> None:
    model = ScriptedModel(says(text, stop=StopReason.REFUSAL))

    result = await office.work(model)

    assert (result.status, result.text, result.refused) == (RunStatus.FAILED, text, True)
    assert "refused" in result.error


async def test_calls_of_a_refusal_are_not_made(office: Office) -> None:
    made: list[Json] = []

    async def look(_: ToolContext, arguments: Json) -> str:
        made.append(arguments)
        return "seen"

    model = ScriptedModel(Answer("No.", (call("look"),), StopReason.REFUSAL))

    result = await office.work(model, a_tool("look", look))

    assert (result.status, made) == (RunStatus.FAILED, [])


async def test_an_answer_that_reached_its_greatest_length_is_marked_as_cut(office: Office) -> None:
    model = ScriptedModel(says("Twelve sheep, and", stop=StopReason.MAX_TOKENS))

    result = await office.work(model)

    assert result.status is RunStatus.COMPLETED
    assert result.text.startswith("Twelve sheep, and\n\n[The answer was cut here")
    assert result.said == result.text


async def test_one_that_was_cut_before_it_said_anything_is_told_so_and_goes_on(
    office: Office,
) -> None:
    model = ScriptedModel(says(" ", stop=StopReason.MAX_TOKENS), says("Twelve."))

    result = await office.work(model)

    assert (result.status, result.text) == (RunStatus.COMPLETED, "Twelve.")
    assert "cut at its greatest length" in told(model.last)


@pytest.mark.parametrize("stop", [StopReason.MAX_TOKENS, StopReason.END])
async def test_only_thoughts_are_continued_once(office: Office, stop: StopReason) -> None:
    thoughts = replace(says("", stop=stop), thought=True)
    model = ScriptedModel(thoughts, says("Twelve."))

    result = await office.work(model)

    assert (result.status, result.text) == (RunStatus.COMPLETED, "Twelve.")
    assert len(model.requests) == 2


@pytest.mark.parametrize("stop", [StopReason.MAX_TOKENS, StopReason.END])
async def test_only_thoughts_twice_in_a_row_fail(office: Office, stop: StopReason) -> None:
    model = ScriptedModel(*[replace(says("", stop=stop), thought=True)] * 2)

    result = await office.work(model)

    assert (result.status, len(model.requests)) == (RunStatus.FAILED, 2)
    assert "did not get to the end" in result.error


async def test_a_model_that_pauses_may_go_on_twice(office: Office) -> None:
    model = ScriptedModel(
        says("One,", stop=StopReason.PAUSE), says("two,", stop=StopReason.PAUSE), says("three.")
    )

    result = await office.work(model)

    assert result.status is RunStatus.COMPLETED
    assert result.said == "One,\n\ntwo,\n\nthree."
    newest = model.last.messages[-1]
    assert isinstance(newest, Answer), "a paused answer goes back as it is"
    assert newest.text == "two,"


async def test_a_model_that_pauses_for_the_third_time_fails(office: Office) -> None:
    model = ScriptedModel(*[says("Hm.", stop=StopReason.PAUSE)] * 3)

    result = await office.work(model)

    assert (result.status, len(model.requests)) == (RunStatus.FAILED, 3)
    assert "did not get to the end" in result.error
    assert "Hm." in result.text


async def test_pauses_are_counted_anew_after_a_call(office: Office) -> None:
    pause = says("Hm.", stop=StopReason.PAUSE)
    model = ScriptedModel(pause, pause, asks_for(call("look")), pause, pause, says("Twelve."))

    result = await office.work(model, a_tool("look"))

    assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    "overflow",
    [
        ContextTooLongError("It does not fit."),
        says("Half an ans", stop=StopReason.CONTEXT_FULL, usage=Usage(900, 30)),
    ],
    ids=["error", "stop reason"],
)
async def test_what_does_not_fit_is_halved_once_without_parting_calls_and_results(
    office: Office, overflow: Line
) -> None:
    sizes: list[int] = []

    def respond(request: ModelRequest) -> Line:
        sizes.append(len(request.messages))
        if len(sizes) <= 6:
            return asks_for(call("look", n=len(sizes)), text="I look. " * 100)
        return overflow if len(sizes) == 7 else says("Twelve.")

    model = ScriptedModel(respond=respond)
    result = await office.work(model, a_tool("look"))

    assert (result.status, result.text) == (RunStatus.COMPLETED, "Twelve.")
    full, half = model.requests[-2:]
    assert len(half.messages) < len(full.messages)
    assert half.messages[0] == full.messages[0]
    assert half.messages[-1] == full.messages[-1]
    assert_pairs_are_whole(half.messages)


@pytest.mark.parametrize(
    "overflow",
    [ContextTooLongError("It does not fit."), says("", stop=StopReason.CONTEXT_FULL)],
    ids=["error", "stop reason"],
)
async def test_what_does_not_fit_when_halved_fails_with_a_reason(
    office: Office, overflow: Line
) -> None:
    model = ScriptedModel(overflow, overflow)

    result = await office.work(model)

    assert (result.status, len(model.requests)) == (RunStatus.FAILED, 2)
    assert "too long for the model" in result.error


async def test_an_answer_that_did_not_fit_is_paid_for_all_the_same(office: Office) -> None:
    journal, budget = MemoryJournal(), FakeBudget()
    model = ScriptedModel(
        says("Half", stop=StopReason.CONTEXT_FULL, usage=Usage(900, 30)),
        says("Twelve.", usage=Usage(400, 7)),
    )

    result = await office.work(model, around=surroundings(journal=journal, budget=budget))

    assert result.usage.total == 930 + 407
    assert sum(budget.charged, Usage()).total == 930 + 407
    assert journal.shelf.counters[-1].usage.total == 930 + 407


async def test_answers_that_never_fitted_are_paid_for_too(office: Office) -> None:
    overflow = says("", stop=StopReason.CONTEXT_FULL, usage=Usage(900, 30))

    result = await office.work(ScriptedModel(overflow, overflow))

    assert (result.status, result.usage.total) == (RunStatus.FAILED, 2 * 930)


async def test_an_empty_answer_fails_with_a_reason(office: Office) -> None:
    result = await office.work(ScriptedModel(says(" \n")))

    assert (result.status, result.text) == (RunStatus.FAILED, "")
    assert "empty answer" in result.error


@pytest.mark.parametrize("error", [ModelError, ModelUnavailableError])
async def test_a_model_that_cannot_answer_ends_the_work_with_reason_and_partial_text(
    office: Office, error: type[ModelError]
) -> None:
    model = ScriptedModel(
        asks_for(call("look"), text="Seven on the left."), error("The model is down. Try later.")
    )

    result = await office.work(model, a_tool("look"))

    assert (result.status, result.text) == (RunStatus.FAILED, "Seven on the left.")
    assert result.error == "The model is down. Try later."
    assert (result.steps, result.tool_calls) == (1, 1)


async def test_images_of_earlier_messages_that_a_model_refuses_do_not_end_the_talk(
    office: Office,
) -> None:
    history: list[Message] = [
        UserMessage("Look.", PICTURES),
        Answer("⚠ It failed."),
        UserMessage("Hello?"),
    ]
    model = ScriptedModel(ImagesRefusedError("No images."), says("Hello."))

    result = await an_agent(model, tasks=office.tasks).run(history)

    assert (result.status, result.text) == (RunStatus.COMPLETED, "Hello.")
    assert not holds_images(model.last.messages)


async def test_an_image_that_is_refused_is_not_shown_again_beside_a_new_one(
    office: Office,
) -> None:
    newest = UserMessage("And this?", PICTURES)
    model = ScriptedModel(ImagesRefusedError("No images."), says("A cat."))

    await an_agent(model, tasks=office.tasks).run(
        [UserMessage("Look.", PICTURES), Answer("⚠ It failed."), newest]
    )

    assert model.last.messages[-1] == newest
    assert not holds_images(model.last.messages[:-1])


async def test_who_sends_an_image_that_the_model_refuses_is_told_so(office: Office) -> None:
    model = ScriptedModel(ImagesRefusedError("No images. Send words."))

    result = await an_agent(model, tasks=office.tasks).run([UserMessage("Look.", PICTURES)])

    assert (result.status, result.error) == (RunStatus.FAILED, "No images. Send words.")


async def test_long_history_is_trimmed_to_its_room_before_it_is_sent(office: Office) -> None:
    answers = [asks_for(call("look", n=n), text="I look. " * 300) for n in range(12)]
    model = ScriptedModel(*answers, says("Twelve."))

    result = await office.work(model, a_tool("look"), context_tokens=4_000)

    assert result.status is RunStatus.COMPLETED
    assert model.last.messages[0] == UserMessage("Count the sheep.")
    assert "earlier messages are left out here" in str(model.last.messages[1])
    assert_pairs_are_whole(model.last.messages)


async def test_the_last_step_is_trimmed_to_what_can_still_be_paid(office: Office) -> None:
    left: list[int] = []

    def respond(request: ModelRequest) -> Line:
        left.append(budget.left)
        if not request.tools_allowed:
            return says("Twelve.")
        n = len(request.messages)
        usage = Usage(estimate_tokens(request.messages), 100)
        return asks_for(call("look", n=n), text="I look. " * 300, usage=usage)

    model, budget = ScriptedModel(respond=respond), TokenBudget(10_000)

    result = await office.work(model, a_tool("look"), around=surroundings(budget=budget))

    assert (result.status, result.text) == (RunStatus.BUDGET_EXCEEDED, "Twelve.")
    assert not model.last.tools_allowed
    left_out = model.last.messages[1]
    assert isinstance(left_out, UserMessage)
    assert "earlier messages are left out here" in left_out.text
    assert estimate_tokens(model.last.messages) + model.last.max_tokens <= left[-1]
    assert_pairs_are_whole(model.last.messages)


def assert_pairs_are_whole(messages: tuple[Message, ...]) -> None:
    for at, message in enumerate(messages):
        if isinstance(message, ToolResults):
            before = messages[at - 1]
            assert isinstance(before, Answer)
            assert [item.id for item in before.calls] == [item.call_id for item in message.results]


class Busy(ScriptedModel):
    """Waits for its provider before each answer, by saying so."""

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        assert request.on_wait is not None
        for seconds in (0.5, 40.0, 240.0):
            request.on_wait("Acme is busy. Try again in a minute.", seconds)
        return await super().ask(request, on_text)


async def test_what_is_waited_for_is_told_to_the_card_and_in_the_reply(office: Office) -> None:
    reporter, heard = FakeReporter(), list[str]()

    await office.work(
        Busy(says("Twelve.")), around=surroundings(reporter=reporter), on_text=heard.append
    )

    lines = [
        "⏳ Acme is busy. I go on by myself in 40 s.",
        "⏳ Acme is busy. I go on by myself in 4 min.",
    ]
    assert heard == lines
    assert [content for part, content, _ in reporter.heard if part == "waiting"] == lines


@pytest.mark.parametrize(
    ("left", "least", "most"), [(inf, inf, inf), (300.0, 299.0, 300.0), (0.05, 0.0, 0.0)]
)
async def test_a_provider_is_waited_for_until_the_last_step_must_begin(
    office: Office, left: float, least: float, most: float
) -> None:
    model = ScriptedModel(says("Twelve."))

    await office.work(model, around=surroundings(timer=FakeTimer(seconds=left)))

    assert model.last.seconds is not None
    assert least <= model.last.seconds <= most


async def test_the_last_step_waits_only_for_what_is_set_aside_for_it(office: Office) -> None:
    model = ScriptedModel(says("Twelve."))

    await office.work(model, around=surroundings(timer=FakeTimer(seconds=-1.0)))

    assert not model.last.tools_allowed
    assert model.last.seconds is not None
    assert 29 < model.last.seconds <= 30
