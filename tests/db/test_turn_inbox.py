"""One statement reads what the usual message has to know, and two let its turn begin."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from bot.agent.journal import StoredJournal
from bot.agent.messages import Answer, UserMessage
from bot.agent.protocols import AnswerEntry, Counters
from bot.tasks import Tasks
from bot.values import ConversationMode, File, Identity, Role, new_sortable_id
from db import conversations, history, pauses, run_questions, tables, turn_inbox, turns
from db import files as stored_files
from db.conversations import Attribution
from db.database import Database
from db.pauses import Pause
from db.rows import change
from db.run_questions import RunQuestion
from db.steps import StepWriter
from db.turn_inbox import KnownConversation
from db.turns import Turn
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored, room

MODES = [ConversationMode(shared=False), ConversationMode(shared=True)]


async def read(
    database: Database, user: Identity, clock: FakeClock, mode: ConversationMode = MODES[0]
) -> KnownConversation | None:
    async with database.transaction() as tx:
        return await turn_inbox.read(tx, user, room(user), clock(), mode)


async def found(database: Database, user: Identity, clock: FakeClock) -> KnownConversation:
    known = await read(database, user, clock)
    assert known is not None
    return known


@pytest.mark.parametrize("mode", MODES)
async def test_a_new_user_and_a_place_without_a_conversation_are_unknown(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, mode: ConversationMode
) -> None:
    assert await read(database, alice, clock, mode) is None
    await stored.person(alice)
    assert await read(database, alice, clock, mode) is None


async def test_the_open_conversation_of_the_mode_of_a_place_is_found(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    here = await stored.conversation(alice)

    assert (await found(database, alice, clock)).conversation_id == here
    assert await read(database, alice, clock, MODES[1]) is None
    async with database.transaction() as tx:
        await conversations.close(tx, here, clock())
    assert await read(database, alice, clock) is None


async def test_what_a_message_must_wait_for_is_seen(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    here = await stored.conversation(alice)
    run = await stored.run(alice)
    known = await found(database, alice, clock)
    assert [known.asked, known.waiting, known.paused, known.overheard] == [False] * 4
    question = RunQuestion(
        id="q",
        run_id=run.id,
        user_id=alice.key,
        kind="input",
        text="Which?",
        options=(),
        expires_at=clock() + timedelta(hours=1),
    )
    async with database.transaction() as tx:
        await run_questions.put(tx, question, room(alice), clock())
        await pauses.put(tx, Pause(paused_by=alice.key, created_at=clock()))
        by = conversations.Attribution(author=alice.key, reference=room(alice).message)
        await conversations.say(
            tx, here, role="user", text="Hm", now=clock(), by=by, overheard=True
        )
    await stored.turn(alice, here)

    known = await found(database, alice, clock)
    assert [known.asked, known.waiting, known.paused, known.overheard] == [True] * 4
    clock.advance(3600)
    assert not (await found(database, alice, clock)).asked


async def test_a_turn_begins_as_it_would_be_read(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    here = await stored.conversation(alice)
    turn = await a_turn(database, clock, alice, here)

    async with database.transaction() as tx:
        assert await turn_inbox.begin(tx, turn, "w")

        assert await turns.get(tx, turn.id) == turn
        # Another process takes it over as a second attempt only.
        refused = await turns.begin(tx, turn.id, worker_id="w2", now=clock(), first=True)
        assert refused is None


async def test_no_turn_begins_beside_another_or_before_one_that_waits(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    here = await stored.conversation(alice)
    waiting = await stored.turn(alice, here)
    turn = await a_turn(database, clock, alice, here)

    async with database.transaction() as tx:
        assert not await turn_inbox.begin(tx, turn, "w")
        assert await turns.claim_next(tx, here, clock(), "w") == waiting
        assert not await turn_inbox.begin(tx, turn, "w")
        await change(tx, tables.turns, tables.turns.c.id == waiting, status="done")
        assert not await turn_inbox.begin(tx, turn, "w")
        await change(tx, tables.conversations, active_turn_id=None)
        assert await turn_inbox.begin(tx, turn, "w")


async def test_the_newest_message_is_the_one_that_a_turn_would_read(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    here = await stored.conversation(alice)
    first = await stored.turn(alice, here)
    async with database.transaction() as tx:
        turn = await turns.get(tx, first)
        assert turn is not None
        seen = (await history.see(tx, turn)).seen_id

    known = await found(database, alice, clock)

    assert known.newest == known.read == seen
    assert known.newest_at == clock()


async def a_turn(database: Database, clock: FakeClock, user: Identity, here: str) -> Turn:
    """Store a message; return the turn that would answer it."""
    async with database.transaction() as tx:
        message = await conversations.say(tx, here, role="user", text="Hi", now=clock())
    name = (await found(database, user, clock)).name
    return Turn(
        id=new_sortable_id(),
        conversation_id=here,
        user=user,
        user_name=name,
        place=room(user),
        message_id=message,
        status="running",
        kind="message",
        role=Role.USER,
        attempt=1,
        crashes=0,
        reply_message_id="",
        stop_requested_at=None,
        created_at=clock(),
        sent_at=None,
        model="",
    )


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

    async def write(
        self, text: str, *, joins: str = "", kind: turns.TurnKind = "message"
    ) -> tuple[str, str]:
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
async def test_only_messages_are_read(talk: Talk, kind: turns.TurnKind) -> None:
    await talk.write("(only a mention)", kind=kind)

    assert await talk.unread() == []


async def test_nobody_else_is_read(talk: Talk, bob: Identity) -> None:
    talk.user = bob
    await talk.stored.person(bob)
    await talk.write("And mine?")

    assert await talk.unread() == []
