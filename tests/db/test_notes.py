"""Notes belong to one user and are numbered from 1."""

import pytest
from sqlalchemy.exc import IntegrityError

from bot.values import Identity
from db.database import Database
from db.user_texts import NOTES, Note
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet


@pytest.fixture
async def people(
    database: Database, alice: Identity, bob: Identity, clock: FakeClock
) -> tuple[str, str]:
    return await meet(database, alice, clock()), await meet(database, bob, clock())


async def store(database: Database, clock: FakeClock, user: str, *texts: str) -> list[Note]:
    async with database.transaction() as tx:
        return [
            await NOTES.add(
                tx, user, Note(id=f"{user}{text}"[-36:], title="", text=text, created_at=clock())
            )
            for text in texts
        ]


async def test_notes_are_numbered_per_user(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, bob = people

    mine = await store(database, clock, alice, "one", "two")
    theirs = await store(database, clock, bob, "three")

    assert [note.number for note in mine] == [1, 2]
    assert [note.number for note in theirs] == [1]


async def test_a_note_comes_back_as_stored(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, _ = people

    (note,) = await store(database, clock, alice, "Straße 北京 🙂\n'quoted'")

    async with database.snapshot() as tx:
        assert await NOTES.get(tx, alice, 1) == note
        assert await NOTES.find(tx, alice, note.id) == note


async def test_a_page_holds_the_newest_notes_first(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, _ = people
    await store(database, clock, alice, *"abcde")

    async with database.snapshot() as tx:
        second = await NOTES.newest(tx, alice, limit=2, offset=2)
        assert await NOTES.count(tx, alice) == 5
    assert [note.text for note in second] == ["c", "b"]


async def test_nobody_reaches_the_notes_of_another(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, bob = people
    (note,) = await store(database, clock, alice, "secret")

    async with database.transaction() as tx:
        assert await NOTES.get(tx, bob, 1) is None
        assert await NOTES.find(tx, bob, note.id) is None
        assert await NOTES.newest(tx, bob, limit=10) == []
        assert await NOTES.count(tx, bob) == 0
        assert await NOTES.remove(tx, bob, 1) is False
        assert await NOTES.get(tx, alice, 1) == note


async def test_a_removed_note_is_gone(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, _ = people
    await store(database, clock, alice, "one")

    async with database.transaction() as tx:
        assert await NOTES.remove(tx, alice, 1) is True

    async with database.transaction() as tx:
        assert await NOTES.get(tx, alice, 1) is None
        assert await NOTES.remove(tx, alice, 1) is False


async def test_a_note_of_somebody_unknown_is_refused(database: Database, clock: FakeClock) -> None:
    with pytest.raises(IntegrityError):
        await store(database, clock, "discord::404", "lost")
