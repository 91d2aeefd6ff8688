"""Files are kept with their message, in their order, byte for byte, and forgotten in time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.values import File, Identity, new_run_id
from db import conversations
from db import files as stored_files
from db.database import Database
from db.tables import files as table
from tests.fakes.clock import FakeClock
from tests.fakes.forgetting import forget
from tests.fakes.stored import Stored

NOTES, CAT = File("notes.md", "", "Größe".encode()), File("cat.png", "image/png", b"\x89PNG\0\xff")


async def said_with(database: Database, stored: Stored, user: Identity, *sent: File) -> str:
    """Store a message with files and return its id."""
    conversation = await stored.conversation(user)
    async with database.transaction() as tx:
        message = await conversations.say(
            tx, conversation, role="user", text="Look", now=stored.now()
        )
        await stored_files.put_files(tx, message, sent, stored.now())
    return message


async def test_files_are_found_by_their_message_with_their_size_and_content(
    database: Database, stored: Stored, alice: Identity, bob: Identity
) -> None:
    first = await said_with(database, stored, alice, NOTES, CAT)
    second = await said_with(database, stored, alice, CAT)
    foreign = await said_with(database, stored, bob, NOTES)

    async with database.snapshot() as tx:
        found = await stored_files.files_of(tx, [second, first])
        contents = await stored_files.contents_of(tx, [entry.id for entry in found])
        assert await stored_files.files_of(tx, []) == []
        assert await stored_files.files_of(tx, [new_run_id()]) == []
        assert await stored_files.contents_of(tx, []) == {}

    told = [(entry.message_id, entry.name, entry.media_type, entry.size) for entry in found]
    assert told == [
        (first, "notes.md", "", 7),
        (first, "cat.png", "image/png", 6),
        (second, "cat.png", "image/png", 6),
    ]
    assert [contents[entry.id] for entry in found] == [NOTES.data, CAT.data, CAT.data]
    assert foreign not in {entry.message_id for entry in found}


@settings(max_examples=20)  # Each makes many transactions.
@given(st.lists(st.tuples(st.text(max_size=100), st.binary(max_size=50)), max_size=20))
async def test_whatever_is_in_them_files_come_back_in_their_order(
    database: Database, stored: Stored, sent: list[tuple[str, bytes]]
) -> None:
    user = await stored.somebody()
    message = await said_with(
        database, stored, user, *(File(name, "image/gif", data) for name, data in sent)
    )

    async with database.snapshot() as tx:
        found = await stored_files.files_of(tx, [message])
        contents = await stored_files.contents_of(tx, [entry.id for entry in found])

    assert [contents[entry.id] for entry in found] == [data for _, data in sent]
    assert [entry.size for entry in found] == [len(data) for _, data in sent]


async def test_many_files_of_many_messages_are_found_with_one_question(
    database: Database, stored: Stored, alice: Identity
) -> None:
    messages = [await said_with(database, stored, alice, NOTES) for _ in range(30)]

    async with database.snapshot() as tx:
        found = await stored_files.files_of(tx, [*messages, *(new_run_id() for _ in range(200))])

    assert [entry.message_id for entry in found] == messages


async def test_only_old_files_are_forgotten_and_their_messages_stay(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    old = await said_with(database, stored, alice, NOTES, CAT)
    clock.advance(60)
    young = await said_with(database, stored, alice, CAT)

    async with database.transaction() as tx:
        assert await forget(tx, table, clock()) == 2
        left = await stored_files.files_of(tx, [old, young])
        assert await conversations.text_of(tx, old) == "Look"

    assert [entry.message_id for entry in left] == [young]
    assert await stored.count(table) == 1


async def test_the_files_before_a_summary_are_those_since_the_last_reset(
    database: Database, stored: Stored, alice: Identity, bob: Identity
) -> None:
    await said_with(database, stored, alice, NOTES)
    conversation = await stored.conversation(alice)
    async with database.transaction() as tx:
        await conversations.say(tx, conversation, role="reset", text="", now=stored.now())
    await said_with(database, stored, alice, CAT, NOTES)
    await said_with(database, stored, bob, NOTES)
    async with database.transaction() as tx:
        summary = await conversations.say(
            tx, conversation, role="summary", text="Cats.", now=stored.now()
        )
    await said_with(database, stored, alice, NOTES)

    async with database.snapshot() as tx:
        every = await stored_files.summarised(tx, conversation, summary, limit=5)
        newest = await stored_files.summarised(tx, conversation, summary, limit=1)

    assert [each.name for each in every] == ["cat.png", "notes.md"]
    assert [each.name for each in newest] == ["notes.md"]
