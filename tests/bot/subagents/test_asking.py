"""A yes lets one call be made once; a no stays a no, whatever is answered beside it."""

import asyncio
from dataclasses import replace

import pytest

from bot.errors import FencedError
from bot.subagents.asking import MOST_UNHEARD
from bot.values import Identity, RunStatus
from skills.base import Effects
from tests.fakes.asking import Asked, letter
from tests.fakes.clock import FakeClock


async def test_what_was_refused_stays_refused_after_a_restart_though_a_sibling_got_all(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice)
    asking = asked.asking(run, alice)
    await asked.put(asking, run, "1.0", status="yes", whole_run=True)
    await asked.put(asking, run, "1.1", status="no")

    told = await asked.permit(asking, run, alice, "1.1")

    assert "Your person said no: mail was not called" in told


async def test_a_no_to_one_of_two_calls_holds_in_the_next_attempt_too(
    asked: Asked, alice: Identity
) -> None:
    run, mail = await asked.run(alice), asked.mail(effects=Effects.REPEATABLE)
    box = asked.toolbox(asked.asking(run, alice), mail)
    refused = asked.tasks.start(
        box.call(letter("1.0"), asked.context(run, alice, "1.0")), name="first"
    )
    await asked.choose(alice, (await asked.outlet.asked(1)).id, "no")
    allowed = asked.tasks.start(
        box.call(letter("1.1"), asked.context(run, alice, "1.1")), name="second"
    )
    await asked.choose(alice, (await asked.outlet.asked(2)).id, "all")
    async with asyncio.timeout(10):
        await refused
        await allowed
    again = await asked.office.begin(run)
    later = asked.toolbox(asked.asking(again, alice), mail)

    result = await later.call(letter("1.0"), asked.context(again, alice, "1.0"))

    assert result.failed
    assert asked.posted == [{"to": "1.1"}]
    assert len(asked.outlet.questions) == 2


async def test_one_yes_begins_one_call_also_under_a_yes_for_the_whole_run(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice)
    asking = asked.asking(run, alice)
    await asked.put(asking, run, "1.0", status="yes", whole_run=True)
    before = await asking.may_have_begun(letter("1.0"), asked.context(run, alice, "1.0"))

    first = await asked.permit(asking, run, alice, "1.1")
    begun = await asking.may_have_begun(letter("1.1"), asked.context(run, alice, "1.1"))
    second = await asked.permit(asking, run, alice, "1.1")

    assert (before, first, begun) == (False, "", True)
    assert "may have run" in second


async def test_one_yes_begins_no_call_of_an_attempt_that_was_taken_over(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice, attempt=2)
    stale, present = asked.asking(replace(run, attempt=1), alice), asked.asking(run, alice)
    await asked.put(present, run, "1.0", status="yes")

    with pytest.raises(FencedError):
        await asked.permit(stale, run, alice)
    assert await asked.permit(present, run, alice) == ""


async def test_a_call_that_an_earlier_attempt_may_have_made_is_known_by_its_question(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice, attempt=2)
    asking = asked.asking(run, alice)
    box = asked.toolbox(asking, asked.mail())
    await asked.put(asking, run, "1.1")
    never_asked = await box.may_have_begun(letter("1.0"), asked.context(run, alice, "1.0"))
    waiting = await box.may_have_begun(letter("1.1"), asked.context(run, alice, "1.1"))

    # The rule that asks may be newer than the call.
    assert (never_asked, waiting) == (True, False)


async def test_a_yes_counts_for_the_arguments_that_were_shown(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice)
    asking = asked.asking(run, alice)
    await asked.put(asking, run, "1.0", status="yes")

    told = await asking.permit(asked.mail(), letter("9.9"), asked.context(run, alice), "so")

    assert "mail was not called" in told


async def test_after_two_questions_that_nobody_answered_nobody_is_asked_any_more(
    asked: Asked, clock: FakeClock, alice: Identity
) -> None:
    run = await asked.run(alice)
    asking = asked.asking(run, alice)
    for number in range(MOST_UNHEARD):
        await asked.put(asking, run, f"1.{number}")
    clock.advance(3600)
    await asked.answers.expire()

    told = await asked.permit(asking, run, alice, "1.5")

    assert "Your person did not answer" in told
    assert asked.outlet.questions == []
    assert (await asked.stored.read_run(run.id)).status is RunStatus.RUNNING


async def test_a_question_whose_time_is_over_is_not_shown(
    asked: Asked, clock: FakeClock, alice: Identity
) -> None:
    run = await asked.run(alice, status="waiting_input")
    asking = asked.asking(run, alice)
    await asked.wonder(asking, run, shown=False)
    clock.advance(3600)

    async with asyncio.timeout(10):
        told = await asking.ask("1.0", "Which?", [])

    assert "No answer came within 10 minutes" in told
    assert asked.outlet.questions == []


async def test_of_many_questions_at_once_three_are_asked_one_after_the_other(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice)
    asking = asked.asking(run, alice)
    work = [
        asked.tasks.start(asking.ask(f"1.{n}", f"Question {n}?", []), name=f"question {n}")
        for n in range(20)
    ]
    for number in range(3):
        question = await asked.outlet.asked(number + 1)
        await asked.comes_to(run, RunStatus.WAITING_INPUT)
        assert len(asked.outlet.questions) == number + 1
        await asked.choose(alice, question.id, "skip")
    await asyncio.wait(work, timeout=10)
    told = [str(task.exception() or task.result()) for task in work]

    assert len(asked.outlet.questions) == 3
    assert sum("skipped the question" in text for text in told) == 3
    assert sum("You have asked 3 questions, and a run may ask 3." in text for text in told) == 17
