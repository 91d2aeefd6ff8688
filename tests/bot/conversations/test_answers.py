"""Messages of users that answer a question of a run or of the main agent, and those that do not."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import select

from bot.conversations.answers import SHOWN_SECONDS
from bot.conversations.deciding import GONE_REPLY
from bot.subagents.settling import settlement_of
from bot.values import Identity, Role, RunStatus
from db import run_questions, standing_grants
from db.run_questions import RunQuestion
from db.tables import audit
from tests.fakes.asking import Asked
from tests.fakes.clock import FakeClock
from tests.fakes.office import caller


async def wondering(asked: Asked, user: Identity, *, shown: bool = True) -> RunQuestion:
    """Return what a run of this user wants to know."""
    run = await asked.run(user, status="waiting_input")
    return await asked.wonder(asked.asking(run, user), run, shown=shown)


@pytest.mark.parametrize("text", ["yes", "all", "no"])
async def test_a_question_that_is_not_shown_yet_is_not_answered_by_a_word(
    asked: Asked, alice: Identity, text: str
) -> None:
    run = await asked.run(alice)
    asked.outlet.absent.add(alice)
    async with asked.going(asked.permit(asked.asking(run, alice), run, alice)):
        await asked.comes_to(run, RunStatus.WAITING_APPROVAL)
        unseen = await asked.say(alice, text)
        asked.outlet.absent.clear()
        question = await asked.outlet.asked()
        await asked.is_shown(question.id)
        seen = await asked.say(alice, text)

    assert unseen is None
    assert seen is not None
    assert seen.answered == question.id


async def test_what_is_said_before_a_question_is_shown_is_no_answer_to_it(
    asked: Asked, alice: Identity
) -> None:
    question = await wondering(asked, alice, shown=False)

    assert await asked.say(alice, "Good morning") is None
    assert (await asked.question(question.id)).is_open


async def test_who_answers_before_we_are_told_that_the_question_stands_there_is_heard(
    asked: Asked, alice: Identity
) -> None:
    question = await wondering(asked, alice, shown=False)

    async def told() -> None:
        async with asked.database.transaction() as tx:
            await run_questions.show(tx, question.id, "m1", asked.clock())

    soon = partial(asked.tasks.start, told(), name="the platform's word")
    asyncio.get_running_loop().call_later(SHOWN_SECONDS, soon)
    await asked.say(alice, "Plum")

    assert (await asked.question(question.id)).answer == "Plum"


async def test_a_reply_to_another_message_answers_nothing(asked: Asked, alice: Identity) -> None:
    question = await wondering(asked, alice)

    other = await asked.say(alice, "My PIN is 1234", reply_to="other")
    same = await asked.say(alice, "Plum", reply_to="m1.0")

    assert other is None
    assert same is not None
    assert (await asked.question(question.id)).answer == "Plum"


async def test_a_yes_to_two_open_questions_is_answered_with_the_choice_between_them(
    asked: Asked, alice: Identity
) -> None:
    questions = []
    for call_id in ("1.0", "1.1"):
        run = await asked.run(alice, status="waiting_approval")
        questions.append(await asked.put(asked.asking(run, alice), run, call_id))

    reply = await asked.say(alice, "yes")
    meant = await asked.say(alice, f"yes {questions[1].id[-6:]}")

    assert reply is not None
    assert reply.text.startswith("Which one do you mean?")
    assert all(f"`yes {each.id[-6:]}`" in reply.text for each in questions)
    assert meant is not None
    assert meant.answered == questions[1].id
    assert (await asked.question(questions[0].id)).is_open


async def test_always_for_a_run_answers_its_rule_until_a_date(
    asked: Asked, clock: FakeClock, alice: Identity
) -> None:
    run = await asked.run(alice, status="waiting_approval")
    question = await asked.put(asked.asking(run, alice), run, "1.0", rule="mail:*: ask")

    await asked.choose(alice, question.id, "always")

    async with asked.database.snapshot() as tx:
        (given,) = await standing_grants.of_user(tx, alice.key, clock())
    assert (given.rule, given.expires_at) == ("mail:*: ask", clock() + timedelta(days=30))


async def test_with_two_runs_wondering_talk_is_for_the_main_agent(
    asked: Asked, alice: Identity
) -> None:
    for _ in range(2):
        await wondering(asked, alice)

    assert await asked.say(alice, "What time is it?") is None


async def test_an_answer_that_the_main_agent_passes_on_is_not_told_as_the_users(
    asked: Asked, alice: Identity
) -> None:
    passed_on, typed = await wondering(asked, alice), await wondering(asked, alice)
    send = asked.office.manager.send
    await send(passed_on.run_id, "Delete all", caller(alice, call_key=("turn", "1.0")))
    await send(typed.run_id, "Delete all", caller(alice))

    by_model, by_person = await asked.question(passed_on.id), await asked.question(typed.id)

    assert by_model.answer == by_person.answer == "Delete all"
    assert by_model.answered_by != alice.key == by_person.answered_by
    assert settlement_of(by_model, None).by is None


async def test_the_main_agents_answer_permits_nothing(asked: Asked, alice: Identity) -> None:
    run = await asked.run(alice, status="waiting_approval")
    question = await asked.put(asked.asking(run, alice), run, "1.0")

    await asked.office.manager.send(run.id, "yes", caller(alice, call_key=("turn", "1.0")))

    assert (await asked.question(question.id)).is_open


async def test_an_answer_stirs_the_run_that_waits_for_it_and_so_does_the_end_of_its_time(
    asked: Asked, clock: FakeClock, alice: Identity
) -> None:
    answered, late = await wondering(asked, alice), await wondering(asked, alice)
    await asked.choose(alice, answered.id, "skip")
    clock.advance(3600)
    await asked.answers.expire()
    reply = await asked.choose(alice, late.id, "skip")

    assert asked.stirred == [answered.run_id, late.run_id]
    assert reply.refused


async def test_a_question_is_answered_by_its_owner_or_an_admin_and_by_nobody_else(
    asked: Asked, alice: Identity, bob: Identity
) -> None:
    question, other = await wondering(asked, alice), await wondering(asked, alice)
    answer = asked.answers.answer

    stranger = await answer(caller(bob), question.id, choice="skip")
    unanswered = await asked.question(question.id)
    admin = await answer(caller(bob, role=Role.OPERATOR), question.id, choice="skip")
    owner = await answer(caller(alice), other.id, choice="skip")

    assert stranger == await answer(caller(bob), "0" * 32, choice="skip") == GONE_REPLY
    assert unanswered.is_open
    assert GONE_REPLY not in (admin, owner)
    async with asked.database.snapshot() as tx:
        rows = await tx.execute(select(audit))
        noted = {(row.user_id, row.action, row.owner_id, row.subject) for row in rows}
    assert noted == {
        (bob.key, "answer", alice.key, question.run_id),
        (alice.key, "answer", alice.key, other.run_id),
    }
