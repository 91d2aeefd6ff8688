"""A question is answered once, in time, and shown to the user whom it was asked of."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import select

from bot.values import Identity, new_sortable_id
from db import approvals
from db.approvals import Approval
from db.database import Database, DatabaseSettings
from db.tables import approvals as table
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored, room

TEN_MINUTES = timedelta(minutes=10)


async def ask(
    database: Database, stored: Stored, user: Identity, thread: str = "thread"
) -> Approval:
    await stored.person(user)
    approval = Approval(
        id=new_sortable_id(),
        user_id=user.key,
        run_id=None,
        tool="sessions_stop",
        arguments={"run_id": "abc", "why": "🙂 'quoted'"},
        fingerprint="f" * 64,
        context={"place": ["discord"], "conversation_id": "c1"},
        status="open",
        expires_at=stored.now() + TEN_MINUTES,
    )
    place = replace(room(user), thread=thread)
    async with database.transaction() as tx:
        await approvals.put(tx, approval, place=place, conversation_id="c1", now=stored.now())
        await approvals.show(tx, approval.id, stored.now())
    return approval


async def answer(
    database: Database, approval: Approval, clock: FakeClock, status: str = "approved"
) -> bool:
    async with database.transaction() as tx:
        return await approvals.answer(tx, approval.id, status=status, by="somebody", now=clock())


async def test_a_question_comes_back_as_it_was_asked(
    database: Database, stored: Stored, alice: Identity
) -> None:
    approval = await ask(database, stored, alice)

    async with database.snapshot() as tx:
        assert await approvals.get(tx, approval.id) == approval
        assert await approvals.get(tx, "nobody's") is None


async def test_a_question_is_answered_once(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    approval, other = [await ask(database, stored, alice) for _ in range(2)]

    answers = [
        await answer(database, approval, clock, status)
        for status in ("denied", "approved", "denied")
    ]

    assert answers == [True, False, False]
    async with database.snapshot() as tx:
        assert await approvals.get(tx, approval.id) == replace(approval, status="denied")
        assert await approvals.get(tx, other.id) == other
        query = select(table.c.answered_by, table.c.answered_at).where(table.c.id == approval.id)
        assert (await tx.execute(query)).one() == ("somebody", clock())


async def test_of_two_answers_at_once_one_counts(
    database: Database,
    database_settings: DatabaseSettings,
    stored: Stored,
    clock: FakeClock,
    alice: Identity,
) -> None:
    approval = await ask(database, stored, alice)

    async with (
        asyncio.timeout(20),
        Database.open(database_settings) as elsewhere,
        asyncio.TaskGroup() as group,
    ):
        tasks = [
            group.create_task(answer(where, approval, clock, status))
            for where, status in ((database, "approved"), (elsewhere, "denied")) * 3
        ]

    assert sum(task.result() for task in tasks) == 1


async def test_an_answer_that_comes_too_late_counts_for_nothing(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    late = await ask(database, stored, alice)
    clock.advance(1)
    in_time = await ask(database, stored, alice)
    clock.advance(TEN_MINUTES.total_seconds() - 1)

    assert not await answer(database, late, clock)
    assert await answer(database, in_time, clock)


async def test_questions_expire_when_their_time_is_over_unless_they_were_answered(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    answered, expired = [await ask(database, stored, alice) for _ in range(2)]
    await answer(database, answered, clock)
    clock.advance(1)
    young = await ask(database, stored, alice)
    clock.advance(TEN_MINUTES.total_seconds() - 1)

    async with database.transaction() as tx:
        closed = await approvals.expire(tx, clock())
        again = await approvals.expire(tx, clock())
        statuses = [
            found.status
            for each in (answered, expired, young)
            if (found := await approvals.get(tx, each.id))
        ]

    assert ([each.id for each in closed], again) == ([expired.id], [])
    assert statuses == ["approved", "expired", "open"]
    assert not await answer(database, expired, clock)


async def test_a_word_answers_only_what_this_user_was_asked_in_this_place(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    first = await ask(database, stored, alice)
    clock.advance(1)
    second = await ask(database, stored, alice)
    await ask(database, stored, alice, thread="elsewhere")
    await ask(database, stored, bob)
    in_the_same_room = replace(alice, account="somebody else")
    await ask(database, stored, in_the_same_room)

    async with database.snapshot() as tx:
        waiting = await approvals.open_for(tx, alice.key, room(alice), clock())
        soon = clock() + TEN_MINUTES - timedelta(seconds=1)
        later = await approvals.open_for(tx, alice.key, room(alice), soon)
        nobody = await approvals.open_for(tx, alice.key, room(alice), soon + timedelta(1))

    assert waiting == [second, first]
    assert later == [second]
    assert nobody == []


async def test_an_answered_question_waits_no_more(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    approval = await ask(database, stored, alice)
    await answer(database, approval, clock, "denied")

    async with database.snapshot() as tx:
        assert await approvals.open_for(tx, alice.key, room(alice), clock()) == []


async def test_an_approval_is_marked_as_done_once(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    approval = await ask(database, stored, alice)
    await answer(database, approval, clock)
    async with database.transaction() as tx:
        first = await approvals.done(tx, approval.id, clock())
        again = await approvals.done(tx, approval.id, clock())

    assert (first, again) == (True, False)
