"""The course of a shared conversation, by which the bot knows whether a message is for it."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import insert, literal, select

from bot.values import ConversationMode, Identity, Place, new_sortable_id
from db import conversations, shared_threads, turns, users
from db.conversations import Attribution
from db.database import Database
from db.rows import change
from db.shared_threads import Course
from db.tables import messages, subagent_runs
from db.types import UtcDateTime
from tests.fakes.clock import FakeClock
from tests.fakes.plans import Statements
from tests.fakes.stored import Stored, room

SHARED = ConversationMode(shared=True)


class Thread:
    """A shared conversation of several users."""

    def __init__(self, database: Database, clock: FakeClock, opener: Identity) -> None:
        self.database, self.clock, self.place = database, clock, room(opener)
        self.stored = Stored(database, clock)
        self.opener = opener

    async def opened(self) -> str:
        await self.stored.person(self.opener)
        async with self.database.transaction() as tx:
            return await conversations.find_or_open(
                tx, self.opener, self.place, self.clock(), SHARED
            )

    async def say(self, user: Identity | None, *, turn: bool = False) -> None:
        """Let a user say something, or the bot."""
        conversation = await self.opened()
        role = "user" if user else "assistant"
        by = Attribution(author=user.key if user else "")
        async with self.database.transaction() as tx:
            message = await conversations.say(
                tx, conversation, role=role, text="Hm.", now=self.clock(), by=by
            )
            if user and turn:
                await turns.add(
                    tx,
                    conversation,
                    user=user,
                    place=self.place,
                    message_id=message,
                    now=self.clock(),
                )

    async def say_often(self, user: Identity, conversation: str, number: int) -> None:
        """Store many messages of a user in a conversation."""
        row = {
            "conversation_id": conversation,
            "role": "user",
            "text": "Hm.",
            "author": user.key,
            "created_at": self.clock(),
        }
        async with self.database.transaction() as tx:
            rows = [row | {"id": new_sortable_id()} for _ in range(number)]
            await tx.execute(insert(messages), rows)

    async def course(self, user: Identity) -> Course | None:
        async with self.database.snapshot() as tx:
            return await shared_threads.course(tx, user, self.place)


@pytest.fixture
def thread(database: Database, clock: FakeClock, alice: Identity) -> Thread:
    return Thread(database, clock, alice)


async def test_a_place_without_a_shared_conversation_has_no_course(
    thread: Thread, alice: Identity
) -> None:
    await thread.stored.conversation(alice)

    assert await thread.course(alice) is None


async def test_a_user_alone_with_the_bot_is_known_as_such(
    thread: Thread, clock: FakeClock, alice: Identity
) -> None:
    begun = clock()
    await thread.say(alice, turn=True)
    clock.advance(60)
    await thread.say(None)

    assert await thread.course(alice) == Course(
        others=0, last_at=clock(), turn_at=begun, interrupted=False
    )


async def test_another_user_interrupts_until_the_bot_has_answered(
    thread: Thread, alice: Identity, bob: Identity
) -> None:
    await thread.say(alice, turn=True)
    await thread.say(None)
    await thread.say(bob)

    hers, his = await thread.course(alice), await thread.course(bob)
    assert hers is not None
    assert (hers.others, hers.interrupted) == (1, True)
    assert his is not None
    assert (his.others, his.turn_at, his.interrupted) == (1, None, False)

    await thread.say(None)
    after = await thread.course(alice)
    assert after is not None
    assert not after.interrupted


async def test_a_conversation_that_was_closed_counts_until_the_next_message(
    thread: Thread, clock: FakeClock, alice: Identity
) -> None:
    await thread.say(alice)
    clock.advance(timedelta(hours=1).total_seconds())
    async with thread.database.transaction() as tx:
        found = await conversations.find(tx, alice, thread.place, SHARED)
        assert found is not None
        await conversations.close(tx, found, clock())

    closed = await thread.course(alice)

    assert closed is not None
    assert closed.last_at == clock()


async def test_a_place_is_live_with_a_new_message_or_unfinished_work(
    thread: Thread, alice: Identity
) -> None:
    start = thread.clock()
    await thread.say(alice)
    conversation = await thread.opened()
    thread.clock.advance(2 * 86_400)
    since = start + timedelta(days=1)

    async def live() -> list[Place]:
        async with thread.database.snapshot() as tx:
            return await shared_threads.live_places(tx, since)

    assert await live() == []
    run = await thread.stored.run(alice, conversation_id=conversation, status="queued")
    assert await live() == [replace(thread.place, message="")]
    async with thread.database.transaction() as tx:
        await change(tx, subagent_runs, subagent_runs.c.id == run.id, status="completed")
    assert await live() == []
    await thread.say(alice)
    assert await live() == [replace(thread.place, message="")]


async def test_the_newest_messages_of_a_long_conversation_are_found_by_their_time(
    thread: Thread, database_url: str, alice: Identity, bob: Identity
) -> None:
    conversation = await thread.opened()
    await thread.say_often(alice, conversation, 20_000)
    await thread.say_often(alice, await thread.stored.conversation(bob), 10_000)
    now = thread.clock()
    recorded = Statements()

    with recorded.recorded():
        async with thread.database.snapshot() as tx:
            after = literal(now, UtcDateTime())
            spoke = users.spoke_since(literal(bob.key), literal(conversation), after)
            assert not await tx.scalar(select(spoke))
            assert not await shared_threads.spoken_since(tx, bob, thread.place, now)

    found = [each for _, each in recorded.searches(database_url, "messages").items()]
    assert len(found) == 2
    for (search,) in found:
        assert re.search(r"\(.*created_at ?>", search), search
