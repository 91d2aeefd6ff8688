"""The audit log is sealed by a chain that any change breaks, and texts can be erased from it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert, select, text, update

from bot.values import Identity, Place
from db import audit, audit_chain
from db.audit import AuditEntry, Filter
from db.audit_chain import BROKEN, CHANGED, FORGED, MISSING, AuditKey, Head, Sealed, Verification
from db.database import Database
from db.settings import DatabaseSettings
from db.tables import audit as table
from tests.fakes.clock import FakeClock

KEY, OTHER_KEY = AuditKey(b"one"), AuditKey(b"two")
HALL = Place("discord", "9", "8")


def entry(clock: FakeClock, number: int, owner: str = "discord::2") -> AuditEntry:
    return AuditEntry(
        actor="discord::1",
        action="stop",
        owner=owner,
        place=HALL,
        subject=f"run {number}",
        effect="it was running",
        created_at=clock(),
    )


async def fill(database: Database, clock: FakeClock, count: int, *, owner: str = "o") -> None:
    """Record so many entries, a second apart."""
    for number in range(count):
        clock.advance(1)
        await database.write(audit.record, entry(clock, number, owner))


async def seal(database: Database, key: AuditKey = KEY) -> Sealed:
    return await database.write(audit_chain.seal, key)


async def verified(
    database: Database, *keys: AuditKey, noted: tuple[int, str] | None = None
) -> Verification:
    async with database.snapshot() as tx:
        return await audit_chain.verify(tx, keys or (KEY,), noted=noted)


async def rows(database: Database) -> Sequence[Any]:
    async with database.snapshot() as tx:
        return (await tx.execute(select(table).order_by(table.c.number))).all()


class ActionError(Exception):
    """The action that an entry is about has failed."""


def fail_if(failed: bool) -> None:
    if failed:
        raise ActionError


async def test_an_entry_is_stored_with_all_that_it_says(
    database: Database, clock: FakeClock
) -> None:
    whole = replace(entry(clock, 1), id="an id", effect="of bob\0")
    await database.write(audit.record, whole)
    await database.write(audit.record, replace(whole, effect="something else"))

    (found,) = await database.read(audit.newest, Filter(), limit=5)

    assert found.entry == replace(whole, effect="of bob\ufffd")
    assert (found.number, found.erased) == (None, False)


async def test_an_entry_of_an_action_that_fails_is_not_stored(
    database: Database, clock: FakeClock
) -> None:
    async def fail() -> None:
        async with database.transaction() as tx:
            await audit.record(tx, entry(clock, 1))
            raise ActionError

    with pytest.raises(ActionError):
        await fail()
    await fill(database, clock, 1)

    assert await seal(database) == Sealed(1)
    assert [row.number for row in await rows(database)] == [1]


async def test_sealed_entries_verify_and_have_numbers_without_gaps(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, 3)
    assert await seal(database) == Sealed(3)
    await fill(database, clock, 2)

    before = await verified(database)
    assert (before.entries, before.unsealed, before.first_bad) == (3, 2, None)
    assert await seal(database) == Sealed(2)
    assert await seal(database) == Sealed(0)

    found = await verified(database)
    stored = await rows(database)
    assert [row.number for row in stored] == [1, 2, 3, 4, 5]
    assert (found.entries, found.unsealed, found.first_bad, found.unknown) == (5, 0, None, 0)
    assert found.end == Head(5, stored[-1].chain_hash, KEY.id)
    assert stored[0].pseudonym == KEY.pseudonym("discord::1") != OTHER_KEY.pseudonym("discord::1")


async def test_more_than_a_batch_is_sealed_in_parts(
    database: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_chain, "BATCH", 2)
    await fill(database, clock, 5)

    assert [await seal(database) for _ in range(3)] == [
        Sealed(2, more=True),
        Sealed(2, more=True),
        Sealed(1),
    ]
    assert (await verified(database)).entries == 5


CHANGES: dict[str, Any] = {
    "user_id": "discord::6",
    "owner_id": "discord::6",
    "action": "spawn",
    "subject": "run 9",
    "effect": "nothing",
    "channel": "slack",
    "place_workspace": "T1",
    "place_channel": "C1",
    "place_thread": "t",
    "place_message": "m",
    "id": "another",
    "pseudonym": "x",
    "owner_pseudonym": "x",
    "text_hash": "x",
    "chain_hash": "x",
    "created_at": None,
}


@pytest.mark.parametrize("column", CHANGES)
async def test_a_changed_entry_is_found_and_named(
    database: Database, clock: FakeClock, column: str
) -> None:
    await fill(database, clock, 4)
    await seal(database)

    value = CHANGES[column] or clock() + timedelta(microseconds=1)
    async with database.transaction() as tx:
        await tx.execute(update(table).where(table.c.number == 2).values({column: value}))

    found = await verified(database)
    assert found.first_bad == 2
    assert found.problem in {CHANGED, BROKEN}


async def test_every_column_is_covered_by_the_tests_of_changes() -> None:
    assert {*CHANGES, "number", "key_id", "erased_at"} == {each.key for each in table.columns}


async def test_a_removed_an_inserted_and_a_swapped_entry_are_found(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, 5)
    await seal(database)
    names = [each.key for each in table.columns]
    stored = [{name: getattr(row, name) for name in names} for row in await rows(database)]

    async def found_with(*values: dict[str, Any]) -> tuple[int | None, str]:
        async with database.transaction() as tx:
            await tx.execute(delete(table))
            await tx.execute(insert(table), list(values))
        found = await verified(database)
        return found.first_bad, found.problem

    first, second, third, fourth, fifth = stored
    assert await found_with(first, second, fourth, fifth) == (4, MISSING)
    assert await found_with(second, third, fourth, fifth) == (2, MISSING)
    moved = [{**each, "number": each["number"] + 1} for each in stored[2:]]
    forged = {**second, "id": "forged", "number": 3}
    assert await found_with(first, second, forged, *moved) == (3, BROKEN)
    swapped = {**third, "number": 2}, {**second, "number": 3}
    assert await found_with(first, *swapped, fourth, fifth) == (2, BROKEN)
    assert await found_with(*stored) == (None, "")


@pytest.mark.parametrize("number", [0, -4])
async def test_an_entry_with_a_number_before_the_first_is_found(
    database: Database, clock: FakeClock, number: int
) -> None:
    await fill(database, clock, 2)
    await seal(database)
    async with database.transaction() as tx:
        await audit.record(tx, replace(entry(clock, 9), id="forged"))
        forged = table.c.id == "forged"
        await tx.execute(update(table).where(forged).values(number=number))

    found = await verified(database)

    assert (found.first_bad, found.problem) == (number, FORGED)


async def test_an_entry_that_was_added_later_than_it_says_is_counted(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, 2)
    await seal(database)
    ago = replace(entry(clock, 8), created_at=clock() - timedelta(minutes=50))
    await database.write(audit.record, ago)
    await seal(database)
    assert (await verified(database)).late == 0
    await database.write(audit.record, replace(ago, created_at=clock() - timedelta(days=3)))
    await seal(database)
    await fill(database, clock, 1)
    await seal(database)

    found = await verified(database)

    assert (found.entries, found.first_bad, found.late) == (5, None, 1)


async def test_a_chain_that_was_made_anew_lacks_the_head_that_was_noted(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, 3)
    await seal(database)
    noted = await database.read(audit_chain.head)
    assert (await verified(database, noted=(noted.number, noted.chain_hash))).noted

    # Whoever has the key as well can cut the newest entries off, or write all anew.
    async with database.transaction() as tx:
        await tx.execute(delete(table).where(table.c.number == 3))
    cut = await verified(database, noted=(noted.number, noted.chain_hash))

    assert (cut.first_bad, cut.noted) == (None, False)


async def test_entries_of_a_key_that_is_not_known_cannot_be_checked_and_are_counted(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, 2)
    await seal(database, OTHER_KEY)
    await fill(database, clock, 1)

    assert await seal(database) == Sealed(1, other_key=OTHER_KEY.id)

    assert (await verified(database)).unknown == 2
    assert (await verified(database, KEY, OTHER_KEY)).unknown == 0


async def test_the_text_of_a_user_is_erased_and_the_chain_still_verifies(
    database: Database, clock: FakeClock
) -> None:
    alice = "discord::77"
    await fill(database, clock, 2, owner=alice)
    await fill(database, clock, 1)
    await seal(database)
    await fill(database, clock, 1, owner=alice)

    assert not await database.write(audit.erase_of, alice, clock())
    unsealed = [row for row in await rows(database) if row.number is None]
    await seal(database)

    # It is sealed first: its hash is that of the text.
    assert [row.subject for row in unsealed] == ["run 0"]
    stored = await rows(database)
    assert [row.subject for row in stored] == ["", "", "run 0", ""]
    assert alice not in repr([tuple(row) for row in stored])
    assert {row.owner_pseudonym for row in stored} == {KEY.pseudonym(alice), KEY.pseudonym("o")}
    found = await verified(database)
    assert (found.entries, found.erased, found.first_bad) == (4, 3, None)
    wanted = Filter(user=alice, pseudonyms=(KEY.pseudonym(alice),))
    assert len(await database.read(audit.newest, wanted, limit=9)) == 3


#: How many transactions wait for a lock.
WAITING = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


async def test_the_text_of_a_user_is_erased_although_it_is_being_sealed(
    database: Database, database_settings: DatabaseSettings, clock: FakeClock
) -> None:
    if database.is_sqlite:
        return  # One transaction writes at a time.
    await fill(database, clock, 3, owner="o")
    async with (
        Database.open(database_settings) as elsewhere,
        asyncio.TaskGroup() as group,
        database.transaction() as tx,
    ):
        await audit_chain.seal(tx, KEY)
        group.create_task(elsewhere.write(audit.erase_of, "o", clock()))
        while not await tx.scalar(WAITING):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)

    assert [row.subject for row in await rows(database)] == ["", "", ""]
    assert (await verified(database)).first_bad is None


async def test_an_erased_text_cannot_be_replaced_by_another(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, 2, owner="o")
    await seal(database)
    await database.write(audit.erase_of, "o", clock())
    async with database.transaction() as tx:
        await tx.execute(update(table).where(table.c.number == 2).values(subject="a lie"))

    found = await verified(database)
    assert (found.first_bad, found.problem) == (2, CHANGED)


async def test_old_texts_are_erased_and_young_ones_stay(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, 2)
    moment = clock() + timedelta(seconds=1)
    await fill(database, clock, 2)
    await seal(database)

    assert not await database.write(audit.erase_before, moment, clock())

    assert [row.subject for row in await rows(database)] == ["", "", "run 0", "run 1"]
    assert (await verified(database)).first_bad is None


async def test_entries_are_filtered(database: Database, clock: FakeClock) -> None:
    began = clock()
    alice, bob = Identity("discord", "", "1").key, Identity("discord", "", "2").key
    for action, actor, owner, place in (
        ("spawn", alice, alice, HALL),
        ("stop", bob, alice, HALL),
        ("raise", bob, "", Place("slack", "T1", "C1")),
    ):
        clock.advance(60)
        await database.write(
            audit.record,
            AuditEntry(actor=actor, action=action, owner=owner, place=place, created_at=clock()),
        )

    async def found(**wanted: Any) -> list[str]:
        stored = await database.read(audit.newest, Filter(**wanted), limit=9)
        assert await database.read(audit.count, Filter(**wanted)) == len(stored)
        return [each.entry.action for each in stored]

    assert await found() == ["raise", "stop", "spawn"]
    assert await found(user=alice) == ["stop", "spawn"]
    assert await found(user=bob) == ["raise", "stop"]
    assert await found(action="stop") == ["stop"]
    assert await found(since=began + timedelta(seconds=120)) == ["raise", "stop"]
    assert await found(place=Place("discord", "9", "other channel")) == ["stop", "spawn"]
    assert await found(place=Place("slack", "T1"), user=alice) == []


async def test_one_process_seals_at_a_time_and_rows_of_many_writers_verify(
    database: Database, database_settings: DatabaseSettings, clock: FakeClock
) -> None:
    async def write(number: int) -> None:
        for each in range(10):
            with suppress(ActionError):
                async with database.transaction() as tx:
                    await audit.record(tx, entry(clock, number * 100 + each))
                    fail_if(each % 5 == 4)
            await seal(database)

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(write(number))
    await seal(database)

    found = await verified(database)
    assert (found.entries, found.unsealed, found.first_bad) == (48, 0, None)
    if not database.is_sqlite:  # On a file there is one bot, and one writer.
        await fill(database, clock, 1)
        async with Database.open(database_settings) as elsewhere, database.transaction() as tx:
            assert await audit_chain.seal(tx, KEY) == Sealed(1)
            assert await seal(elsewhere) == Sealed(0)


#: What happens to an audit log, in any order.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from("ab")),
        st.tuples(st.just("seal"), st.just("")),
        st.tuples(st.just("erase"), st.sampled_from("ab")),
        st.tuples(st.just("retain"), st.integers(0, 20).map(str)),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, broken=st.integers(0, 30), column=st.sampled_from(sorted(CHANGES)))
async def test_whatever_happens_the_log_verifies_until_it_is_changed(
    database: Database,
    clock: FakeClock,
    steps: list[tuple[str, str]],
    broken: int,
    column: str,
) -> None:
    async with database.transaction() as tx:
        await tx.execute(delete(table))
    count = 0
    for kind, of in steps:
        clock.advance(1)
        if kind == "record":
            count += 1
            await database.write(audit.record, entry(clock, count, of))
        elif kind == "seal":
            await seal(database)
        elif kind == "erase":
            await database.write(audit.erase_of, of, clock())
        else:
            moment = clock() - timedelta(seconds=int(of))
            await database.write(audit.erase_before, moment, clock())
    await seal(database)

    found = await verified(database)
    stored = await rows(database)
    assert (found.entries, found.unsealed, found.first_bad) == (count, 0, None)
    assert all(row.subject == "" for row in stored if row.erased_at is not None)
    if broken < count:
        value = CHANGES[column] or clock() + timedelta(days=1)
        async with database.transaction() as tx:
            where = table.c.number == broken + 1
            await tx.execute(update(table).where(where).values({column: value}))
        assert (await verified(database)).first_bad is not None
