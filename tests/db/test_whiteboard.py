"""A board holds values under keys, one board per run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError

from bot.errors import BadRequestError
from bot.values import Identity, new_run_id
from db import whiteboard
from db.database import Database
from db.tables import subagent_runs
from db.whiteboard import MOST_KEYS, WhiteboardEntry
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet, store_run

keys = st.sampled_from(["plan", "urls", "résumé"])
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@pytest.fixture
async def board(database: Database, alice: Identity, clock: FakeClock) -> str:
    await meet(database, alice, clock())
    return await store_run(database, alice, clock())


async def test_a_value_is_read_back_and_replaced(
    database: Database, board: str, clock: FakeClock
) -> None:
    async with database.transaction() as tx:
        await whiteboard.write(tx, board, "plan", "first", clock())
        await whiteboard.write(tx, board, "plan", "second", clock())

    async with database.snapshot() as tx:
        assert await whiteboard.read(tx, board, "plan") == "second"
        assert await whiteboard.read(tx, board, "other") is None


async def test_entries_come_in_order_with_the_beginning_of_their_values(
    database: Database, board: str, clock: FakeClock
) -> None:
    async with database.transaction() as tx:
        await whiteboard.write(tx, board, "b", "ü" * 200, clock())
        await whiteboard.write(tx, board, "a", "short", clock())

    async with database.snapshot() as tx:
        found = await whiteboard.entries(tx, board, preview=10)
    assert found == [WhiteboardEntry("a", "short", 5), WhiteboardEntry("b", "ü" * 10, 200)]


async def test_boards_do_not_mix(
    database: Database, board: str, alice: Identity, clock: FakeClock
) -> None:
    other = await store_run(database, alice, clock(), number=2)
    async with database.transaction() as tx:
        await whiteboard.write(tx, board, "plan", "mine", clock())

    async with database.transaction() as tx:
        assert await whiteboard.read(tx, other, "plan") is None
        assert await whiteboard.entries(tx, other) == []
        assert await whiteboard.remove(tx, other, "plan") is False
        assert await whiteboard.read(tx, board, "plan") == "mine"


async def test_a_board_goes_with_its_run(database: Database, board: str, clock: FakeClock) -> None:
    async with database.transaction() as tx:
        await whiteboard.write(tx, board, "plan", "mine", clock())
    async with database.transaction() as tx:
        await tx.execute(delete(subagent_runs))

    async with database.snapshot() as tx:
        assert await whiteboard.entries(tx, board) == []


async def test_there_is_no_board_without_a_run(database: Database, clock: FakeClock) -> None:
    with pytest.raises(IntegrityError):
        async with database.transaction() as tx:
            await whiteboard.write(tx, new_run_id(), "plan", "lost", clock())


async def test_a_full_board_takes_changes_but_no_new_keys(
    database: Database, board: str, clock: FakeClock
) -> None:
    async with database.transaction() as tx:
        for number in range(MOST_KEYS):
            await whiteboard.write(tx, board, f"key {number}", "old", clock())

    async with database.transaction() as tx:
        await whiteboard.write(tx, board, "key 7", "new", clock())
        with pytest.raises(BadRequestError, match="full: it has 100 keys"):
            await whiteboard.write(tx, board, "one more", "x", clock())
        await whiteboard.remove(tx, board, "key 7")
        await whiteboard.write(tx, board, "one more", "x", clock())


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("k" * 201, "x", "A key has 201 characters"),
        ("  ", "x", "The key is empty"),
        ("plan", "x" * 20_001, "20,001 characters, and 20,000 is the most"),
    ],
)
async def test_what_is_too_long_is_refused_with_advice(
    database: Database, board: str, clock: FakeClock, key: str, value: str, complaint: str
) -> None:
    async with database.transaction() as tx:
        with pytest.raises(BadRequestError, match=complaint):
            await whiteboard.write(tx, board, key, value, clock())


async def test_the_longest_key_and_value_fit(
    database: Database, board: str, clock: FakeClock
) -> None:
    async with database.transaction() as tx:
        await whiteboard.write(tx, board, "北" * 200, "🙂" * 20_000, clock())

    async with database.snapshot() as tx:
        assert await whiteboard.read(tx, board, "北" * 200) == "🙂" * 20_000


async def test_spaces_around_a_key_do_not_matter(
    database: Database, board: str, clock: FakeClock
) -> None:
    async with database.transaction() as tx:
        await whiteboard.write(tx, board, " the\n plan ", "x", clock())

    async with database.snapshot() as tx:
        assert await whiteboard.read(tx, board, "the plan") == "x"


@given(changes=st.lists(st.tuples(keys, st.none() | values), max_size=8))
async def test_a_board_remembers_like_a_dictionary(
    database: Database, board: str, clock: FakeClock, changes: list[tuple[str, str | None]]
) -> None:
    expected: dict[str, str] = {}
    async with database.transaction() as tx:
        for entry in await whiteboard.entries(tx, board):
            await whiteboard.remove(tx, board, entry.key)
        for key, value in changes:
            if value is None:
                assert await whiteboard.remove(tx, board, key) is (key in expected)
                expected.pop(key, None)
            else:
                await whiteboard.write(tx, board, key, value, clock())
                expected[key] = value

    async with database.snapshot() as tx:
        entries = await whiteboard.entries(tx, board)
        assert {e.key: await whiteboard.read(tx, board, e.key) for e in entries} == expected
        assert [e.length for e in entries] == [len(expected[e.key]) for e in entries]
