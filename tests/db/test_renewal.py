"""`/new` sets a conversation aside, and `/new undo` brings it back with what was said since."""

from datetime import timedelta

import pytest

from bot.values import ConversationMode, Identity, Place
from db import conversations, history, renewal, turns
from db.conversations import Attribution
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

THREAD = Place("discord", "guild", "general", "thread")
MODES = [ConversationMode(shared=True), ConversationMode(shared=False)]


class Talk:
    """The conversations of a place."""

    def __init__(self, database: Database, clock: FakeClock, user: Identity) -> None:
        self.database, self.clock, self.user = database, clock, user
        self.mode = MODES[0]

    async def say(self, text: str) -> str:
        """Store a message, and return the id of its conversation."""
        async with self.database.transaction() as tx:
            found = await conversations.find_or_open(tx, self.user, THREAD, self.clock(), self.mode)
            by = Attribution(author=self.user.key, author_number=int(self.mode.shared))
            await conversations.say(tx, found, role="user", text=text, now=self.clock(), by=by)
        self.clock.advance(1)
        return found

    async def begin_anew(self) -> str | None:
        async with self.database.transaction() as tx:
            return await renewal.begin_anew(tx, self.user, THREAD, self.mode, self.clock())

    async def go_back(self) -> str:
        since = self.clock() - timedelta(hours=24)
        async with self.database.transaction() as tx:
            return await renewal.go_back(tx, self.user, THREAD, self.mode, since=since)

    async def texts(self, conversation: str) -> list[str]:
        async with self.database.snapshot() as tx:
            return [each.text for each in await history.shared(tx, conversation, until="~")]


@pytest.fixture
async def talk(database: Database, stored: Stored, clock: FakeClock, alice: Identity) -> Talk:
    await stored.person(alice)
    return Talk(database, clock, alice)


@pytest.mark.parametrize("mode", MODES, ids=["shared", "personal"])
async def test_a_conversation_comes_back_with_what_was_said_since(
    talk: Talk, mode: ConversationMode
) -> None:
    talk.mode = mode
    first = await talk.say("one")
    assert await talk.begin_anew() is None
    second = await talk.say("two")
    assert second != first
    assert await talk.texts(second) == ["two"]

    assert await talk.go_back() == "done"

    assert await talk.say("three") == first
    assert await talk.texts(first) == ["one", "two", "three"]


async def test_after_a_day_there_is_no_way_back(talk: Talk) -> None:
    await talk.say("one")
    await talk.begin_anew()
    talk.clock.advance(25 * 3_600)

    assert await talk.go_back() == "none"


async def test_there_is_no_way_back_while_a_turn_is_at_work(talk: Talk, stored: Stored) -> None:
    await talk.say("one")
    await talk.begin_anew()
    second = await talk.say("two")
    await stored.turn(talk.user, second)
    await stored.claim_turn(second)

    assert await talk.go_back() == "busy"


async def test_only_waiting_turns_go_into_the_new_conversation(
    talk: Talk, stored: Stored, bob: Identity
) -> None:
    await stored.person(bob)
    first = await talk.say("one")
    at_work = await stored.turn(talk.user, first, "at work")
    assert await stored.claim_turn(first) == at_work
    waits = await stored.turn(bob, first, "waits")

    new = await talk.begin_anew()

    assert new is not None
    async with talk.database.snapshot() as tx:
        found = [await turns.get(tx, each) for each in (at_work, waits)]
    assert [each.conversation_id for each in found if each] == [first, new]
    assert await talk.texts(new) == ["waits"]
