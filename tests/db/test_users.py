"""People are stored once, under their account, with the name they have now."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from bot.values import Identity
from db import users
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

words = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6
)


async def test_a_user_is_stored_once_and_renamed(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    first_seen = clock()
    async with database.transaction() as tx:
        await users.ensure_user(tx, alice, "Alice", clock())
    clock.advance(60)
    async with database.transaction() as tx:
        await users.ensure_user(tx, alice, "Alice B.", clock())

    async with database.snapshot() as tx:
        stored = await users.get(tx, alice.key)
        assert await users.count(tx) == 1
    assert stored == users.User(
        identity=alice, name="Alice B.", run_counter=0, created_at=first_seen
    )


async def test_the_same_user_may_arrive_twice_at_once(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    async def arrive(name: str) -> None:
        async with database.transaction() as tx:
            await users.ensure_user(tx, alice, name, clock())

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(arrive(f"Alice {number}"))

    async with database.snapshot() as tx:
        assert await users.count(tx) == 1


async def test_everybody_is_counted(
    database: Database, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    async with database.transaction() as tx:
        await users.ensure_user(tx, alice, "Alice", clock())
        await users.ensure_user(tx, bob, "Bob", clock())

        assert await users.count(tx) == 2


async def test_nobody_is_found_under_an_unknown_key(database: Database) -> None:
    async with database.snapshot() as tx:
        assert await users.get(tx, "discord::404") is None


async def test_a_name_that_is_too_long_is_cut(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    async with database.transaction() as tx:
        await users.ensure_user(tx, alice, "A" * 1000, clock())

    async with database.snapshot() as tx:
        stored = await users.get(tx, alice.key)
    assert stored is not None
    assert stored.name == "A" * 255


@given(platform=words, workspace=st.just("") | words, account=words, name=words)
async def test_a_user_comes_back_as_stored_whatever_the_account(
    database: Database, clock: FakeClock, platform: str, workspace: str, account: str, name: str
) -> None:
    person = Identity(platform, workspace, account)
    async with database.transaction() as tx:
        await users.ensure_user(tx, person, name, clock())

    async with database.snapshot() as tx:
        stored = await users.get(tx, person.key)
    assert stored is not None
    assert (stored.identity, stored.name) == (person, name)


async def test_who_locks_a_user_makes_others_wait(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    order: list[str] = []
    locked = asyncio.Event()
    async with database.transaction() as tx:
        await users.ensure_user(tx, alice, "Alice", clock())

    async def second() -> None:
        await locked.wait()
        async with database.transaction() as tx:
            await users.lock(tx, alice.key)
            order.append("second")

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(second())
        async with database.transaction() as tx:
            await users.lock(tx, alice.key)
            locked.set()
            # The second one has every chance to overtake.
            for _ in range(20):
                await users.count(tx)
            order.append("first")

    assert order == ["first", "second"]


async def test_only_somebody_else_counts_as_who_stopped_a_run(
    database: Database, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    stored = Stored(database, clock)
    await stored.person(bob)
    mine = await stored.run(alice, cancelled_by=alice.key)
    theirs = await stored.run(alice, cancelled_by=bob.key)
    going = await stored.run(alice)

    async with database.snapshot() as tx:
        assert await users.stopper_of(tx, mine.id) is None
        assert await users.stopper_of(tx, going.id) is None
        stopper = await users.stopper_of(tx, theirs.id)

    assert stopper is not None
    assert stopper.identity == bob
