"""One statement reads what the usual message has to know, and two let its turn begin."""

from datetime import timedelta

import pytest

from bot.values import ConversationMode, Identity, Role, new_sortable_id
from db import conversations, history, intake, pauses, run_questions, tables, turns
from db.database import Database
from db.intake import KnownConversation
from db.pauses import Pause
from db.rows import change
from db.run_questions import RunQuestion
from db.turns import Turn
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored, room

MODES = [ConversationMode(shared=False), ConversationMode(shared=True)]


async def read(
    database: Database, user: Identity, clock: FakeClock, mode: ConversationMode = MODES[0]
) -> KnownConversation | None:
    async with database.transaction() as tx:
        return await intake.read(tx, user, room(user), clock(), mode)


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
        assert await intake.begin(tx, turn, "w")

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
        assert not await intake.begin(tx, turn, "w")
        assert await turns.claim_next(tx, here, clock(), "w") == waiting
        assert not await intake.begin(tx, turn, "w")
        await change(tx, tables.turns, tables.turns.c.id == waiting, status="done")
        assert not await intake.begin(tx, turn, "w")
        await change(tx, tables.conversations, active_turn_id=None)
        assert await intake.begin(tx, turn, "w")


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
