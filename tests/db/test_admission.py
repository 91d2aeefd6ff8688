"""Runs are counted, numbered and let in fairly, inside one transaction."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from bot.values import HOLDING_A_SLOT, Identity, RunStatus, RunUsage, SlotCaps, new_run_id
from db import admission, runs
from db.database import Database, DatabaseSettings
from db.runs import NewRun, Run
from db.tables import subagent_runs
from tests.fakes.clock import FakeClock
from tests.fakes.forgetting import forget
from tests.fakes.stored import Stored, room


def new(user: Identity) -> NewRun:
    return NewRun(
        id=new_run_id(),
        user_id=user.key,
        place=room(user),
        conversation_id="",
        parent_message_id="",
        label="",
        agent="general",
        task="Count sheep",
        context="",
        instructions="",
        mode="async",
        depth=1,
        announce="result",
        model=None,
        provider=None,
        token_budget=1000,
        max_steps=5,
        timeout_ms=1000,
        metadata={},
        allowed_tools=None,
        blocked_tools=(),
    )


async def put(database: Database, user: Identity, clock: FakeClock, status: str = "queued") -> Run:
    clock.advance(1)
    async with database.admission() as tx:
        return await admission.insert_run(tx, new(user), RunStatus(status), clock())


async def promote(
    database: Database, clock: FakeClock, *, per_user: int = 3, everyone: int = 10
) -> list[Run]:
    clock.advance(1)
    async with database.admission() as tx:
        return await admission.promote(tx, SlotCaps(per_user=per_user, everyone=everyone), clock())


async def test_what_is_counted_is_what_the_tables_hold(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.run(alice, status="completed", completed_at=clock())
    window = clock()
    clock.advance(1)
    oldest = clock()
    for status in ("queued", "accepted", "running", "waiting_input", "waiting_approval", "failed"):
        await stored.run(alice, status=status)
    await stored.run(bob, status="running")
    await stored.run(bob, status="queued")

    async with database.admission() as tx:
        found = await admission.counts(tx, alice.key, window)
        nobody = await admission.counts(tx, "discord::404", window)
        delegated = await admission.counts(tx, alice.key, window, mode="sync")

    assert (delegated.started_in_window, delegated.running) == (0, 2)
    assert found == RunUsage(
        started_in_window=6,
        oldest_in_window=oldest,
        running=2,
        queued=1,
        running_global=3,
    )
    assert (nobody.started_in_window, nobody.oldest_in_window, nobody.running) == (0, None, 0)


async def test_numbers_go_up_per_user_and_none_is_given_twice(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.person(alice)
    await stored.person(bob)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(put(database, user, clock)) for user in (alice, bob) for _ in range(8)
        ]

    made = [task.result() for task in tasks]
    for user in (alice, bob):
        numbers = sorted(run.number for run in made if run.user_id == user.key)
        assert numbers == list(range(1, 9))


async def test_a_number_is_not_given_again_when_its_run_is_gone(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await stored.person(alice)
    first = await put(database, alice, clock)
    async with database.transaction() as tx:
        await runs.finish(tx, first.id, {"status": "failed"}, attempt=None, now=clock())
        assert await forget(tx, subagent_runs, clock() + timedelta(1)) == 1

    assert (await put(database, alice, clock)).number == 2


async def test_a_run_of_somebody_unknown_is_refused(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    with pytest.raises(IntegrityError):
        await put(database, alice, clock)


async def test_one_admission_waits_for_the_other(
    database: Database, database_settings: DatabaseSettings
) -> None:
    order: list[str] = []
    locked = asyncio.Event()

    async def second(elsewhere: Database) -> None:
        await locked.wait()
        async with elsewhere.admission():
            order.append("second")

    async with (
        asyncio.timeout(20),
        Database.open(database_settings) as elsewhere,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(second(elsewhere))
        async with database.admission() as tx:
            locked.set()
            # The second one has every chance to overtake.
            for _ in range(20):
                await admission.counts(tx, "discord::404", FakeClock()())
                await asyncio.sleep(0)
            order.append("first")

    assert order == ["first", "second"]


async def test_the_oldest_of_a_user_comes_first_and_people_take_turns(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.person(alice)
    await stored.person(bob)
    flood = [await put(database, alice, clock) for _ in range(6)]
    late = [await put(database, bob, clock) for _ in range(3)]

    together = await promote(database, clock, per_user=4, everyone=5)
    for run in together:
        async with database.transaction() as tx:
            await runs.finish(tx, run.id, {"status": "completed"}, attempt=None, now=clock())
    rest = await promote(database, clock, per_user=4, everyone=5)

    expected = [flood[0], late[0], flood[1], late[1], flood[2], late[2], *flood[3:]]
    assert [run.id for run in [*together, *rest]] == [run.id for run in expected]
    assert {run.status for run in together} == {RunStatus.ACCEPTED}


async def test_nobody_is_let_in_past_a_cap(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    for user in (alice, bob):
        await stored.run(user, number=98, status="running")
        await stored.run(user, number=99, status="waiting_approval")
        for _ in range(3):
            await put(database, user, clock)

    first = await promote(database, clock, per_user=2, everyone=3)
    again = await promote(database, clock, per_user=2, everyone=3)
    wider = await promote(database, clock, per_user=2, everyone=10)

    assert (len(first), again, len(wider)) == (1, [], 1)
    assert {run.user_id for run in [*first, *wider]} == {alice.key, bob.key}


async def test_a_place_in_the_queue_counts_the_users_own_runs_before_it(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.person(alice)
    await stored.person(bob)
    await put(database, bob, clock)
    queued = [await put(database, alice, clock) for _ in range(3)]
    await put(database, alice, clock, "accepted")

    async with database.transaction() as tx:
        positions = [await admission.queue_position(tx, run) for run in queued]
        await runs.finish(tx, queued[0].id, {"status": "cancelled"}, attempt=None, now=clock())
        after = await admission.queue_position(tx, queued[2])

    assert (positions, after) == ([1, 2, 3], 2)


async def test_a_role_lowers_the_cap_at_which_its_members_wait(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.person(alice)
    await stored.person(bob)
    first_run = await put(database, alice, clock, "running")
    limited = await put(database, alice, clock)
    async with database.transaction() as tx:
        await runs.add_metadata(tx, limited, {admission.MOST_RUNNING: 1})
    free = await put(database, bob, clock)

    first = await promote(database, clock, per_user=3, everyone=9)
    async with database.transaction() as tx:
        await runs.finish(tx, first_run.id, {"status": "completed"}, attempt=None, now=clock())
    later = await promote(database, clock, per_user=3, everyone=9)

    assert [run.id for run in first] == [free.id]
    assert [run.id for run in later] == [limited.id]


@settings(max_examples=20)  # Each makes many transactions.
@given(
    arrivals=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    ends=st.lists(st.integers(0, 5), max_size=12),
)
async def test_whoever_waits_gets_in_after_at_most_one_run_of_each_other_user(
    database: Database, stored: Stored, clock: FakeClock, arrivals: list[int], ends: list[int]
) -> None:
    async with database.transaction() as tx:
        await tx.execute(update(subagent_runs).values(status="failed", completed_at=clock()))
    people = [await stored.somebody() for _ in range(3)]
    waiting: dict[str, list[str]] = {user.key: [] for user in people}
    for index in arrivals:
        run = await put(database, people[index], clock)
        waiting[run.user_id].append(run.id)
    passed_over = dict.fromkeys(waiting, 0)

    for end in [*ends, *[0] * len(arrivals)]:
        for run in await promote(database, clock, per_user=2, everyone=2):
            assert run.id == waiting[run.user_id].pop(0)
            passed_over = {
                key: passed_over[key] + 1 if queue and key != run.user_id else 0
                for key, queue in waiting.items()
            }
            # Two slots of one's own can be full while the others go on.
            assert max(passed_over.values()) <= len(people) + 1
        await finish_one(database, clock, end)

    assert not any(waiting.values())


async def finish_one(database: Database, clock: FakeClock, index: int) -> None:
    async with database.transaction() as tx:
        going = [run for run in await runs.active(tx, None) if run.status in HOLDING_A_SLOT]
        if going:
            over = going[index % len(going)]
            await runs.finish(tx, over.id, {"status": "completed"}, attempt=None, now=clock())


async def test_a_run_whose_user_has_answered_gets_the_next_slot_before_those_that_queue(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.person(alice)
    await put(database, alice, clock)
    late = await stored.run(bob, status="waiting_input", ready_at=clock())
    early = await stored.run(bob, status="waiting_approval", ready_at=clock() - timedelta(1))
    silent = await stored.run(bob, status="waiting_approval")

    none = await promote(database, clock, per_user=2, everyone=0)
    first = await promote(database, clock, per_user=2, everyone=1)
    rest = await promote(database, clock, per_user=2, everyone=10)

    assert none == []
    assert [(run.id, run.status) for run in first] == [(early.id, RunStatus.RUNNING)]
    assert [run.status for run in rest] == [RunStatus.RUNNING, RunStatus.ACCEPTED]
    assert rest[0].id == late.id
    assert (await stored.read_run(silent.id)).status is RunStatus.WAITING_APPROVAL


async def test_coming_back_keeps_to_the_cap_of_the_user(
    database: Database, stored: Stored, clock: FakeClock, bob: Identity
) -> None:
    for _ in range(3):
        await stored.run(bob, status="waiting_input", ready_at=clock())

    assert len(await promote(database, clock, per_user=2, everyone=10)) == 2
    assert await promote(database, clock, per_user=2, everyone=10) == []
