"""Nothing begins in the scope of a committed pause, whatever runs at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from bot.values import PERSONAL, Identity, Place, RunStatus, SlotCaps
from db import admission, pauses, turn_inbox, turns
from db.database import Database, Transaction
from db.pauses import EVERYWHERE, Pause
from db.tables import pauses as table
from db.tables import subagent_runs
from db.tables import turns as turns_table
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored, room

#: Begins something of a user in a conversation, in a transaction.
Beginning = Callable[[Transaction, str, Identity, datetime], Awaitable[None]]
CAPS = SlotCaps(per_user=1_000, everyone=1_000)


def all_work(clock: FakeClock) -> Pause:
    return Pause(paused_by="discord::1", created_at=clock())


async def put(database: Database, pause: Pause) -> None:
    await database.write(pauses.put, pause)


HERE = Place("discord", "9", "8", "7", "6")


@pytest.mark.parametrize(
    ("user", "place", "covered"),
    [
        ("", EVERYWHERE, True),
        ("alice", EVERYWHERE, True),
        ("bob", EVERYWHERE, False),
        ("", Place("discord", "9"), True),
        ("", Place("discord", "8"), False),
        ("", Place("slack", "9"), False),
        ("", Place("discord", "9", "8"), True),
        ("", Place("discord", "9", "5"), False),
        ("alice", Place("discord", "9"), True),
        ("alice", Place("discord", "1"), False),
    ],
)
def test_a_pause_covers_its_users_and_places(
    clock: FakeClock, user: str, place: Place, covered: bool
) -> None:
    pause = replace(all_work(clock), user_id=user, place=place)

    assert pause.covers("alice", HERE) is covered


def test_a_pause_covers_a_workspace_by_each_name_of_it(clock: FakeClock) -> None:
    covered = {
        name: replace(all_work(clock), place=Place("slack", name)).covers(
            "alice", Place("slack", "E1.T1", "C1")
        )
        for name in ("E1.T1", "T1", "E1", "T2", "E1.T2")
    }

    assert [name for name, covers in covered.items() if covers] == ["E1.T1", "T1", "E1"]


async def test_a_pause_is_stored_until_it_is_lifted(database: Database, clock: FakeClock) -> None:
    pause = replace(all_work(clock), place=Place("discord", "9"), killed=True)

    await put(database, pause)
    await put(database, replace(pause, user_id="alice"))
    found = await database.read(pauses.listed)
    lifted = [await database.write(pauses.lift, pause.id) for _ in range(2)]

    assert sorted(found, key=lambda each: each.user_id) == [pause, replace(pause, user_id="alice")]
    assert lifted == [True, False]
    assert [each.user_id for each in await database.read(pauses.listed)] == ["alice"]


async def test_an_admin_does_not_replace_the_pause_of_an_operator(
    database: Database, clock: FakeClock
) -> None:
    pause = replace(all_work(clock), place=Place("discord", "9"), by_operator=True)

    await put(database, pause)
    await put(database, replace(pause, by_operator=False, paused_by="discord::2"))

    assert await database.read(pauses.listed) == [pause]


async def test_only_the_turns_of_a_paused_user_wait(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    conversation = await stored.conversation(alice)
    await stored.person(bob)
    await stored.turn(alice, conversation)
    other = await stored.turn(bob, conversation)

    await put(database, replace(all_work(clock), user_id=alice.key))

    assert await stored.claim_turn(conversation) == other


async def test_only_the_runs_of_a_paused_user_wait(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.run(alice, status="queued")
    other = await stored.run(bob, status="queued")
    await put(database, replace(all_work(clock), user_id=alice.key))

    async with database.admission() as tx:
        promoted = await admission.promote(tx, CAPS, clock())

    assert [run.id for run in promoted] == [other.id]


async def test_a_run_that_has_begun_continues_after_the_answer_of_its_user(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = await stored.run(alice, status="waiting_input", ready_at=clock())
    await put(database, all_work(clock))

    async with database.admission() as tx:
        [promoted] = await admission.promote(tx, CAPS, clock())

    assert (promoted.id, promoted.status) == (run.id, RunStatus.RUNNING)


async def claim_a_turn(tx: Transaction, conversation: str, alice: Identity, now: datetime) -> None:
    assert await turns.claim_next(tx, conversation, now, "w")


async def begin_with_a_message(tx: Transaction, _: str, alice: Identity, now: datetime) -> None:
    known = await turn_inbox.read(tx, alice, room(alice), now, PERSONAL)
    assert known is not None
    assert not known.paused


@pytest.mark.parametrize("begin", [claim_a_turn, begin_with_a_message])
async def test_a_pause_is_committed_after_what_did_not_see_it(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, begin: Beginning
) -> None:
    conversation = await stored.conversation(alice)
    await stored.turn(alice, conversation)
    async with database.transaction() as tx:
        await begin(tx, conversation, alice, clock())
        pausing = asyncio.ensure_future(put(database, all_work(clock)))
        await asyncio.wait({pausing}, timeout=0.2)
        before = pausing.done()
    await pausing

    assert not before


async def begun(database: Database) -> set[str]:
    """Return the ids of all turns and runs that have begun."""
    async with database.snapshot() as tx:
        running = await tx.scalars(select(turns_table.c.id).where(turns_table.c.status != "queued"))
        runs = await tx.scalars(
            select(subagent_runs.c.id).where(subagent_runs.c.status != "queued")
        )
        return {*running, *map(str, runs)}


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(order=st.permutations(range(12)), at=st.integers(0, 12))
async def test_nothing_begins_after_a_committed_pause(
    database: Database, stored: Stored, clock: FakeClock, order: list[int], at: int
) -> None:
    async with database.transaction() as tx:
        await tx.execute(delete(table))
    works = []
    for number in range(12):
        user = await stored.somebody()
        if number % 2:
            await stored.run(user, status="queued")
        else:
            conversation = await stored.conversation(user)
            await stored.turn(user, conversation)
            works.append(conversation)

    async def claim(number: int) -> None:
        if number % 2:
            async with database.admission() as tx:
                await admission.promote(tx, CAPS, clock())
        else:
            await stored.claim_turn(works[number // 2])

    async def pause() -> set[str]:
        await put(database, all_work(clock))
        return await begun(database)

    async with asyncio.TaskGroup() as group:
        for position, number in enumerate(order):
            if position == at:
                pausing = group.create_task(pause())
            group.create_task(claim(number))
        if at == len(order):
            pausing = group.create_task(pause())
    for number in order:
        await claim(number)

    assert await begun(database) == pausing.result()
