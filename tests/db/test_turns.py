"""A conversation answers one message at a time, in order, and no turn is forgotten."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text

from bot.agent.journal import columns, usage_of
from bot.agent.messages import Usage
from bot.values import Identity, Place
from db import conversations, turns, work
from db.database import Database, DatabaseSettings
from db.tables import conversations as table
from db.tables import turns as turn_table
from db.turns import Turn
from tests.fakes.clock import FakeClock
from tests.fakes.patience import eventually
from tests.fakes.stored import Stored, room

#: How many transactions wait for a lock.
WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
    "AND datname = current_database()"
)


async def end(database: Database, turn: Turn, clock: FakeClock, status: str = "done") -> bool:
    async with database.transaction() as tx:
        return await turns.end(tx, turn, status=status, now=clock())


async def read(database: Database, turn_id: str) -> Turn:
    async with database.snapshot() as tx:
        turn = await turns.get(tx, turn_id)
    assert turn is not None
    return turn


async def test_a_turn_comes_back_as_it_was_stored(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)

    turn = await read(database, await stored.turn(alice, conversation))

    assert (turn.user, turn.user_name, turn.place) == (alice, alice.account, room(alice))
    assert (turn.status, turn.kind, turn.attempt, turn.crashes) == ("queued", "message", 0, 0)
    assert turn.created_at == clock()
    async with database.snapshot() as tx:
        assert await conversations.text_of(tx, turn.message_id) == "Hello"
        assert await turns.get(tx, "nobody's") is None


async def test_turns_of_a_conversation_are_answered_one_at_a_time_in_order(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    conversation = await stored.conversation(alice)
    other = await stored.turn(bob, await stored.conversation(bob))
    waiting = [await stored.turn(alice, conversation) for _ in range(3)]

    answered = []
    while turn_id := await stored.claim_turn(conversation):
        assert await stored.claim_turn(conversation) is None
        answered.append(turn_id)
        assert await end(database, await stored.begin_turn(turn_id), clock)

    assert answered == waiting
    assert (await read(database, other)).status == "queued"


async def test_two_processes_that_claim_at_once_begin_one_turn(
    database: Database, database_settings: DatabaseSettings, stored: Stored, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    first, _ = [await stored.turn(alice, conversation) for _ in range(2)]

    async with asyncio.timeout(20), Database.open(database_settings) as elsewhere:
        other = Stored(elsewhere, stored.now)
        async with asyncio.TaskGroup() as group:
            claims = [
                group.create_task(each.claim_turn(conversation)) for each in (stored, other) * 4
            ]

    assert sorted(filter(None, (claim.result() for claim in claims))) == [first]


async def test_a_message_that_arrives_while_a_turn_ends_is_begun_by_one_of_the_two(
    database: Database,
    database_settings: DatabaseSettings,
    stored: Stored,
    clock: FakeClock,
    alice: Identity,
) -> None:
    conversation = await stored.conversation(alice)
    await stored.turn(alice, conversation)
    busy = await stored.begin_turn(await stored.claim_turn(conversation) or "")

    async def answer(where: Database) -> str | None:
        assert await end(where, busy, clock)
        return await Stored(where, clock).claim_turn(conversation)

    async with (
        asyncio.timeout(20),
        Database.open(database_settings) as elsewhere,
        asyncio.TaskGroup() as group,
        database.transaction() as tx,
    ):
        message = await conversations.say(tx, conversation, role="user", text="And?", now=clock())
        arrived = await turns.add(
            tx,
            conversation,
            user=alice,
            place=room(alice),
            message_id=message,
            now=clock(),
        )
        begun = await turns.claim_next(tx, conversation, clock(), "w")
        # The first turn ends before the message is committed.
        ending = group.create_task(answer(elsewhere))
        await asyncio.wait([ending], timeout=0.2)

    assert [begun, ending.result()] == [None, arrived]


async def test_messages_that_arrive_at_once_are_all_answered(
    database: Database,
    database_settings: DatabaseSettings,
    stored: Stored,
    clock: FakeClock,
    alice: Identity,
) -> None:
    conversation = await stored.conversation(alice)

    async def arrive(where: Database) -> str | None:
        async with where.transaction() as tx:
            message = await conversations.say(tx, conversation, role="user", text="Hi", now=clock())
            place = room(alice)
            await turns.add(
                tx, conversation, user=alice, place=place, message_id=message, now=clock()
            )
            return await turns.claim_next(tx, conversation, clock(), "w")

    async with (
        asyncio.timeout(30),
        Database.open(database_settings) as elsewhere,
        asyncio.TaskGroup() as group,
    ):
        tasks = [group.create_task(arrive(each)) for each in (database, elsewhere) * 4]

    (begun,) = filter(None, (task.result() for task in tasks))
    answered = 0
    turn_id: str | None = begun
    while turn_id:
        answered += await end(database, await stored.begin_turn(turn_id), clock)
        turn_id = await stored.claim_turn(conversation)
    assert answered == 8


async def test_a_stale_attempt_cannot_end_a_turn_and_a_turn_ends_once(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    turn_id = await stored.turn(alice, conversation)
    await stored.claim_turn(conversation)
    stale, fresh = await stored.begin_turn(turn_id), await stored.begin_turn(turn_id)

    assert not await end(database, stale, clock)
    assert await stored.claim_turn(conversation) is None
    assert await end(database, fresh, clock)
    assert not await end(database, fresh, clock, "failed")

    assert (await read(database, turn_id)).status == "done"
    async with database.transaction() as tx:
        assert await turns.begin(tx, turn_id, worker_id="w", now=clock()) is None


async def test_a_late_end_does_not_free_a_conversation_that_answers_the_next_turn(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    first, second = [await stored.turn(alice, conversation) for _ in range(2)]
    await stored.claim_turn(conversation)
    over = await stored.begin_turn(first)
    await end(database, over, clock)
    await stored.claim_turn(conversation)

    assert not await end(database, over, clock)

    async with database.snapshot() as tx:
        active = await tx.scalar(select(table.c.active_turn_id))
    assert active == second


async def test_another_attempt_is_no_crash_by_itself_and_belongs_to_its_process(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    turn_id = await stored.turn(alice, conversation)
    await stored.claim_turn(conversation)
    first = await stored.begin_turn(turn_id)
    async with database.transaction() as tx:
        too_soon = await turns.begin(tx, turn_id, worker_id="w2", now=clock())
        await work.free(tx, ["w2"])
        refused = await turns.begin(tx, turn_id, worker_id="w2", now=clock(), first=True)
        second = await turns.begin(tx, turn_id, worker_id="w2", now=clock())
        worker = await tx.scalar(select(turn_table.c.worker_id))
        await turns.release(tx, turn_id, 2)
        left = await tx.scalar(select(turn_table.c.worker_id))

    assert too_soon is refused is None
    assert second is not None
    assert [(turn.attempt, turn.crashes) for turn in (first, second)] == [(1, 0), (2, 0)]
    assert (worker, left) == ("w2", "")


async def test_what_an_attempt_has_cost_is_stored_when_it_is_left_and_when_the_turn_ends(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    turn_id = await stored.turn(alice, conversation)
    await stored.claim_turn(conversation)
    await stored.begin_turn(turn_id)

    tokens = []
    for spent in (Usage(input=700, output=20, cost=90), None):
        async with database.transaction() as tx:
            await turns.release(tx, turn_id, 1, counts=columns(spent) if spent else None)
        tokens.append(usage_of(await read(database, turn_id)))
    begun = await stored.begin_turn(turn_id)
    async with database.transaction() as tx:
        spent = Usage(input=800, cache_read=100, output=30)
        await turns.end(tx, begun, status="failed", now=clock(), counts=columns(spent))
    ended = await read(database, turn_id)

    assert [(usage.total, usage.cost) for usage in tokens] == [(720, 90), (720, 90)]
    assert (ended.input_tokens, ended.cached_tokens, ended.output_tokens) == (900, 100, 30)
    # A call had no price.
    assert ended.cost is None


async def test_a_turn_that_comes_while_another_ends_is_begun_by_one_of_the_two(
    postgres_url: str, clock: FakeClock, alice: Identity
) -> None:
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        stored = Stored(database, clock)
        conversation = await stored.conversation(alice)
        first = await stored.turn(alice, conversation)
        await stored.claim_turn(conversation)
        ending = await stored.begin_turn(first)
        ended, woken, looked = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def come() -> str | None:
            await ended.wait()
            async with database.transaction() as tx:
                where: dict[str, Any] = {
                    "user": alice,
                    "place": room(alice),
                    "message_id": "m",
                    "now": clock(),
                }
                await turns.add(tx, conversation, **where)
                claimed = await turns.claim_next(tx, conversation, clock(), "w")
                looked.set()
                if claimed is None:
                    await woken.wait()
                return claimed

        async def end_first() -> str | None:
            async with database.transaction() as tx:
                await turns.end(tx, ending, status="done", now=clock())
                ended.set()

                async def tried() -> bool:
                    # Each in a transaction of its own: one sees the activity of its first look.
                    async with database.snapshot() as now:
                        return looked.is_set() or bool(await now.scalar(WAITING))

                # Whoever does not wait for this row sees the conversation busy now.
                await eventually(tried, "the other one waits or has looked")
            claimed = await stored.claim_turn(conversation)
            woken.set()
            return claimed

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            ends = group.create_task(end_first())
            comes = group.create_task(come())

        claimed = [each for each in (ends.result(), comes.result()) if each is not None]
        assert len(claimed) == 1


async def test_a_stop_reaches_a_turn_under_way_and_no_other(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    conversation = await stored.conversation(alice)
    running, queued = [await stored.turn(alice, conversation) for _ in range(2)]
    await stored.claim_turn(conversation)

    async with database.transaction() as tx:
        active = await turns.active_of(tx, alice.key, room(alice))
        assert active is not None
        assert active.id == running
        assert await turns.active_of(tx, bob.key, room(alice)) is None
        elsewhere = replace(room(alice), thread="another")
        assert await turns.active_of(tx, alice.key, elsewhere) is None
        around = await turns.active_of(tx, alice.key, replace(room(alice), thread=""))
        assert around is not None
        assert around.id == running
        assert await turns.request_stop(tx, running, clock())
        assert not await turns.request_stop(tx, queued, clock())
        assert await turns.stop_requested(tx, [running, queued]) == [running]

    assert await end(database, await stored.begin_turn(running), clock, "stopped")
    async with database.snapshot() as tx:
        assert await turns.stop_requested(tx, [running, queued]) == []
        assert await turns.active_of(tx, alice.key, room(alice)) is None


async def test_a_place_is_idle_once_its_last_turn_has_ended_and_for_as_long_as_asked(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    long_ago, conversation = clock(), await stored.conversation(alice)
    turn_id = await stored.turn(alice, conversation)
    await stored.claim_turn(conversation)
    await end(database, await stored.begin_turn(turn_id), clock)
    await stored.turn(bob, await stored.conversation(bob))
    ended = replace(room(alice), message="")

    async def idle(since: datetime) -> list[Place]:
        async with database.snapshot() as tx:
            return await turns.idle_places(tx, ended.platform, since=since)

    assert await idle(long_ago) == [ended]
    assert await idle(clock() + timedelta(seconds=1)) == []

    await stored.turn(alice, conversation)
    assert await idle(long_ago) == []


async def test_what_waits_and_what_is_under_way_can_be_found(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    busy, idle = await stored.conversation(alice), await stored.conversation(bob)
    running = await stored.turn(alice, busy)
    await stored.turn(alice, busy)
    await stored.claim_turn(busy)
    for _ in range(2):
        await stored.turn(bob, idle)

    async with database.transaction() as tx:
        assert await turns.waiting_conversations(tx) == [(idle, bob.platform)]
        assert await work.of_worker(tx, "w") == ({("turn", running)}, set())


async def test_a_stale_attempt_does_not_replace_the_reply_of_another(
    database: Database, stored: Stored, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    turn_id = await stored.turn(alice, conversation)
    await stored.claim_turn(conversation)
    stale, fresh = [await stored.begin_turn(turn_id) for _ in range(2)]

    for turn, reply in ((fresh, "fresh"), (stale, "stale")):
        await database.write(turns.keep_reply, turn, reply)

    assert (await read(database, turn_id)).reply_message_id == "fresh"


moves = st.lists(st.sampled_from(["arrive", "claim", "end", "stale", "crash"]), max_size=25)


@settings(max_examples=20)  # Each makes many transactions.
@given(order=moves)
async def test_whatever_happens_turns_are_answered_in_order_and_none_is_lost(
    database: Database, stored: Stored, clock: FakeClock, order: list[str]
) -> None:
    user = await stored.somebody()
    conversation = await stored.conversation(user)
    waiting: list[str] = []
    attempts: list[Turn] = []
    answered = 0

    for move in [*order, *["claim", "end"] * 25]:
        if move == "arrive":
            waiting.append(await stored.turn(user, conversation))
        elif move == "claim":
            claimed = await stored.claim_turn(conversation)
            assert claimed == (None if attempts or not waiting else waiting.pop(0))
            attempts += [await stored.begin_turn(claimed)] if claimed else []
        elif attempts and move == "crash":
            attempts.append(await stored.begin_turn(attempts[-1].id))
        elif attempts and move == "stale" and len(attempts) > 1:
            assert not await end(database, attempts[0], clock)
        elif attempts and move == "end":
            assert await end(database, attempts[-1], clock)
            attempts, answered = [], answered + 1

    assert not waiting
    assert answered == order.count("arrive")


async def test_users_of_a_conversation_take_turns(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    conversation = await stored.conversation(alice)
    await stored.person(bob)
    mine = [await stored.turn(alice, conversation) for _ in range(3)]
    theirs = [await stored.turn(bob, conversation) for _ in range(2)]

    answered = []
    while turn_id := await stored.claim_turn(conversation):
        answered.append(turn_id)
        clock.advance(1)
        assert await end(database, await stored.begin_turn(turn_id), clock)

    assert answered == [mine[0], theirs[0], mine[1], theirs[1], mine[2]]


async def test_a_delayed_turn_of_one_user_does_not_keep_another_user_waiting(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    conversation = await stored.conversation(alice)
    await stored.person(bob)
    delayed = await stored.turn(alice, conversation)
    await stored.turn(alice, conversation)
    other = await stored.turn(bob, conversation)
    async with database.transaction() as tx:
        await turns.hold(tx, delayed, clock() + timedelta(minutes=1))

    assert await stored.claim_turn(conversation) == other
    assert await end(database, await stored.begin_turn(other), clock)
    assert await stored.claim_turn(conversation) is None
    clock.advance(60)
    assert await stored.claim_turn(conversation) == delayed


async def test_a_message_joins_the_waiting_turn_of_its_own_user(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    conversation = await stored.conversation(alice)
    await stored.person(bob)
    waiting = await stored.turn(alice, conversation)
    later = replace(room(alice), message="m2")

    async with database.transaction() as tx:
        assert await turns.joinable(tx, conversation, bob) is None
        found = await turns.joinable(tx, conversation, alice)
        assert found is not None
        assert await turns.join(tx, found.id, "a later message", later)
    joined = await read(database, waiting)
    await stored.claim_turn(conversation)

    assert (joined.message_id, joined.place) == ("a later message", later)
    async with database.transaction() as tx:
        assert await turns.joinable(tx, conversation, alice) is None
        assert not await turns.join(tx, waiting, "too late", later)
