"""What a run asks is answered once, in time, by whom it was asked, and closed with the run."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest

from bot.values import Identity, Place, new_sortable_id
from db import run_questions
from db.database import Database, Transaction
from db.run_questions import RunQuestion
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored, room


async def asked(
    database: Database,
    stored: Stored,
    user: Identity,
    *,
    place: Place | None = None,
    shown: bool = True,
    **changes: object,
) -> RunQuestion:
    """Store a question of a run of this user, asked in their room unless a place is given."""
    run = await stored.run(user, status="waiting_approval")
    values: dict[str, object] = {
        "id": new_sortable_id(),
        "run_id": run.id,
        "user_id": user.key,
        "kind": "permit",
        "tool": "shell",
        "fingerprint": "f" * 64,
        "text": "May it? 🙂 'quoted'",
        "options": ("one", "two"),
        "expires_at": stored.now() + timedelta(minutes=10),
    }
    question = RunQuestion(**(values | changes))  # type: ignore[arg-type]
    async with database.transaction() as tx:
        assert await run_questions.put(tx, question, place or room(user), stored.now())
        if shown:
            await run_questions.show(tx, question.id, question.message_id, stored.now())
    return question


async def read(database: Database, question: RunQuestion) -> RunQuestion:
    async with database.snapshot() as tx:
        found = await run_questions.get(tx, question.id)
    assert found is not None
    return found


async def found_in(
    tx: Transaction, user_id: str, place: Place, now: datetime, *, reply_to: str = ""
) -> list[RunQuestion]:
    found, _ = await run_questions.open_in(tx, user_id, place, now, reply_to=reply_to)
    return found


async def test_a_question_comes_back_as_it_was_asked_and_is_stored_once(
    database: Database, stored: Stored, alice: Identity
) -> None:
    question = await asked(database, stored, alice)
    async with database.transaction() as tx:
        again = await run_questions.put(tx, question, room(alice), stored.now())
        missing = await run_questions.get(tx, "nobody's")

    assert (again, missing) == (False, None)
    assert await read(database, question) == question


async def test_it_is_answered_once(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    question = await asked(database, stored, alice)
    async with database.transaction() as tx:
        answer = partial(run_questions.answer, tx, question.id, by=alice.key, now=clock())
        first = await answer(status="yes", whole_run=True)
        second = await answer(status="no")

    assert (first, second) == (True, False)
    answered = {"status": "yes", "whole_run": True, "answered_by": alice.key}
    assert await read(database, question) == replace(question, **answered)  # type: ignore[arg-type]


async def test_an_answer_after_the_time_is_none_and_the_question_is_closed(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    question = await asked(database, stored, alice)
    clock.advance(601)
    async with database.transaction() as tx:
        late = await run_questions.answer(tx, question.id, status="yes", by=alice.key, now=clock())
        waiting = await found_in(tx, alice.key, room(alice), clock())
        over = await run_questions.expire(tx, clock())
        again = await run_questions.expire(tx, clock())

    assert (late, waiting, again) == (False, [], [])
    assert question.run_id in over
    assert (await read(database, question)).status == "expired"


async def test_only_the_user_in_the_place_where_it_was_asked_is_waited_for(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    older = await asked(database, stored, alice)
    clock.advance(1)
    newer = await asked(database, stored, alice, kind="input")
    elsewhere = replace(room(alice), thread="another")
    async with database.snapshot() as tx:
        here = await found_in(tx, alice.key, room(alice), clock())
        others = await found_in(tx, bob.key, room(alice), clock())
        there = await found_in(tx, alice.key, elsewhere, clock())

    assert [each.id for each in here] == [newer.id, older.id]
    assert (others, there) == ([], [])


async def test_what_was_asked_in_a_channel_is_answered_at_its_top_or_below_the_question(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    channel = replace(room(alice), thread="", message="")
    question = await asked(database, stored, alice, place=channel)
    async with database.transaction() as tx:
        await run_questions.show(tx, question.id, "question's", stored.now())
        found = {
            where: await found_in(tx, alice.key, place, clock())
            for where, place in {
                "at the top": replace(channel, thread="9", message="9"),
                "below it": replace(channel, thread="question's", message="9"),
                "in another thread": replace(channel, thread="8", message="9"),
                "in another channel": replace(channel, channel="other", thread="question's"),
            }.items()
        }

    assert [where for where, questions in found.items() if questions] == ["at the top", "below it"]


async def test_a_reply_is_to_the_one_question_whose_message_it_answers(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    first, second = [await asked(database, stored, alice) for _ in range(2)]
    async with database.transaction() as tx:
        await run_questions.show(tx, first.id, "first's", stored.now())
        await run_questions.show(tx, second.id, "second's", stored.now())
        here = (tx, alice.key, room(alice), clock())
        to_first = await found_in(*here, reply_to="first's")
        to_another = await found_in(*here, reply_to="another's")

    assert [each.id for each in to_first] == [first.id]
    assert to_another == []


async def test_a_permitted_call_begins_once(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    question = await asked(database, stored, alice)
    async with database.transaction() as tx:
        before = await run_questions.use(tx, question.id, clock())
        await run_questions.answer(tx, question.id, status="yes", by=alice.key, now=clock())
        first = await run_questions.use(tx, question.id, clock())
        second = await run_questions.use(tx, question.id, clock())

    assert (before, first, second) == (False, True, False)
    assert (await read(database, question)).used_at == clock()


@pytest.mark.parametrize(
    ("status", "whole_run", "permitted"), [("yes", True, True), ("yes", False, False)]
)
async def test_a_yes_for_the_whole_run_counts_for_this_tool_of_this_run(
    database: Database,
    stored: Stored,
    clock: FakeClock,
    alice: Identity,
    status: str,
    whole_run: bool,
    permitted: bool,
) -> None:
    question = await asked(database, stored, alice)
    other = await asked(database, stored, alice)
    async with database.transaction() as tx:
        await run_questions.answer(
            tx, question.id, status=status, by="x", now=clock(), whole_run=whole_run
        )
        found = [
            await run_questions.permitted(tx, run_id, tool)
            for run_id, tool in (
                (question.run_id, "shell"),
                (question.run_id, "file_write"),
                (other.run_id, "shell"),
            )
        ]

    assert found == [permitted, False, False]


async def test_what_a_run_asked_is_counted_and_withdrawn_when_it_ends(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    question = await asked(database, stored, alice, kind="input")
    async with database.transaction() as tx:
        texts = await run_questions.open_of_many(tx, [question.run_id])
        waits = await run_questions.open_of(tx, question.run_id, "input")
        await run_questions.withdraw(tx, question.run_id, clock())
        count = await run_questions.count(tx, question.run_id, "input")
        nothing = await run_questions.open_of_many(tx, [])
        after = await run_questions.open_of(tx, question.run_id, "input")

    assert texts == {question.run_id: question.text}
    assert [each.id for each in waits] == [question.id]
    assert (count, nothing, after) == (1, {}, [])
    assert (await read(database, question)).status == "withdrawn"


@pytest.mark.parametrize(
    ("text", "meant"),
    [("1", "one"), ("2.", "two"), ("3", "3"), ("0", "0"), ("x", "x"), ("9" * 99, "9" * 99)],
)
async def test_a_number_stands_for_an_option(
    database: Database, stored: Stored, alice: Identity, text: str, meant: str
) -> None:
    assert (await asked(database, stored, alice)).meant_by(text) == meant


async def test_what_nobody_could_read_yet_is_answered_by_nothing_that_is_said(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    question = await asked(database, stored, alice, shown=False)
    async with database.transaction() as tx:
        before, coming = await run_questions.open_in(tx, alice.key, room(alice), clock())
        await run_questions.show(tx, question.id, "m1", clock())
        after, still_coming = await run_questions.open_in(tx, alice.key, room(alice), clock())

    assert before == []
    assert (coming, still_coming) == (True, False)
    assert [each.message_id for each in after] == ["m1"]
