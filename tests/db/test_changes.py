"""Changes are kept for one user, newest first, as many of a kind as there may be, for a time."""

from datetime import timedelta

import pytest
from sqlalchemy import delete

from bot.changes import Cause
from bot.errors import ToolError
from bot.values import Identity, Json, new_run_id
from db import changes
from db.changes import StoredChange, fingerprint
from db.database import Database
from db.tables import changes as table
from db.tables import users
from tests.fakes.clock import FakeClock
from tests.fakes.forgetting import forget
from tests.fakes.rows import meet

STATE = {"number": 3, "text": "Straße 北京 🙂 \0 'quoted'", "title": ""}


MOST_PER_KIND = 20


@pytest.fixture(autouse=True)
def few_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the limit one that is reached soon."""
    monkeypatch.setattr(changes, "MOST_PER_KIND", MOST_PER_KIND)


@pytest.fixture
async def people(
    database: Database, alice: Identity, bob: Identity, clock: FakeClock
) -> tuple[str, str]:
    return await meet(database, alice, clock()), await meet(database, bob, clock())


async def keep(
    database: Database,
    user: str,
    clock: FakeClock,
    *,
    kind: str = "note",
    key: str = "n1",
    before: Json | None = None,
    run_id: str | None = None,
    drops: bool = True,
) -> StoredChange:
    cause = Cause(user_id=user, work_id="turn-1", run_id=run_id)
    async with database.transaction() as tx:
        return await changes.keep(
            tx,
            cause,
            kind=kind,
            key=key,
            title="t" * 300,
            before=before,
            after=None,
            now=clock(),
            drops=drops,
        )


async def newest(database: Database, user: str) -> list[StoredChange]:
    async with database.snapshot() as tx:
        return list(await changes.newest(tx, user))


async def test_a_change_comes_back_as_stored_to_its_user_alone(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, bob = people

    kept = await keep(database, alice, clock, before={"text": "Straße 北京"}, run_id=new_run_id())

    assert await newest(database, alice) == [kept]
    assert await newest(database, bob) == []


async def test_changes_come_newest_first_even_when_the_clock_stands_still(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    kept = [await keep(database, people[0], clock, key=str(number)) for number in range(5)]

    assert await newest(database, people[0]) == kept[::-1]


async def test_what_is_too_much_of_a_kind_drops_the_oldest_of_that_kind_and_user(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, bob = people
    first = await keep(database, alice, clock, kind="memory")
    theirs = await keep(database, bob, clock)
    kept = [await keep(database, alice, clock) for _ in range(MOST_PER_KIND + 3)]

    assert await newest(database, alice) == [*kept[:2:-1], first]
    assert await newest(database, bob) == [theirs]


async def test_a_change_that_may_drop_nothing_is_refused_once_its_kind_is_full(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, bob = people
    kept = [await keep(database, alice, clock, drops=False) for _ in range(MOST_PER_KIND)]

    with pytest.raises(ToolError, match="The undo store is full"):
        await keep(database, alice, clock, drops=False)

    assert await newest(database, alice) == kept[::-1]
    async with database.snapshot() as tx:
        assert not await changes.has_room(tx, alice, "note")
        assert await changes.has_room(tx, alice, "memory")
        assert await changes.has_room(tx, bob, "note")


async def test_a_change_is_marked_as_undone_once_and_by_its_user_alone(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    alice, bob = people
    kept = await keep(database, alice, clock)

    async with database.transaction() as tx:
        marked = [
            await changes.mark_undone(tx, user, kept.id, clock()) for user in (bob, alice, alice)
        ]

    assert marked == [False, True, False]
    assert [change.undone for change in await newest(database, alice)] == [True]


async def test_old_changes_are_forgotten(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    await keep(database, people[0], clock)
    clock.advance(30 * 86_400)
    later = await keep(database, people[0], clock)

    async with database.transaction() as tx:
        gone = await forget(tx, table, clock() - timedelta(days=1))

    assert (gone, await newest(database, people[0])) == (1, [later])


async def test_the_changes_of_a_deleted_user_go_with_them(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    await keep(database, people[0], clock)

    async with database.transaction() as tx:
        await tx.execute(delete(users).where(users.c.id == people[0]))

    assert await newest(database, people[0]) == []


async def test_a_state_has_the_same_fingerprint_after_the_database(
    database: Database, clock: FakeClock, people: tuple[str, str]
) -> None:
    await keep(database, people[0], clock, before=STATE)

    (found,) = await newest(database, people[0])

    assert fingerprint(found.before) == fingerprint(STATE)
    assert fingerprint(None) == ""
