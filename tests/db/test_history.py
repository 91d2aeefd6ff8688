"""A summary stands for all that was said before it, whoever takes part."""

import pytest

from bot.values import File, Identity
from db import conversations, files, history, steps, tables, turns
from db.database import Database
from db.history import HistoryMessage
from db.rows import change
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

END = "~"


@pytest.fixture
async def conversation(stored: Stored, alice: Identity) -> str:
    return await stored.conversation(alice)


async def say(database: Database, conversation: str, *texts: str, clock: FakeClock) -> None:
    for text in texts:
        async with database.transaction() as tx:
            await conversations.say(tx, conversation, role="user", text=text, now=clock())


async def read(database: Database, conversation: str, *, shared: bool) -> list[HistoryMessage]:
    async with database.snapshot() as tx:
        if shared:
            return await history.shared(tx, conversation, until=END)
        return await history.personal(tx, conversation, until=END)


@pytest.mark.parametrize("shared", [True, False])
async def test_a_summary_stands_before_what_was_said_after_it(
    database: Database, conversation: str, clock: FakeClock, shared: bool
) -> None:
    await say(database, conversation, "one", "two", "three", clock=clock)
    known = await read(database, conversation, shared=shared)
    async with database.transaction() as tx:
        await history.put_summary(
            tx, conversation, "one and two", behind=known[1], foreign=True, now=clock()
        )
    await say(database, conversation, "four", clock=clock)

    found = await read(database, conversation, shared=shared)

    assert [each.text for each in found] == ["one and two", "three", "four"]
    assert [each.role for each in found] == ["summary", "user", "user"]
    assert found[0].foreign


async def test_a_deleted_summary_brings_nothing_back(
    database: Database, conversation: str, clock: FakeClock
) -> None:
    await say(database, conversation, "one", "two", clock=clock)
    first, _ = await read(database, conversation, shared=True)
    async with database.transaction() as tx:
        await history.put_summary(tx, conversation, "one", behind=first, foreign=False, now=clock())
        assert await history.forget_summary(tx, conversation)
        assert not await history.forget_summary(tx, conversation)

    assert [each.text for each in await read(database, conversation, shared=True)] == ["two"]


async def begin(database: Database, turn_id: str) -> str:
    """Let a turn begin and read all that it may; return its newest message."""
    async with database.transaction() as tx:
        turn = await turns.get(tx, turn_id)
        assert turn is not None
        seen = (await history.see(tx, turn)).seen_id
        await change(tx, tables.turns, tables.turns.c.id == turn_id, status="done")
    return seen


async def read_by(database: Database, turn_id: str, seen: str) -> list[str]:
    async with database.snapshot() as tx:
        turn = await turns.get(tx, turn_id)
        assert turn is not None
        past = await history.shared(tx, turn.conversation_id, until=seen, turn_id=turn_id)
    return [each.text for each in past]


async def answer(
    database: Database, conversation: str, turn_id: str, text: str, clock: FakeClock
) -> None:
    async with database.transaction() as tx:
        await conversations.say(
            tx, conversation, role="assistant", text=text, now=clock(), turn_id=turn_id
        )


async def test_a_turn_that_waited_with_others_reads_the_answer_before_it(
    database: Database, stored: Stored, conversation: str, clock: FakeClock, alice: Identity
) -> None:
    bob, carol = [await stored.somebody() for _ in range(2)]
    first, second, _ = [
        await stored.turn(user, conversation, f"for {number}")
        for number, user in enumerate((alice, bob, carol))
    ]
    await begin(database, first)
    await answer(database, conversation, first, "the answer", clock)

    seen = await begin(database, second)

    assert await read_by(database, second, seen) == ["for 0", "the answer", "for 1"]


async def test_a_turn_reads_what_turns_of_later_messages_have_read(
    database: Database, stored: Stored, conversation: str, clock: FakeClock, alice: Identity
) -> None:
    bob, carol = [await stored.somebody() for _ in range(2)]
    served_last, other, served_first = [
        await stored.turn(user, conversation, f"for {number}")
        for number, user in enumerate((alice, bob, carol))
    ]
    seen = await begin(database, served_first)
    before = await read_by(database, served_first, seen)
    await answer(database, conversation, served_first, "the answer", clock)

    seen = await begin(database, served_last)
    after = await read_by(database, served_last, seen)

    assert before == ["for 0", "for 1", "for 2"]
    assert after == [*before, "the answer"]
    assert await begin(database, other) == seen


async def test_what_the_steps_of_a_turn_have_read_is_not_read_again_by_that_turn(
    database: Database, stored: Stored, conversation: str, alice: Identity, clock: FakeClock
) -> None:
    turn_id = await stored.turn(alice, conversation, "first")
    seen = await begin(database, turn_id)
    await say(database, conversation, "further", clock=clock)
    further = tables.messages.c.text == "further"
    async with database.transaction() as tx:
        await change(tx, tables.messages, further, turn_id=turn_id)

    assert await read_by(database, turn_id, seen) == ["first"]


async def test_a_message_of_a_history_tells_of_its_files_and_the_steps_of_its_turn(
    database: Database, stored: Stored, conversation: str, clock: FakeClock, alice: Identity
) -> None:
    turn_id = await stored.turn(alice, conversation, "first")
    async with database.transaction() as tx:
        turn = await turns.get(tx, turn_id)
        assert turn is not None
        await files.put_files(tx, turn.message_id, [File("a.txt", "", b"a")], clock())
        await steps.begin_with(tx, turn_id, {}, clock())
        await conversations.say(
            tx, conversation, role="assistant", text="reply", now=clock(), turn_id=turn_id
        )

    for shared in (True, False):
        asked, reply = await read(database, conversation, shared=shared)

        assert (asked.has_files, asked.steps) == (True, 0)
        assert (reply.has_files, reply.steps) == (False, 1)


async def test_participants_are_numbered_in_order_and_keep_number_and_name(
    database: Database, stored: Stored, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)

    async with database.transaction() as tx:
        first = await history.join(tx, conversation, "discord::1", "Ann")
        second = await history.join(tx, conversation, "discord::2", "Bob")
        again = await history.join(tx, conversation, "discord::1", "Anna")

    assert (first, second, again) == ((1, "Ann"), (2, "Bob"), (1, "Ann"))


async def test_a_name_that_looks_like_another_is_followed_by_a_number(
    database: Database, stored: Stored, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)

    async with database.transaction() as tx:
        shown = [
            await history.join(tx, conversation, f"discord::{number}", name)
            for number, name in enumerate(("Ann", "ANN", "Ａｎｎ", "x" * 90, "x" * 80))
        ]

    assert [name for _, name in shown] == [
        "Ann",
        "ANN (2)",
        "Ａｎｎ (3)",
        "x" * 40,
        "x" * 40 + " (2)",
    ]
