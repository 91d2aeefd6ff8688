"""Notes are found by their words, in every language, and any text may be asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from bot.values import Identity
from db.database import Database, DatabaseSettings
from db.tables import notes as table
from db.user_texts import NOTES, Note, _postgresql, search_notes, words_of
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet

anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


class Shelf:
    """The notes of one user."""

    def __init__(self, database: Database, user: str, clock: FakeClock) -> None:
        self.database = database
        self._user = user
        self._clock = clock

    async def put(self, *texts: str, title: str = "") -> None:
        async with self.database.transaction() as tx:
            for each in texts:
                number = await NOTES.count(tx, self._user)
                note = Note(
                    id=f"{self._user[-20:]}x{number}",
                    title=title,
                    text=each,
                    created_at=self._clock(),
                )
                await NOTES.add(tx, self._user, note)

    async def search(self, query: str, limit: int = 10) -> list[str]:
        async with self.database.snapshot() as tx:
            return [n.text for n in await search_notes(tx, self._user, query, limit=limit)]


@pytest.fixture
async def shelf(database: Database, alice: Identity, clock: FakeClock) -> Shelf:
    return Shelf(database, await meet(database, alice, clock()), clock)


@pytest.fixture
async def other_shelf(database: Database, bob: Identity, clock: FakeClock) -> Shelf:
    return Shelf(database, await meet(database, bob, clock()), clock)


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("Move to Docker in May", "docker"),
        ("Move to Docker in May", "DOCK"),
        ("Große Straße", "straße"),
        ("ÄPFEL kaufen", "äpfel"),
        ("Купить Хлеб", "хлеб"),
        ("मुझे हिन्दी पसंद है", "हिन्दी"),
        ("明天去北京开会", "北京"),
        ("see https://example.com/plans/2026?x=1", "plans"),
        ("write to ann.lee@example.com", "lee"),
        ("the file report_final-v2.pdf", "final"),
        ("it is <b>bold</b> & <new>", "new"),
        ("don't forget", "don't"),
        ("version 3.14", "3.14"),
    ],
)
async def test_a_note_is_found_by_its_words(shelf: Shelf, stored: str, query: str) -> None:
    await shelf.put("something else", stored)

    assert await shelf.search(query) == [stored]


async def test_titles_are_searched_too(shelf: Shelf) -> None:
    await shelf.put("two eggs, flour", title="Pancakes")

    assert await shelf.search("pancake") == ["two eggs, flour"]


async def test_notes_with_all_words_come_alone(shelf: Shelf) -> None:
    await shelf.put("docker", "the docker migration", "migration")

    assert await shelf.search("migration docker") == ["the docker migration"]


async def test_without_a_note_of_all_words_those_with_any_come(shelf: Shelf) -> None:
    await shelf.put("docker", "migration", "eggs")

    assert set(await shelf.search("docker migration tomorrow")) == {"docker", "migration"}


async def test_the_note_that_speaks_most_of_it_comes_first(shelf: Shelf) -> None:
    often = "docker docker docker"
    await shelf.put("a docker among many other words of no interest here", often, "and docker")

    assert (await shelf.search("docker"))[0] == often


async def test_no_more_notes_come_than_were_asked_for(shelf: Shelf) -> None:
    await shelf.put("egg one", "egg two", "egg three")

    assert len(await shelf.search("egg", limit=2)) == 2


async def test_nobody_finds_the_notes_of_another(shelf: Shelf, other_shelf: Shelf) -> None:
    await shelf.put("my secret plan")

    for query in ("secret", "secret nothing", "ecre"):
        assert await other_shelf.search(query) == []


async def test_the_id_of_a_note_is_no_word_of_it(shelf: Shelf) -> None:
    await shelf.put("eggs")

    assert await shelf.search("1001x0") == []


async def test_a_removed_note_is_not_found_any_more(
    shelf: Shelf, alice: Identity, database: Database
) -> None:
    await shelf.put("eggs", "eggs and flour")
    async with database.transaction() as tx:
        await NOTES.remove(tx, alice.key, 1)

    assert await shelf.search("eggs") == ["eggs and flour"]


async def test_a_changed_note_is_found_by_its_new_words_alone(
    shelf: Shelf, database: Database
) -> None:
    await shelf.put("eggs")
    async with database.transaction() as tx:
        await tx.execute(table.update().values(text="flour"))

    assert await shelf.search("flour") == ["flour"]
    assert await shelf.search("eggs") == []


@pytest.mark.parametrize("query", ["", "   ", '"', "* OR NOT (", "'); DROP TABLE notes; --", "🙂"])
async def test_a_query_without_words_that_occur_finds_nothing(shelf: Shelf, query: str) -> None:
    await shelf.put("eggs")

    assert await shelf.search(query) == []


@given(query=anything)
async def test_any_text_may_be_asked_for(shelf: Shelf, query: str) -> None:
    assert await shelf.search(query) == []


@pytest.mark.parametrize("word", ["x" * 10_000, "北" * 10_000])
async def test_a_word_of_any_length_may_be_asked_for(shelf: Shelf, word: str) -> None:
    await shelf.put(word[:5000])

    assert len(await shelf.search(word)) in {0, 1}


@given(query=anything)
def test_words_are_few_short_and_without_punctuation(query: str) -> None:
    words = words_of(query)

    assert len(words) <= 20
    assert len(set(words)) == len(words)
    assert not any(mark in word for word in words for mark in "'\"*()\\:&|!")
    assert all(0 < len(word) <= 100 for word in words)


async def test_postgresql_searches_with_its_index(postgres_url: str) -> None:
    async with (
        Database.open(DatabaseSettings(url=postgres_url)) as database,
        database.transaction() as tx,
    ):
        asked = _postgresql(["docker"], every=True).compile(
            dialect=tx.dialect, compile_kwargs={"literal_binds": True}
        )
        await tx.execute(text("SET LOCAL enable_seqscan = off"))
        plan = await tx.exec_driver_sql(f"EXPLAIN {asked}")

        assert "ix_notes_words" in "\n".join(row[0] for row in plan)
