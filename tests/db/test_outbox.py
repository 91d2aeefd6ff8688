"""What the outbox holds is said once; twice only when nobody knows, and then it is marked."""

import asyncio
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from bot.values import Identity
from db import conversations, deliveries, outbox, run_files
from db.database import Database, DatabaseSettings
from db.outbox import NewOutboxEntry, OutboxEntry
from db.tables import outbox as table
from tests.fakes.clock import FakeClock
from tests.fakes.forgetting import forget
from tests.fakes.stored import Stored, room

A_WHILE = timedelta(seconds=15)


async def claim(
    database: Database, key: str, clock: FakeClock, worker: str = "w1"
) -> OutboxEntry | None:
    async with database.transaction() as tx:
        found = await deliveries.claim(tx, [key], worker, clock())
    return next(iter(found.get(key, [])), None)


async def book(database: Database, key: str, clock: FakeClock) -> None:
    async with database.transaction() as tx:
        await outbox.delivered(tx, {key: ["m1", "m2"]}, clock())


async def fail(
    database: Database, item: OutboxEntry, clock: FakeClock, *, unknown: bool = False
) -> None:
    """Book a failed send as the deliverer does: what is unknown twice is given up."""
    async with database.transaction() as tx:
        if unknown and item.maybe_repeated:
            await outbox.block(tx, item, error="no answer, again")
        else:
            due = clock() + A_WHILE
            await outbox.retry(tx, item, due_at=due, error="no answer", maybe_repeated=unknown)


async def recover(database: Database, *alive: str) -> int:
    async with database.transaction() as tx:
        return await outbox.recover(tx, list(alive))


async def test_an_item_is_stored_once_under_its_key(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = await stored.run(alice)
    item = NewOutboxEntry(
        key=run.id, user_id=alice.key, place=room(alice), run_id=run.id, title="t", text="first"
    )
    again = NewOutboxEntry(
        key=run.id, user_id=alice.key, place=room(alice), run_id=run.id, title="t", text="second"
    )

    async with database.transaction() as tx:
        assert await outbox.put(tx, item, clock())
        assert not await outbox.put(tx, again, clock())

    kept = await stored.read_item(run.id)
    assert (kept.text, kept.user, kept.place) == ("first", alice, room(alice))
    assert (kept.status, kept.attempts, kept.maybe_repeated) == ("pending", 0, False)


async def test_two_workers_never_send_the_same_item_at_once(
    database: Database,
    database_settings: DatabaseSettings,
    stored: Stored,
    clock: FakeClock,
    alice: Identity,
) -> None:
    keys = [await stored.item(alice) for _ in range(5)]

    async with (
        asyncio.timeout(20),
        Database.open(database_settings) as elsewhere,
        asyncio.TaskGroup() as group,
    ):
        claims = [
            group.create_task(claim(where, key, clock, worker))
            for key in keys
            for where, worker in ((database, "w1"), (elsewhere, "w2"))
        ]

    taken = [item.key for task in claims if (item := task.result()) is not None]
    assert sorted(taken) == sorted(keys)


async def test_an_item_is_taken_when_it_is_due_and_not_before(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    key = await stored.item(alice)
    first = await claim(database, key, clock)
    assert first is not None
    await fail(database, first, clock)

    early = await claim(database, key, clock)
    clock.advance(A_WHILE.total_seconds())
    late = await claim(database, key, clock)

    assert early is None
    assert late is not None
    assert (late.attempts, late.first_tried_at) == (2, first.first_tried_at)


async def test_an_attempt_to_find_a_user_who_is_not_there_does_not_count(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    key, other = await stored.item(alice), await stored.item(bob, status="waiting")
    for _ in range(3):
        item = await claim(database, key, clock)
        assert item is not None
        assert item.attempts == 1
        async with database.transaction() as tx:
            await outbox.wait(tx, item)
        clock.advance(10_000)

    async with database.snapshot() as tx:
        assert await outbox.waiting_for(tx, alice.key) == [key]
        assert await outbox.due(tx, [alice.platform, bob.platform], clock()) == []
    waiting = await stored.read_item(key)
    assert (waiting.attempts, waiting.first_tried_at) == (0, None)
    assert (await stored.read_item(other)).status == "waiting"


async def test_only_what_is_due_on_the_platforms_at_hand_is_to_be_sent_oldest_first(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    first = await stored.item(alice)
    clock.advance(1)
    second, foreign = await stored.item(alice), await stored.item(bob)
    for status in ("held", "waiting", "blocked", "sending", "delivered", "dismissed"):
        await stored.item(alice, status=status)

    async with database.snapshot() as tx:
        assert await outbox.due(tx, [alice.platform], clock()) == [first, second]
        assert await outbox.due(tx, [alice.platform], clock(), limit=1) == [first]
        assert await outbox.due(tx, [bob.platform], clock()) == [foreign]
        assert await outbox.due(tx, [bob.platform], clock() - timedelta(1)) == []
        assert await outbox.due(tx, [], clock()) == []


async def test_what_a_dead_process_was_sending_is_sent_once_more_marked_and_then_given_up(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    key, other = await stored.item(alice), await stored.item(alice)
    await claim(database, key, clock, "dead")
    await claim(database, other, clock, "alive")

    assert await recover(database, "alive") == 1
    again = await claim(database, key, clock, "dead too")
    assert again is not None
    assert again.maybe_repeated
    assert await recover(database, "alive") == 0

    assert (await stored.read_item(key)).status == "blocked"
    assert (await stored.read_item(other)).status == "sending"


async def test_what_this_process_has_stopped_sending_is_found_and_what_it_sends_is_left_alone(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    stuck, sending = await stored.item(alice), await stored.item(alice)
    for key in (stuck, sending):
        await claim(database, key, clock, "me")

    async with database.transaction() as tx:
        assert await outbox.recover(tx, ["me"], me="me", under_way={sending}) == 1

    assert (await stored.read_item(stuck)).maybe_repeated
    assert (await stored.read_item(sending)).status == "sending"


async def test_a_process_that_was_taken_for_dead_cannot_let_an_item_be_sent_a_third_time(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    key = await stored.item(alice)
    stalled = await claim(database, key, clock, "stalled")
    await recover(database, "w2")
    second = await claim(database, key, clock, "w2")
    assert stalled is not None
    assert second is not None

    await fail(database, stalled, clock)
    clock.advance(60)
    third = await claim(database, key, clock, "w3")
    await book(database, key, clock)

    assert third is None
    assert (await stored.read_item(key)).status == "delivered"


async def test_an_arrival_that_is_booked_late_is_true_all_the_same(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    key = await stored.item(alice)
    await claim(database, key, clock, "stalled")
    await recover(database, "w2")

    await book(database, key, clock)

    assert await claim(database, key, clock, "w2") is None
    assert (await stored.read_item(key)).status == "delivered"
    async with database.snapshot() as tx:
        assert await tx.scalar(select(table.c.message_ids)) == ["m1", "m2"]


async def test_what_is_blocked_is_kept_and_its_owner_can_try_it_again_or_drop_it(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    keys = [await stored.item(alice) for _ in range(2)]
    for key in keys:
        item = await claim(database, key, clock)
        assert item is not None
        async with database.transaction() as tx:
            await outbox.block(tx, item, error="the room is gone")
    retried, dropped = keys

    async with database.transaction() as tx:
        shown = await outbox.undelivered(tx, alice.key, limit=5)
        assert not await outbox.retry_blocked(tx, retried, bob.key, clock())
        assert not await outbox.dismiss(tx, dropped, bob.key)
        assert await outbox.retry_blocked(tx, retried, alice.key, clock())
        assert not await outbox.retry_blocked(tx, retried, alice.key, clock())
        assert await outbox.dismiss(tx, dropped, alice.key)
        assert not await outbox.dismiss(tx, dropped, alice.key)
        assert await outbox.undelivered(tx, bob.key, limit=5) == []

    assert {item.key for item in shown} == set(keys)
    again = await claim(database, retried, clock)
    assert again is not None
    assert (again.attempts, again.first_tried_at) == (1, clock())
    assert await claim(database, dropped, clock) is None


# -- results that are put into words ---------------------------------------------------------------


async def result(database: Database, stored: Stored, user: Identity, batch: str) -> tuple[str, str]:
    """Store the held result of a run, and return its key and its message."""
    conversation = await stored.conversation(user)
    run = await stored.run(user, batch_id=batch, conversation_id=conversation)
    new = NewOutboxEntry(
        key=run.id, user_id=user.key, place=room(user), run_id=run.id, title="Over", text="Raw."
    )
    async with database.transaction() as tx:
        await outbox.put(tx, new, stored.now(), status="held")
        message = await conversations.say(
            tx, conversation, role="result", text="Raw.", now=stored.now(), run_id=run.id
        )
    return run.id, message


async def test_one_text_is_said_for_all_runs_of_a_turn_and_leaves_other_results_alone(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    first, _ = await result(database, stored, alice, "turn 1")
    clock.advance(1)
    last, message = await result(database, stored, alice, "turn 1")
    other, _ = await result(database, stored, alice, "turn 2")
    alone, _ = await result(database, stored, alice, "")

    async with database.transaction() as tx:
        assert await outbox.any_held(tx, first)
        assert await outbox.release_held(tx, message, "Both are done.", clock()) == [last]
        assert await outbox.release_held(tx, message, "Again.", clock()) == []
        assert not await outbox.any_held(tx, first)

    items = [await stored.read_item(key) for key in (first, last, other, alone)]
    assert [item.status for item in items] == ["dismissed", "pending", "held", "held"]
    assert items[1].text == "Both are done."


async def test_without_words_each_result_goes_in_its_own(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    first, _ = await result(database, stored, alice, "turn 1")
    clock.advance(1)
    last, message = await result(database, stored, alice, "turn 1")
    alone, lonely = await result(database, stored, alice, "")
    await result(database, stored, alice, "")

    async with database.transaction() as tx:
        assert await outbox.release_held(tx, message, None, clock()) == [first, last]
        assert await outbox.release_held(tx, lonely, None, clock()) == [alone]

    assert {(await stored.read_item(key)).text for key in (first, last, alone)} == {"Raw."}


async def test_what_is_held_for_too_long_goes_in_its_own_words(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    old = await stored.item(alice, status="held")
    clock.advance(60)
    young = await stored.item(alice, status="held")

    async with database.transaction() as tx:
        assert await outbox.release_held_before(tx, clock(), clock()) == [old]

    assert (await stored.read_item(young)).status == "held"
    assert await claim(database, old, clock) is not None


async def test_old_items_are_deleted_and_what_is_still_to_be_said_is_kept(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    begin = clock()
    for status in ("held", "pending", "waiting", "dismissed"):
        await stored.item(alice, status=status)
    long_waiting = await stored.item(alice)
    gone, said = await stored.item(alice), await stored.item(alice)
    await block(database, gone, clock)
    await claim(database, said, clock)
    await book(database, said, clock)
    clock.advance(1000)
    await block(database, long_waiting, clock)

    async with database.transaction() as tx:
        week_over = begin + timedelta(seconds=500)
        assert await forget(tx, table, week_over, of="undelivered") == 1
        assert await outbox.get(tx, said) is not None
        assert await forget(tx, table, begin + timedelta(1), of="runs") == 3
        assert await outbox.get(tx, said) is None
    assert await stored.count(table) == 3
    assert (await stored.read_item(long_waiting)).status == "blocked"


async def block(database: Database, key: str, clock: FakeClock) -> None:
    item = await claim(database, key, clock)
    assert item is not None
    async with database.transaction() as tx:
        await outbox.block(tx, item, error="gone")


# -- whatever happens ------------------------------------------------------------------------------

moves = st.lists(
    st.sampled_from(["send", "answer", "lose", "refuse", "unknown", "crash", "absent", "late"]),
    max_size=30,
)


@given(order=moves)
async def test_whatever_happens_nothing_is_said_twice_unless_unknown_and_marked(
    database: Database, stored: Stored, clock: FakeClock, order: list[str]
) -> None:
    """`lose`: it arrived, and the answer did not. `late`: a stale attempt says that it failed."""
    key = await stored.item(await stored.somebody())
    arrived: list[bool] = []
    sending: OutboxEntry | None = None
    stale: OutboxEntry | None = None

    for number, move in enumerate(order):
        worker = f"w{number}"
        clock.advance(60)
        match move:
            case "send" if sending is None:
                sending = await claim(database, key, clock, worker)
            case "answer" if sending:
                arrived.append(sending.maybe_repeated)
                await book(database, key, clock)
                sending = None
            case "lose" if sending:
                arrived.append(sending.maybe_repeated)
                await fail(database, sending, clock, unknown=True)
                sending = None
            case "refuse" | "unknown" if sending:
                await fail(database, sending, clock, unknown=move == "unknown")
                sending = None
            case "absent" if sending:
                async with database.transaction() as tx:
                    await outbox.wait(tx, sending)
                sending = None
            case "crash" if sending:
                arrived.append(sending.maybe_repeated)
                await recover(database, "nobody")
                stale, sending = sending, None
            case "late" if stale:
                await fail(database, stale, clock)

    assert arrived in ([], [False], [True], [False, True])
    if sending is None and not arrived:
        kept = await stored.read_item(key)
        assert kept.status in {"pending", "waiting", "blocked"}


async def test_files_of_a_replaced_result_are_sent_after_the_one_text(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    first, _ = await result(database, stored, alice, "turn 1")
    clock.advance(1)
    second, _ = await result(database, stored, alice, "turn 1")
    clock.advance(1)
    last, message = await result(database, stored, alice, "turn 1")

    async with database.transaction() as tx:
        await run_files.add(tx, first, [("a.md", b"a")], after=0)
        assert await outbox.release_held(tx, message, "All are done.", clock()) == [last]

    items = [await stored.read_item(key) for key in (first, second, last)]
    assert [item.status for item in items] == ["pending", "dismissed", "pending"]
    assert [item.text_delivered for item in items] == [True, False, False]
    assert items[0].due_at > items[2].due_at


async def test_files_of_a_run_are_counted_while_it_is_unfinished(
    database: Database, stored: Stored, alice: Identity
) -> None:
    run = (await stored.run(alice, status="running")).id
    ended = (await stored.run(alice, status="completed")).id
    async with database.transaction() as tx:
        assert await run_files.totals(tx, run) == (0, 0)
        await run_files.add(tx, run, [("a", b"12"), ("b", b"345")], after=0)
        await run_files.add(tx, run, [("a", b"6")], after=2)

        assert await run_files.totals(tx, run) == (3, 6)
        assert await run_files.of_run(tx, run) == [("a", b"12"), ("b", b"345"), ("a", b"6")]
        assert await run_files.totals(tx, ended) is None
