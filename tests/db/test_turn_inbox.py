"""A message that a user sends during their turn is read by one step of it, once."""

from dataclasses import dataclass

import pytest

from bot.agent.journal import StoredJournal
from bot.agent.messages import Answer, UserMessage
from bot.agent.protocols import AnswerEntry, Counters
from bot.tasks import Tasks
from bot.values import File, Identity
from db import conversations, turn_inbox, turns
from db import files as stored_files
from db.conversations import Attribution
from db.database import Database
from db.steps import StepWriter
from db.turns import Turn
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored, room


@dataclass
class Talk:
    """A conversation of a user, with a turn at work."""

    database: Database
    stored: Stored
    clock: FakeClock
    user: Identity
    conversation_id: str
    turn: Turn
    journal: StoredJournal

    async def write(self, text: str, *, joins: str = "", kind: str = "message") -> tuple[str, str]:
        """Store a message that waits for a turn; return the ids of both."""
        async with self.database.transaction() as tx:
            by = Attribution(author=self.user.key)
            message = await conversations.say(
                tx, self.conversation_id, role="user", text=text, now=self.clock(), by=by
            )
            if joins:
                assert await turns.join(tx, joins, message, room(self.user))
                return message, joins
            waiting = await turns.add(
                tx,
                self.conversation_id,
                user=self.user,
                place=room(self.user),
                message_id=message,
                now=self.clock(),
                kind=kind,
            )
        return message, waiting

    async def unread(self) -> list[str]:
        async with self.database.snapshot() as tx:
            return [each.text for each in await turn_inbox.unread(tx, self.turn)]

    async def step(self, *read: str) -> None:
        """Store a step that has read these messages."""
        entry = AnswerEntry(UserMessage("read"), Answer("Well."), read=read)
        await self.journal.write(entry, Counters())


@pytest.fixture
async def talk(database: Database, stored: Stored, clock: FakeClock, alice: Identity) -> Talk:
    conversation_id = await stored.conversation(alice)
    turn_id = await stored.turn(alice, conversation_id)
    assert await stored.claim_turn(conversation_id) == turn_id
    turn = await stored.begin_turn(turn_id)
    journal = StoredJournal(
        database=database,
        writer=StepWriter(database, Tasks()),
        table="turns",
        work_id=turn_id,
        attempt=turn.attempt,
        now=clock,
    )
    return Talk(database, stored, clock, alice, conversation_id, turn, journal)


async def test_a_message_that_a_step_has_read_needs_no_turn_of_its_own(talk: Talk) -> None:
    message, waiting = await talk.write("Hurry.")
    assert await talk.unread() == ["Hurry."]

    await talk.step(message)

    async with talk.database.snapshot() as tx:
        assert await turns.get(tx, waiting) is None
        assert [each.text for each in await turn_inbox.read_by(tx, talk.turn)] == ["Hurry."]
    assert await talk.unread() == []


async def test_a_turn_that_a_further_message_joins_meanwhile_answers_that_one(talk: Talk) -> None:
    message, waiting = await talk.write("Hurry.")
    await talk.write("Please!", joins=waiting)

    await talk.step(message)

    assert await talk.unread() == ["Please!"]
    async with talk.database.snapshot() as tx:
        assert await turns.get(tx, waiting) is not None


async def test_what_a_step_did_not_store_is_read_again(talk: Talk) -> None:
    await talk.write("Hurry.")
    assert await talk.unread() == await talk.unread() == ["Hurry."]


async def test_a_message_with_files_waits_for_its_own_turn_and_so_do_those_behind_it(
    talk: Talk,
) -> None:
    message, _ = await talk.write("Look.")
    async with talk.database.transaction() as tx:
        plan = File("a.txt", "", b"plan")
        await stored_files.put_files(tx, message, [plan], talk.clock())
    await talk.write("At this.")

    assert await talk.unread() == []


@pytest.mark.parametrize("kind", ["greeting", "confirmed"])
async def test_only_messages_are_read(talk: Talk, kind: str) -> None:
    await talk.write("(only a mention)", kind=kind)

    assert await talk.unread() == []


async def test_nobody_else_is_read(talk: Talk, bob: Identity) -> None:
    talk.user = bob
    await talk.stored.person(bob)
    await talk.write("And mine?")

    assert await talk.unread() == []
