"""Memories belong to one user, come newest first, and are found by their words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.values import Identity
from db import conversations
from db.database import Database
from db.user_texts import MEMORIES, Memory, fitting, said_by
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet
from tests.fakes.stored import Stored


def memory(number: int, text: str, clock: FakeClock, owner: str = "") -> Memory:
    return Memory(
        id=f"{owner[-20:]}{number}",
        number=number,
        text=text,
        origin="said",
        conversation_id="c1",
        message_id="m1",
        created_at=clock(),
    )


@pytest.fixture
async def people(
    database: Database, alice: Identity, bob: Identity, clock: FakeClock
) -> tuple[str, str]:
    return await meet(database, alice, clock()), await meet(database, bob, clock())


async def test_a_memory_comes_back_as_stored_to_its_user_alone(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, bob = people
    kept = memory(1, "Straße 北京 🙂 'quoted'", clock)
    async with database.transaction() as tx:
        await MEMORIES.add(tx, alice, kept)

    async with database.transaction() as tx:
        assert await MEMORIES.get(tx, alice, 1) == kept
        assert await MEMORIES.find(tx, alice, kept.id, "") == kept
        assert await MEMORIES.find(tx, alice, "", kept.text) == kept
        assert await MEMORIES.newest(tx, bob) == []
        assert await MEMORIES.get(tx, bob, 1) is None
        assert await MEMORIES.find(tx, bob, kept.id, kept.text) is None
        assert await MEMORIES.remove(tx, bob, 1) is False
        assert await MEMORIES.remove(tx, alice, 1) is True
        assert await MEMORIES.newest(tx, alice) == []


async def test_a_number_that_is_taken_or_not_given_is_the_next_one(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, bob = people
    async with database.transaction() as tx:
        numbers = [
            (await MEMORIES.add(tx, user, memory(number, text, clock, user + text))).number
            for user, number, text in (
                (alice, 7, "a"),
                (alice, 7, "b"),
                (alice, 0, "c"),
                (bob, 0, "d"),
            )
        ]

    assert numbers == [7, 8, 9, 1]


async def test_the_newest_come_first(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, bob = people
    async with database.transaction() as tx:
        for number, text in enumerate("abc", start=1):
            await MEMORIES.add(tx, alice, memory(number, text, clock, alice))
            await MEMORIES.add(tx, bob, memory(number, text, clock, bob))

    async with database.snapshot() as tx:
        assert [item.text for item in await MEMORIES.newest(tx, alice)] == ["c", "b", "a"]


async def test_only_a_users_own_words_in_their_own_conversation_are_what_they_said(
    database: Database, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    stored = Stored(database, clock)
    mine, others = await stored.conversation(alice), await stored.conversation(bob)
    async with database.transaction() as tx:
        for where in (mine, others):
            for role in ("user", "assistant", "result"):
                await conversations.say(tx, where, role=role, text=role, now=clock())
        await conversations.say(tx, mine, role="user", text="again", now=clock())

    async with database.snapshot() as tx:
        said = await said_by(tx, alice.key, mine, limit=10)
        last = await said_by(tx, alice.key, mine, limit=1)
        theirs = await said_by(tx, alice.key, others, limit=10)
    assert [text for _, text in said] == ["again", "user"]
    assert [text for _, text in last] == ["again"]
    assert theirs == []


def test_what_shares_most_words_comes_first_and_small_words_do_not_count(clock: FakeClock) -> None:
    texts = ["I am a cat", "My cat is called Äpfelchen", "I work in Berlin", "äpfelchen"]
    known = [memory(number, text, clock) for number, text in enumerate(texts, start=1)]

    found = fitting(known, "How is my CAT äpfelchen, and am I at home?")

    assert [item.number for item in found] == [2, 4, 1]
    assert fitting(known, "am I at a") == []


@given(query=st.text(), texts=st.lists(st.text(max_size=20), max_size=8))
def test_any_text_may_be_asked_for(query: str, texts: list[str]) -> None:
    known = [memory(number, text, FakeClock()) for number, text in enumerate(texts, start=1)]

    assert set(fitting(known, query)) <= set(known)
