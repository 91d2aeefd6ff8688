"""A user has one open conversation in a place, and every event is heard once."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from bot.values import ConversationMode, Identity, Place
from db import conversations, history, turns
from db.database import Database, DatabaseSettings
from db.history import HistoryMessage
from db.tables import conversations as table
from db.tables import messages, seen_events
from tests.fakes.clock import FakeClock
from tests.fakes.forgetting import forget
from tests.fakes.stored import Stored, room


async def open_one(database: Database, user: Identity, place: Place, clock: FakeClock) -> str:
    async with database.transaction() as tx:
        return await conversations.find_or_open(tx, user, place, clock())


async def test_a_user_keeps_one_conversation_in_a_place(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.person(alice)
    await stored.person(bob)
    here = room(alice)

    mine = await open_one(database, alice, here, clock)
    again = await open_one(database, alice, replace(here, message="m2"), clock)
    theirs = await open_one(database, bob, here, clock)
    elsewhere = [
        await open_one(database, alice, replace(here, **{part: "other"}), clock)
        for part in ("platform", "workspace", "channel", "thread")
    ]

    assert again == mine
    assert len({mine, theirs, *elsewhere}) == 6


async def test_after_a_conversation_is_closed_the_next_message_opens_another(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    first = await stored.conversation(alice)
    async with database.transaction() as tx:
        await conversations.close(tx, first, clock())
        assert await conversations.find(tx, alice, room(alice)) is None

    second = await stored.conversation(alice)

    assert second != first
    async with database.transaction() as tx:
        await conversations.close(tx, first, clock() + timedelta(1))
        closed = await tx.scalar(select(table.c.closed_at).where(table.c.id == first))
        assert await conversations.find(tx, alice, room(alice)) == second
    assert closed == clock()


async def test_two_first_messages_at_once_open_one_conversation(
    database: Database,
    database_settings: DatabaseSettings,
    stored: Stored,
    clock: FakeClock,
    alice: Identity,
) -> None:
    await stored.person(alice)
    async with (
        asyncio.timeout(20),
        Database.open(database_settings) as elsewhere,
        asyncio.TaskGroup() as group,
        database.transaction() as tx,
    ):
        first = await conversations.find_or_open(tx, alice, room(alice), clock())
        # The second message comes before the first is committed.
        second = group.create_task(open_one(elsewhere, alice, room(alice), clock))
        await asyncio.wait([second], timeout=0.1)

    assert second.result() == first
    assert await stored.count(table) == 1


async def test_an_event_is_new_once_per_platform(database: Database, clock: FakeClock) -> None:
    async with database.transaction() as tx:
        assert await conversations.is_new_event(tx, "slack", "e1", clock())
        assert not await conversations.is_new_event(tx, "slack", "e1", clock())
        assert await conversations.is_new_event(tx, "discord", "e1", clock())


async def test_an_event_that_two_processes_get_at_once_is_new_to_one_of_them(
    database: Database, database_settings: DatabaseSettings, clock: FakeClock
) -> None:
    async def hear(where: Database) -> bool:
        async with where.transaction() as tx:
            return await conversations.is_new_event(tx, "slack", "e1", clock())

    async with (
        asyncio.timeout(20),
        Database.open(database_settings) as elsewhere,
        asyncio.TaskGroup() as group,
        database.transaction() as tx,
    ):
        first = await conversations.is_new_event(tx, "slack", "e1", clock())
        second = group.create_task(hear(elsewhere))
        await asyncio.wait([second], timeout=0.1)

    assert (first, second.result()) == (True, False)


async def test_an_event_whose_message_could_not_be_stored_is_new_again(
    database: Database, clock: FakeClock
) -> None:
    async def fail() -> None:
        async with database.transaction() as tx:
            await conversations.is_new_event(tx, "slack", "e1", clock())
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await fail()

    async with database.transaction() as tx:
        assert await conversations.is_new_event(tx, "slack", "e1", clock())


async def test_only_old_events_are_forgotten(
    database: Database, stored: Stored, clock: FakeClock
) -> None:
    async with database.transaction() as tx:
        await conversations.is_new_event(tx, "slack", "old", clock())
        clock.advance(60)
        await conversations.is_new_event(tx, "slack", "young", clock())
        assert await forget(tx, seen_events, clock()) == 1

        assert await conversations.is_new_event(tx, "slack", "old", clock())
        assert not await conversations.is_new_event(tx, "slack", "young", clock())
    assert await stored.count(seen_events) == 2


async def said(database: Database, conversation: str, role: str, text: str) -> str:
    async with database.transaction() as tx:
        return await conversations.say(
            tx, conversation, role=role, text=text, now=FakeClock()(), run_id=None
        )


async def known(database: Database, conversation: str, until: str, limit: int = 200) -> list[str]:
    async with database.snapshot() as tx:
        past = await history.personal(tx, conversation, until=until, limit=limit)
    return [message.text for message in past]


async def test_a_history_holds_what_was_said_up_to_a_message_oldest_first(
    database: Database, stored: Stored, alice: Identity, bob: Identity
) -> None:
    conversation, foreign = await stored.conversation(alice), await stored.conversation(bob)
    for role, text in (("user", "one"), ("assistant", "two"), ("user", "three")):
        await said(database, conversation, role, text)
        await said(database, foreign, role, "not yours")
    last = await said(database, conversation, "user", "four")
    await said(database, conversation, "user", "five")

    assert await known(database, conversation, last) == ["one", "two", "three", "four"]
    assert await known(database, conversation, last, limit=2) == ["three", "four"]
    async with database.snapshot() as tx:
        first, *_ = await history.personal(tx, conversation, until=last)
        assert await conversations.text_of(tx, last) == "four"
        assert await conversations.text_of(tx, "nobody's") == ""
    at = first.created_at
    assert first == HistoryMessage(id=first.id, role="user", text="one", run_id=None, created_at=at)


async def test_a_history_begins_after_the_last_reset(
    database: Database, stored: Stored, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    for role, text in (("user", "refused"), ("reset", ""), ("user", "fine")):
        await said(database, conversation, role, text)
    last = await said(database, conversation, "user", "now")

    assert await known(database, conversation, last) == ["fine", "now"]


async def test_a_reply_stands_behind_its_message_though_others_were_said_in_between(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    first = await stored.turn(alice, conversation, "first")
    second = await stored.turn(alice, conversation, "second")
    async with database.transaction() as tx:
        await conversations.say(
            tx, conversation, role="assistant", text="reply", now=clock(), turn_id=first
        )
    await said(database, conversation, "result", "a run is over")

    async with database.snapshot() as tx:
        turn = await turns.get(tx, second)
    assert turn is not None
    past = await known(database, conversation, turn.message_id)
    assert past == ["first", "reply", "second", "a run is over"]


async def test_text_that_no_database_takes_is_kept_with_marks_in_its_place(
    database: Database, stored: Stored, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)

    message = await said(database, conversation, "user", "a\0b\ud800c 🙂")

    async with database.snapshot() as tx:
        assert await conversations.text_of(tx, message) == "a\ufffdb\ufffdc 🙂"
    assert await stored.count(messages) == 1


SHARED = ConversationMode(shared=True)


async def test_users_of_a_place_share_one_conversation(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.person(bob)
    personal, place = await stored.conversation(alice), room(alice)

    async with database.transaction() as tx:
        shared = await conversations.find_or_open(tx, alice, place, clock(), SHARED)
        theirs = await conversations.find_or_open(tx, bob, place, clock(), SHARED)
        # The mode has changed: both would be open.
        left = await conversations.find(tx, alice, place)

    assert shared == theirs != personal
    assert left is None


async def test_a_shared_conversation_ends_after_a_silence(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await stored.person(alice)
    mode = ConversationMode(shared=True, silence=timedelta(minutes=60))

    async with database.transaction() as tx:
        first = await conversations.find_or_open(tx, alice, room(alice), clock(), mode)
        clock.advance(50 * 60)
        await conversations.say(tx, first, role="user", text="Hm", now=clock())
        clock.advance(50 * 60)
        assert await conversations.find_or_open(tx, alice, room(alice), clock(), mode) == first
        clock.advance(11 * 60)
        second = await conversations.find_or_open(tx, alice, room(alice), clock(), mode)

        assert second != first
        assert await conversations.looked_at(tx, second) is None


async def test_what_was_said_before_a_new_conversation_is_not_read_again(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await stored.person(alice)

    async with database.transaction() as tx:
        first = await conversations.find_or_open(tx, alice, room(alice), clock(), SHARED)
        assert await conversations.looked_at(tx, first) is None
        await conversations.close(tx, first, clock())
        second = await conversations.find_or_open(tx, alice, room(alice), clock(), SHARED)

        assert await conversations.looked_at(tx, second) == clock()


async def test_a_shared_history_places_an_answer_behind_what_its_turn_had_read(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    turn_id = await stored.turn(alice, conversation, "first")
    async with database.transaction() as tx:
        turn = await turns.get(tx, turn_id)
        assert turn is not None
        await history.see(tx, turn)
    await said(database, conversation, "user", "meanwhile")
    async with database.transaction() as tx:
        await conversations.say(
            tx, conversation, role="assistant", text="answer", now=clock(), turn_id=turn_id
        )
    last = await said(database, conversation, "user", "last")
    await said(database, conversation, "user", "not yet")

    async with database.snapshot() as tx:
        past = await history.shared(tx, conversation, until=last)

    assert [each.text for each in past] == ["first", "answer", "meanwhile", "last"]


async def test_a_turn_reads_on_up_to_the_first_message_that_waits_for_a_turn(
    database: Database, stored: Stored, alice: Identity, bob: Identity
) -> None:
    conversation = await stored.conversation(alice)
    await stored.person(bob)
    turn_id = await stored.turn(alice, conversation, "first")
    heard = await said(database, conversation, "user", "for nobody")
    await stored.turn(bob, conversation, "waits")
    await said(database, conversation, "user", "later")

    async with database.transaction() as tx:
        turn = await turns.get(tx, turn_id)
        assert turn is not None
        assert (await history.see(tx, turn)).seen_id == heard


async def test_each_user_of_a_shared_conversation_chooses_a_model(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await stored.person(alice)
    await stored.person(bob)
    async with database.transaction() as tx:
        shared = await conversations.find_or_open(tx, alice, room(alice), clock(), SHARED)
        for number, user in enumerate((alice, bob)):
            await history.join(tx, shared, user.key, f"user {number}")
        await conversations.choose_model(tx, shared, alice, "fake/small")

        assert await conversations.model_of(tx, shared, alice) == "fake/small"
        assert await conversations.model_of(tx, shared, bob) == ""
    turn_id = await stored.turn(alice, shared)
    async with database.snapshot() as tx:
        turn = await turns.get(tx, turn_id)
    assert turn is not None
    assert (turn.model, turn.shared, turn.number) == ("fake/small", True, 1)


async def test_words_that_were_overheard_do_not_prolong_a_talk(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    await said(database, conversation, "user", "Hello.")
    spoken = clock()
    async with database.transaction() as tx:
        await conversations.say(
            tx,
            conversation,
            role="user",
            text="Lovely weather.",
            now=spoken + timedelta(hours=1),
            overheard=True,
        )

    async with database.snapshot() as tx:
        assert await conversations.last_word(tx, alice, room(alice)) == spoken
