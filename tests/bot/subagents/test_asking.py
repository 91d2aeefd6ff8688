"""A yes lets one call be made once; a no stays a no, whatever is answered beside it."""

import asyncio
from dataclasses import replace

import pytest

from bot.agent.messages import ToolResult
from bot.agent.toolbox import Toolbox
from bot.errors import FencedError
from bot.subagents.asking import MOST_UNANSWERED
from bot.values import Identity, Place, RunStatus
from db import run_questions
from db.rows import place_columns
from db.runs import Run
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

    assert "The user said no: mail was not called" in told


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


async def test_the_owners_yes_for_the_whole_run_does_not_answer_the_question_to_a_role(
    asked: Asked, alice: Identity
) -> None:
    channel = Place("discord", "900", "800")
    run = await asked.run(alice, **place_columns(channel))
    asking = asked.asking(run, alice)
    await asked.put(asking, run, "1.0", status="yes", whole_run=True)
    box = asked.toolbox(asking, asked.mail(), mail="ask:lead")
    call = box.call(letter("1.1"), asked.context(run, alice, "1.1"))
    async with asked.going(call):
        question = await asked.outlet.asked()
        refused = await asked.choose(alice, question.id, "yes")

    assert "the role `lead`'s yes" in question.text
    assert "A rule gives this decision to the role `lead`" in refused.text
    assert asked.posted == []


async def test_the_owners_yes_before_a_restart_does_not_answer_what_a_role_decides_now(
    asked: Asked, alice: Identity
) -> None:
    channel = Place("discord", "900", "800")
    run = await asked.run(alice, **place_columns(channel))
    asking = asked.asking(run, alice)
    await asked.put(asking, run, "1.0", status="yes")
    box = asked.toolbox(asking, asked.mail(), mail="ask:lead")

    result = await box.call(letter("1.0"), asked.context(run, alice, "1.0"))

    assert result.failed
    assert "Call it again to ask again" in result.text
    assert asked.posted == []


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

    told = await asked.permit_call(asking, letter("9.9"), asked.context(run, alice))

    assert "mail was not called" in told


async def test_after_two_questions_that_nobody_answered_nobody_is_asked_any_more(
    asked: Asked, clock: FakeClock, alice: Identity
) -> None:
    run = await asked.run(alice)
    asking = asked.asking(run, alice)
    for number in range(MOST_UNANSWERED):
        await asked.put(asking, run, f"1.{number}")
    clock.advance(3600)
    await asked.answers.expire()

    told = await asked.permit(asking, run, alice, "1.5")

    assert told.startswith("mail was not called, and the user was not asked")
    assert f"left {MOST_UNANSWERED} questions unanswered" in told
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


# -- several calls of one step ---------------------------------------------------------------------


async def both(asked: Asked, box: Toolbox, run: Run, user: Identity) -> list[ToolResult]:
    """Make two calls of one step at once, as the agent does; return their results."""
    calls = [(letter(each), asked.context(run, user, each)) for each in ("1.0", "1.1")]
    await box.begin_step(
        [(call, context) for call, context in calls if not await box.may_have_begun(call, context)]
        if run.attempt > 1
        else calls
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(box.call(call, context)) for call, context in calls]
    return [task.result() for task in tasks]


@pytest.mark.parametrize(
    ("choice", "posted"), [("yes", ["1.0", "1.1"]), ("all", ["1.0", "1.1"]), ("no", [])]
)
async def test_all_calls_of_one_step_are_one_question(
    asked: Asked, alice: Identity, choice: str, posted: list[str]
) -> None:
    run = await asked.run(alice)
    asking = asked.asking(run, alice)
    box = asked.toolbox(asking, asked.mail())
    working = asked.tasks.start(both(asked, box, run, alice), name="both")
    question = await asked.outlet.asked()
    await asked.choose(alice, question.id, choice)
    async with asyncio.timeout(10):
        results = await working

    assert "may it make these 2 calls?" in question.text
    assert '- `mail(to="1.0")`' in question.text
    assert '- `mail(to="1.1")`' in question.text
    assert sorted(each["to"] for each in asked.posted) == posted
    assert [result.failed for result in results] == [not posted] * 2
    assert len(asked.outlet.questions) == 1
    async with asked.database.snapshot() as tx:
        assert await run_questions.permitted(tx, run.id, "mail") is (choice == "all")


async def test_one_question_that_nobody_answered_counts_once_for_all_its_calls(
    asked: Asked, clock: FakeClock, alice: Identity
) -> None:
    run = await asked.run(alice)
    box = asked.toolbox(asked.asking(run, alice), asked.mail())
    working = asked.tasks.start(both(asked, box, run, alice), name="both")
    await asked.is_shown((await asked.outlet.asked()).id)
    clock.advance(601)
    async with asyncio.timeout(10):
        results = await working

    assert all("did not answer within 10 minutes" in result.text for result in results)
    async with asked.database.snapshot() as tx:
        assert await run_questions.count(tx, run.id, status="expired") == 1


@pytest.mark.parametrize("answered", [False, True])
async def test_after_a_restart_the_one_question_stands_for_all_its_calls_still(
    asked: Asked, alice: Identity, *, answered: bool
) -> None:
    run = await asked.run(alice)
    first = asked.toolbox(asked.asking(run, alice), asked.mail())
    async with asked.going(both(asked, first, run, alice)):
        question = await asked.outlet.asked()
        await asked.is_shown(question.id)
    if answered:
        await asked.choose(alice, question.id, "yes")
    again = await asked.office.begin(run)
    box = asked.toolbox(asked.asking(again, alice), asked.mail())
    working = asked.tasks.start(both(asked, box, again, alice), name="again")
    if not answered:
        await asked.outlet.asked(2)
        await asked.choose(alice, question.id, "yes")
    async with asyncio.timeout(10):
        results = await working

    assert [result.failed for result in results] == [False, False]
    assert sorted(each["to"] for each in asked.posted) == ["1.0", "1.1"]
    assert {each.id for each in asked.outlet.questions} == {question.id}
