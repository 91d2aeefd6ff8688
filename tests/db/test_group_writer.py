"""Items of concurrent callers share a transaction, and each fails alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from bot.errors import DatabaseUnreachableError
from bot.tasks import Tasks
from db.database import DatabaseSettings, Transaction
from db.group_writer import GroupWriter
from db.tables import users
from tests.fakes.clock import FakeClock
from tests.fakes.watched_database import WatchedDatabase

#: A name that the code which stores it refuses.
WRONG = "wrong"


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[WatchedDatabase]:
    async with WatchedDatabase.open(database_settings) as opened:
        yield opened


@pytest.fixture
async def writer(database: WatchedDatabase) -> AsyncIterator[GroupWriter[str, int]]:
    """Return a writer that stores users and returns the length of each name."""

    async def store(tx: Transaction, names: Sequence[str]) -> list[int]:
        common = {"platform": "discord", "workspace": "", "created_at": FakeClock()()}
        for name in names:
            if name == WRONG:
                raise ValueError(name)
            row = {"id": name, "account": name, "name": name}
            await tx.execute(insert(users).values(row | common))
        return [len(name) for name in names]

    async with Tasks() as tasks:
        yield GroupWriter(
            database=database, tasks=tasks, name="users", store=store, patience_seconds=0
        )


async def write(writer: GroupWriter[str, int], *names: str) -> list[int | BaseException]:
    """Write all at once, and return what each caller has."""
    written = map(writer.write, names)
    return await asyncio.gather(*written, return_exceptions=True)  # noqa: TID251


async def stored(database: WatchedDatabase) -> set[str]:
    async with database.snapshot() as tx:
        return set(await tx.scalars(select(users.c.id)))


async def test_what_is_written_at_once_shares_transactions_and_each_caller_has_its_result(
    writer: GroupWriter[str, int], database: WatchedDatabase
) -> None:
    names = ["a" * length for length in range(1, 21)]

    assert await write(writer, *names) == [*range(1, 21)]

    assert await stored(database) == set(names)
    assert database.transactions <= 2


async def test_an_item_that_the_database_refuses_fails_alone(
    writer: GroupWriter[str, int], database: WatchedDatabase
) -> None:
    first, again, other = await write(writer, "ann", "ann", "bob")

    assert (first, other) == (3, 3)
    assert isinstance(again, IntegrityError)
    assert await stored(database) == {"ann", "bob"}


async def test_an_item_that_cannot_be_written_fails_alone(
    writer: GroupWriter[str, int], database: WatchedDatabase
) -> None:
    first, wrong, other = await write(writer, "ann", WRONG, "bob")

    assert (first, other) == (3, 3)
    assert isinstance(wrong, ValueError)
    assert await stored(database) == {"ann", "bob"}


async def test_all_of_a_group_fail_while_the_database_is_unreachable(
    writer: GroupWriter[str, int], database: WatchedDatabase
) -> None:
    database.fail_next(DatabaseUnreachableError("down"), when="commit")

    failed = await write(writer, "ann", "bob")

    assert [type(each) for each in failed] == [DatabaseUnreachableError] * 2
    assert await writer.write("eve") == 3
    assert await stored(database) == {"eve"}


async def test_a_caller_that_is_cancelled_takes_nothing_from_the_others(
    writer: GroupWriter[str, int], database: WatchedDatabase
) -> None:
    hold = database.hold_next(when="answer")
    async with asyncio.TaskGroup() as group:
        ann, bob = (group.create_task(writer.write(name)) for name in ("ann", "bob"))
        await hold.reached.wait()
        ann.cancel()
        hold.released.set()

    assert ann.cancelled()
    assert bob.result() == 3
    assert await stored(database) == {"ann", "bob"}


async def test_an_item_that_waits_for_others_is_given_up_when_the_writer_ends(
    database: WatchedDatabase,
) -> None:
    gathering = asyncio.Event()

    def gather() -> float:
        gathering.set()
        return 1_000

    async def store(_: Transaction, names: Sequence[str]) -> list[int]:
        return [len(name) for name in names]

    async with Tasks() as tasks:
        writer = GroupWriter(
            database=database, tasks=tasks, name="users", store=store, gather_seconds=gather
        )
        ann = asyncio.ensure_future(writer.write("ann"))
        await gathering.wait()

    await asyncio.wait({ann}, timeout=5)
    given_up = ann.cancelled()
    ann.cancel()
    assert given_up


async def test_an_urgent_item_takes_those_that_wait_for_others_with_it(
    writer: GroupWriter[str, int], database: WatchedDatabase
) -> None:
    gathering = asyncio.Event()

    def gather() -> float:
        gathering.set()
        return 1_000

    writer.gather_seconds, writer.urgent = gather, lambda name: name == "bob"
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        ann = group.create_task(writer.write("ann"))
        await gathering.wait()
        assert not ann.done()
        await writer.write("bob")

    assert ann.result() == 3
    assert await stored(database) == {"ann", "bob"}
