"""Nothing that is stored about a user under a legal hold is erased, whatever else happens."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import insert, select, update

from bot.values import ConversationMode, File, Identity, Place
from db import conversations, edits, files, holds, retention, steps, user_data
from db.audit import erase_before
from db.conversations import Attribution
from db.database import Database
from db.holds import Hold
from db.retention import RULES
from db.tables import audit, held_copies, messages, subagent_runs, turns
from db.users import ensure_user
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

BOB = Identity("discord", "", "22")
THREAD = Place("discord", "guild", "general", "thread")
YEAR = timedelta(days=400)


def case(user: Identity, clock: FakeClock, name: str = "Case 7") -> Hold:
    return Hold(
        user_id=user.key,
        shown="discord:1",
        name=name,
        held_by="terminal::root",
        created_at=clock(),
    )


async def say(database: Database, clock: FakeClock, user: Identity, text: str) -> None:
    """Store a message with a file in a shared thread; its text is its reference."""
    async with database.transaction() as tx:
        await ensure_user(tx, user, "", clock())
        here = await conversations.find_or_open(
            tx, user, THREAD, clock(), ConversationMode(shared=True)
        )
        by = Attribution(author=user.key, author_number=1, reference=text)
        message = await conversations.say(tx, here, role="user", text=text, now=clock(), by=by)
        await files.put_files(tx, message, [File("a.txt", "", text.encode())], clock())


async def texts(database: Database) -> list[str]:
    async with database.snapshot() as tx:
        return [*await tx.scalars(select(messages.c.text).order_by(messages.c.id))]


async def copies(database: Database) -> list[tuple[str, str, bytes | None]]:
    columns = (held_copies.c.text, held_copies.c.name, held_copies.c.data)
    async with database.snapshot() as tx:
        rows = await tx.execute(select(*columns).order_by(held_copies.c.id))
        return [(row.text, row.name, row.data) for row in rows]


async def change(database: Database, clock: FakeClock, text: str, new: str | None) -> None:
    """Edit a message, or delete it."""
    async with database.transaction() as tx:
        for copy in await edits.copies(tx, replace(THREAD, message=text)):
            if new is None:
                await edits.delete(tx, copy, clock())
            else:
                await edits.rewrite(tx, copy, new, quotes=False, now=clock())


async def forget(database: Database, clock: FakeClock) -> None:
    """Delete all that is old a year from now."""
    for rule in RULES:
        while await database.write(retention.forget, rule, clock() + YEAR):
            pass
    await database.write(erase_before, clock() + YEAR, clock())
    for table in retention.UNREFERENCED:
        await database.write(retention.forget_unreferenced, table, clock() + YEAR, "")


async def test_a_held_message_that_is_edited_or_deleted_is_kept_apart_with_its_files(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    await database.write(holds.place, case(alice, clock))
    for user, text in ((alice, "one"), (alice, "two"), (BOB, "three")):
        await say(database, clock, user, text)

    await change(database, clock, "one", "better")
    await change(database, clock, "two", None)
    await change(database, clock, "three", None)

    assert await texts(database) == ["better", "", ""]
    assert await copies(database) == [
        ("one", "", None),
        ("", "a.txt", b"one"),
        ("two", "", None),
        ("", "a.txt", b"two"),
    ]


async def test_what_was_kept_goes_with_the_last_hold(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    await say(database, clock, alice, "one")
    for name in ("Case 7", "Case 8"):
        assert await database.write(holds.place, case(alice, clock, name))
    assert not await database.write(holds.place, case(alice, clock))
    await change(database, clock, "one", None)

    assert await database.write(holds.release, alice.key, "Case 7")
    assert not await database.write(holds.release, alice.key, "Case 7")
    kept = await copies(database)
    assert await database.write(holds.release, alice.key, "Case 8")

    assert len(kept) == 2
    assert await copies(database) == []


async def test_retention_spares_the_rows_of_a_held_user_alone_until_the_release(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    for user in (alice, BOB):
        await say(database, clock, user, f"by {user.key}")
        turn = await stored.turn(user, await stored.conversation(user))
        run = await stored.run(user, status="completed")
        async with database.transaction() as tx:
            await tx.execute(update(turns).values(status="done", ended_at=clock()))
            await tx.execute(update(subagent_runs).values(completed_at=clock()))
            for work in (turn, run.id):
                await steps.begin_with(tx, work, {}, clock())
            await tx.execute(
                insert(audit).values(
                    id=user.account,
                    number=int(user.account[-2:]),
                    user_id=user.key,
                    action="x",
                    subject="",
                    created_at=clock(),
                )
            )
    before = await about(database, alice)
    await database.write(holds.place, case(alice, clock))

    await forget(database, clock)
    during = await about(database, alice)
    others = await about(database, BOB)
    await database.write(holds.release, alice.key, "Case 7")
    await forget(database, clock)

    assert before["messages"]
    assert before["steps"]
    assert during == before
    assert not any(others.values())
    assert not any((await about(database, alice)).values())


async def about(database: Database, user: Identity) -> dict[str, int]:
    """Return the number of rows about a user in each table."""
    found: dict[str, int] = {}
    async with database.snapshot() as tx:
        owner = await user_data.owner_of(tx, user.key)
        async for name, number in user_data.counts(tx, owner, user_data.HOLDINGS):
            found[name] = found.get(name, 0) + number
    return found


async def test_a_hold_is_placed_after_the_erasures_that_did_not_see_it(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    erased = asyncio.Event()

    async def place() -> bool:
        found = await database.write(holds.place, case(alice, clock))
        assert erased.is_set()
        return found

    async with asyncio.TaskGroup() as group, database.transaction() as tx:
        assert await holds.of(tx, alice.key) == []
        placing = group.create_task(place())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(placing), 0.1)
        erased.set()

    assert placing.result()
    assert [each.name for each in await database.write(holds.of, alice.key)] == ["Case 7"]
