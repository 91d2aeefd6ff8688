"""A list belongs to one user, under one id."""

from datetime import timedelta

from bot.values import Identity
from db import todos
from db.database import Database
from db.tables import todos as table
from db.todos import Todo, progress
from tests.fakes.clock import FakeClock
from tests.fakes.forgetting import forget
from tests.fakes.rows import meet

ITEMS = [Todo("Read 北京 🙂", "done"), Todo("'Write'", "pending")]


async def test_a_list_comes_back_as_written_to_its_user_alone(
    database: Database, alice: Identity, bob: Identity, clock: FakeClock
) -> None:
    for user in (alice, bob):
        await meet(database, user, clock())
    async with database.transaction() as tx:
        await todos.write(tx, "c1", alice.key, ITEMS, clock())

    async with database.transaction() as tx:
        assert await todos.read(tx, "c1", alice.key) == ITEMS
        assert await todos.read(tx, "c2", alice.key) == []
        assert await todos.read(tx, "c1", bob.key) == []
        await todos.write(tx, "c1", bob.key, ITEMS[:1], clock())
        await todos.write(tx, "c1", bob.key, [], clock())
        assert await todos.read(tx, "c1", alice.key) == ITEMS
        await todos.write(tx, "c1", alice.key, ITEMS[1:], clock())
        assert await todos.read(tx, "c1", alice.key) == ITEMS[1:]
        await todos.write(tx, "c1", alice.key, [], clock())
        assert await todos.read(tx, "c1", alice.key) == []


async def test_a_list_that_nobody_touches_is_forgotten(
    database: Database, alice: Identity, clock: FakeClock
) -> None:
    await meet(database, alice, clock())
    async with database.transaction() as tx:
        await todos.write(tx, "c1", alice.key, ITEMS, clock())

    async with database.transaction() as tx:
        assert await forget(tx, table, clock()) == 0
        assert await forget(tx, table, clock() + timedelta(seconds=1)) == 1


def test_progress_is_what_is_done_of_all() -> None:
    assert progress(ITEMS) == "1 of 2 done"
