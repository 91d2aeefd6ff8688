"""Stored messages follow their authors; one that a turn has read loses its text alone."""

from dataclasses import replace

import pytest

from bot.values import ConversationMode, File, Identity, Place
from db import conversations, edits, files, turns, user_data, user_deletion
from db.conversations import Attribution
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

SHARED = ConversationMode(shared=True)
THREAD = Place("discord", "guild", "general", "thread")


class Talk:
    """A shared conversation with messages of a user."""

    def __init__(self, database: Database, clock: FakeClock, user: Identity, place: Place) -> None:
        self.database, self.clock, self.user, self.place = database, clock, user, place
        self.conversation = ""

    async def say(self, text: str, *, joins: str = "", overheard: bool = False) -> str:
        """Store a message with its text as its reference; return the turn that waits for it."""
        async with self.database.transaction() as tx:
            self.conversation = await conversations.find_or_open(
                tx, self.user, self.place, self.clock(), SHARED
            )
            by = Attribution(author=self.user.key, author_number=1, reference=text)
            message = await conversations.say(
                tx,
                self.conversation,
                role="user",
                text=text,
                now=self.clock(),
                by=by,
                overheard=overheard,
            )
            if overheard:
                return ""
            if joins:
                await turns.join(tx, joins, message, self.place)
                return joins
            return await turns.add(
                tx,
                self.conversation,
                user=self.user,
                place=self.place,
                message_id=message,
                now=self.clock(),
            )

    async def delete(
        self, text: str, place: Place | None = None
    ) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
        """Delete a message; return the owner of the files of each copy, and the files."""
        async with self.database.transaction() as tx:
            copies = await edits.copies(tx, replace(place or self.place, message=text))
            return [(each.files_of, await edits.delete(tx, each, self.clock())) for each in copies]

    async def texts(self) -> list[str]:
        async with self.database.snapshot() as tx:
            return await conversations.user_texts(tx, self.conversation, self.user, 10)

    async def answers(self, turn: str) -> str | None:
        """Return the text of the message that a turn answers; `None` if the turn is gone."""
        async with self.database.snapshot() as tx:
            found = await turns.get(tx, turn)
            return None if found is None else await conversations.text_of(tx, found.message_id)


@pytest.fixture
async def talk(database: Database, stored: Stored, clock: FakeClock, alice: Identity) -> Talk:
    await stored.person(alice)
    return Talk(database, clock, alice, THREAD)


async def test_a_deleted_message_takes_its_waiting_turn_with_it(talk: Talk) -> None:
    turn = await talk.say("one")

    await talk.delete("one")

    assert await talk.answers(turn) is None
    assert await talk.texts() == []


async def test_of_joined_messages_the_others_are_answered(talk: Talk) -> None:
    turn = await talk.say("one")
    await talk.say("two", joins=turn)
    await talk.say("three", joins=turn)

    await talk.delete("three")
    assert await talk.answers(turn) == "two"
    await talk.delete("one")
    assert await talk.answers(turn) == "two"
    assert await talk.texts() == ["two"]


async def test_a_message_that_a_turn_has_read_loses_its_text_alone(
    talk: Talk, stored: Stored
) -> None:
    turn = await talk.say("one")
    assert await stored.claim_turn(talk.conversation) == turn

    await talk.delete("one")

    assert await talk.answers(turn) == ""


async def test_an_overheard_message_is_gone(talk: Talk) -> None:
    await talk.say("psst", overheard=True)

    await talk.delete("psst")

    assert await talk.texts() == []


async def test_an_edit_names_the_thread_as_the_channel_that_holds_the_message(talk: Talk) -> None:
    await talk.say("one")
    thread = Place("discord", "guild", "thread", message="one")
    async with talk.database.transaction() as tx:
        (copy,) = await edits.copies(tx, thread)
        await edits.rewrite(tx, copy, "better", quotes=False, now=talk.clock())

    assert await talk.texts() == ["better"]


@pytest.mark.parametrize(
    "place",
    [
        Place("discord", "other", "general"),
        Place("discord", "guild", "elsewhere"),
        Place("slack", "guild", "general"),
    ],
)
async def test_a_message_of_the_same_id_elsewhere_is_another_one(talk: Talk, place: Place) -> None:
    await talk.say("one")

    await talk.delete("one", place)

    assert await talk.texts() == ["one"]


async def test_the_files_of_a_deleted_message_are_named_with_their_owner(
    talk: Talk, alice: Identity
) -> None:
    await talk.say("first")
    async with talk.database.transaction() as tx:
        copies = await edits.copies(tx, replace(THREAD, message="first"))
        await files.put_files(tx, copies[0].id, [File("a.txt", "", b"abc")], talk.clock())
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

    assert await talk.delete("first") == [(THREAD.files_key, (("a.txt", digest),))]
    assert await talk.delete("first") == []
    assert replace(copies[0], shared=False).files_of == alice.key


async def test_a_file_that_another_message_has_as_well_is_not_named(talk: Talk) -> None:
    await talk.say("first")
    await talk.say("second")
    async with talk.database.transaction() as tx:
        for name in ("first", "second"):
            (copy,) = await edits.copies(tx, replace(talk.place, message=name))
            await files.put_files(tx, copy.id, [File("a.txt", "", b"abc")], talk.clock())

    assert await talk.delete("first") == [(THREAD.files_key, ())]
    ((_, named),) = await talk.delete("second")
    assert [name for name, _ in named] == ["a.txt"]


async def test_an_edit_does_not_bring_back_the_words_of_a_deleted_user(
    talk: Talk, alice: Identity
) -> None:
    await talk.say("zebra", overheard=True)
    async with talk.database.transaction() as tx:
        owner = await user_data.owner_of(tx, alice.key)
        since = now = talk.clock()
        await user_deletion.delete_user(tx, owner, counted_since=since, now=now)

        assert await edits.copies(tx, replace(talk.place, message="zebra")) == []
