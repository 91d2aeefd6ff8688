"""Everything stored about a user is exported and deleted, in every table of the schema."""

import json
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    Boolean,
    Column,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    Table,
    Uuid,
    insert,
    select,
    update,
)

from bot.values import Identity, Json
from db import user_data, user_deletion
from db.database import Database
from db.schema.base import ROUTE
from db.tables import conversations, messages, metadata, participants, subagent_runs, turns, users
from db.user_data import HOLDINGS, IMPERSONAL, NAMED_ELSEWHERE, STAYS, WITHHELD
from tests.fakes.clock import FakeClock

ALICE, BOB = Identity("discord", "", "11"), Identity("discord", "", "22")
WORDS = {ALICE: "zebra", BOB: "walrus"}
#: Columns that name an account without a foreign key.
ACCOUNTS = re.compile(r"^(user|author|owner|account)(_id|_key)?$|_by$")
#: Values that a constraint, or the code, wants.
CHECKED = {
    "turns.status": "done",
    "subagent_runs.status": "completed",
    "subagent_runs.mode": "async",
    "subagent_runs.announce": "result",
    "outbox.status": "delivered",
    "approvals.status": "approved",
    "schedules.status": "done",
    "schedule_fires.status": "counted",
    "run_questions.status": "yes",
    "run_questions.kind": "input",
    "memories.origin": "said",
    "messages.role": "user",
    "audit.number": None,
    "audit.erased_at": None,
    # An action of the user as an admin.
    "audit.owner_id": "",
}
#: Columns that name a row of another table without a foreign key.
NAMED = {
    "conversations.active_turn_id": None,
    "messages.run_id": None,
    "messages.turn_id": None,
    "steps.work_id": "subagent_runs",
    "step_media.work_id": "subagent_runs",
    "web_addresses.root_id": "turns",
}
FALSE = {"conversations.shared", "messages.overheard"}


def key_of(table: Table, user: Identity, column: Column[Any]) -> str:
    if table.name == "users":
        return user.key
    if isinstance(column.type, Uuid):
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{user.key} {table.name}"))
    return f"{user.account} {table.name}"[:32]


def value_of(table: Table, column: Column[Any], user: Identity, clock: FakeClock) -> Any:
    """Return a value with the words of a user, wherever the column takes words."""
    path = f"{table.name}.{column.name}"
    if path in NAMED:
        name = NAMED[path]
        other = metadata.tables[name] if name else None
        return None if other is None else key_of(other, user, next(iter(other.primary_key)))
    if column.foreign_keys:
        target = next(iter(column.foreign_keys)).column
        return key_of(target.table, user, target)
    if column is next(iter(table.primary_key.columns)):
        return key_of(table, user, column)
    if path in CHECKED:
        return CHECKED[path]
    kind = getattr(column.type, "impl", column.type)
    match kind:
        case DateTime():
            return clock()
        case Boolean():
            return path not in FALSE and False
        case Integer() | Float():
            return 1
        case LargeBinary():
            return WORDS[user].encode()
        case ARRAY() | JSON() if column.name.endswith("_tools"):
            return [WORDS[user]]
        case JSON():
            return [{"kind": "note", "text": WORDS[user]}]
        case Uuid():
            return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{user.key} {column.name}"))
    return user.key if ACCOUNTS.search(column.name) else WORDS[user]


async def fill(database: Database, clock: FakeClock, user: Identity) -> None:
    """Store a row with the words of a user in every table about users."""
    async with database.transaction() as tx:
        for table in metadata.sorted_tables:
            if table.name not in IMPERSONAL:
                row = {each.key: value_of(table, each, user, clock) for each in table.columns}
                await tx.execute(insert(table).values(row))


async def dump(database: Database) -> dict[str, list[str]]:
    """Return all rows of all tables as text."""
    async with database.snapshot() as tx:
        return {
            table.name: [repr(tuple(row)) for row in await tx.execute(select(table))]
            for table in metadata.sorted_tables
        }


async def exported(database: Database, user: Identity) -> dict[str, list[Json]]:
    async with database.snapshot() as tx:
        owner = await user_data.owner_of(tx, user.key)
        return {
            name: [
                row
                async for rows in user_data.rows_of(tx, metadata.tables[name], owner)
                for row in rows
            ]
            for name in HOLDINGS
        }


async def delete(
    database: Database, clock: FakeClock, user: Identity, *, counted: timedelta = timedelta(0)
) -> int:
    async with database.transaction() as tx:
        owner = await user_data.owner_of(tx, user.key)
        return await user_deletion.delete_user(
            tx, owner, counted_since=clock() - counted, now=clock()
        )


def is_about(row: str, user: Identity) -> bool:
    return any(each in row for each in (WORDS[user], user.key, f"'{user.account} "))


def names_an_account(table: Table) -> bool:
    """Return True if a table names a user, or belongs to one that does."""
    return any(
        ACCOUNTS.search(column.name)
        or any(names_an_account(key.column.table) for key in column.foreign_keys)
        for column in table.columns
    )


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)
def test_every_table_is_either_about_users_or_has_a_reason_not_to_be(table: Table) -> None:
    declared = [table.name in each for each in (HOLDINGS, WITHHELD, IMPERSONAL)]
    assert declared.count(True) == 1
    assert table.name not in IMPERSONAL or not names_an_account(table)


def test_every_column_that_names_an_account_is_known() -> None:
    found = {
        (table.name, column.name)
        for table in metadata.sorted_tables
        for column in table.columns
        if ACCOUNTS.search(column.name)
    }
    owning = {(name, column) for name, column in found if column in {"user_id", "author"}}
    others = {("users", "account"), ("mcp_pins", "approved_by"), ("audit", "owner_id")}

    assert found - owning - others == set(NAMED_ELSEWHERE)


async def test_an_export_has_the_words_of_the_user_from_every_table_and_of_nobody_else(
    database: Database, clock: FakeClock
) -> None:
    for user in (ALICE, BOB):
        await fill(database, clock, user)

    found = await exported(database, ALICE)

    assert [name for name, rows in found.items() if not rows] == []
    text = json.dumps(found)
    assert WORDS[ALICE] in text
    assert WORDS[BOB] not in text
    assert BOB.key not in text


async def test_a_deletion_leaves_no_row_about_the_user_and_all_of_the_others(
    database: Database, clock: FakeClock
) -> None:
    for user in (ALICE, BOB):
        await fill(database, clock, user)
    before = await dump(database)

    await delete(database, clock, ALICE)

    after = await dump(database)
    left = {name for name, rows in after.items() for row in rows if is_about(row, ALICE)}
    assert left == {*STAYS, *WITHHELD}
    others = {name: [row for row in rows if is_about(row, BOB)] for name, rows in before.items()}
    assert {name: rows for name, rows in after.items() if name not in left} == {
        name: rows for name, rows in others.items() if name not in left
    }


async def test_names_in_the_rows_of_others_are_deleted(
    database: Database, clock: FakeClock
) -> None:
    for user in (ALICE, BOB):
        await fill(database, clock, user)
    async with database.transaction() as tx:
        for table, column in NAMED_ELSEWHERE:
            where = metadata.tables[table].c.user_id == BOB.key
            await tx.execute(
                update(metadata.tables[table]).where(where).values({column: ALICE.key})
            )
    found = json.dumps(await exported(database, ALICE))

    await delete(database, clock, ALICE)

    assert WORDS[BOB] not in found
    after = await dump(database)
    others = {
        name: [row for row in after[name] if not row.startswith(f"('{ALICE.account} ")]
        for name, _ in NAMED_ELSEWHERE
    }
    assert not [row for rows in others.values() for row in rows if ALICE.key in row]
    assert all(len(rows) == 1 for rows in others.values())


async def share(database: Database, clock: FakeClock) -> None:
    """Let the conversation of Bob be shared, with a message of Alice that he answers."""
    common = {"conversation_id": "22 conversations", "created_at": clock(), "role": "user"}
    async with database.transaction() as tx:
        here = dict.fromkeys(("channel", *ROUTE[1:], "place_message"), "")
        await tx.execute(
            update(conversations).values(
                shared=True, **(here | {"place_thread": conversations.c.id})
            )
        )
        await tx.execute(update(messages).values(author_number=1, reference="9", reply_to=""))
        await tx.execute(
            insert(participants).values(
                conversation_id="22 conversations", number=2, author=ALICE.key, name="Alice"
            )
        )
        for row in (
            {"id": "3", "text": "zebra", "author": ALICE.key, "author_number": 2, "reference": "7"},
            {"id": "4", "role": "summary", "text": "She said zebra."},
            {
                "id": "5",
                "text": "walrus too",
                "author": BOB.key,
                "author_number": 1,
                "reply_to": "7",
                "quoted": [
                    {"kind": "replied_to", "text": "zebra"},
                    {"kind": "note", "text": "reactions"},
                ],
            },
        ):
            await tx.execute(insert(messages).values({**common, "author_name": "N", **row}))


async def test_words_in_a_shared_conversation_go_and_their_place_stays(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, ALICE)
    await fill(database, clock, BOB)
    await share(database, clock)

    await delete(database, clock, ALICE)

    async with database.snapshot() as tx:
        rows = {row.id: row for row in await tx.execute(select(messages))}
        people = {row.number: row for row in await tx.execute(select(participants))}
        owners = dict((await tx.execute(select(conversations.c.id, conversations.c.user_id))).all())
    assert rows["3"].text == ""
    assert (rows["3"].author, rows["3"].author_name, rows["3"].author_number) == ("", "deleted", 2)
    # Without it the next look at the place would store the words again.
    assert rows["3"].reference == "7"
    assert "4" not in rows
    assert rows["5"].text == "walrus too"
    assert rows["5"].quoted == [{"kind": "note", "text": "reactions"}]
    assert people[2].name == "deleted"
    assert owners["11 conversations"] == "deleted"
    assert owners["22 conversations"] == BOB.key
    assert not [
        row
        for name, found in (await dump(database)).items()
        for row in found
        if WORDS[ALICE] in row and name not in {*STAYS, *WITHHELD}
    ]


async def test_the_words_of_an_account_that_never_talked_with_the_bot_are_found(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, BOB)
    await share(database, clock)

    found = await exported(database, ALICE)
    await delete(database, clock, ALICE)

    assert [row["text"] for row in found["messages"]] == ["zebra"]
    assert not [row for rows in (await dump(database)).values() for row in rows if "zebra" in row]


async def test_runs_that_limits_count_keep_their_numbers_alone(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, ALICE)

    kept = await delete(database, clock, ALICE, counted=timedelta(hours=1))

    async with database.snapshot() as tx:
        run = (await tx.execute(select(subagent_runs))).one()
        user = (await tx.execute(select(users))).one()
    assert kept == 1
    assert (run.user_id, run.number, run.input_tokens) == (ALICE.key, 1, 1)
    assert (user.name, user.notify) == ("", "")
    left = await dump(database)
    assert not [
        name
        for name, value in run._asdict().items()
        if WORDS[ALICE] in str(value) and name not in {"agent", "model", "provider", "worker_id"}
    ]
    assert {name for name, rows in left.items() if rows} == {
        "subagent_runs",
        "users",
        *STAYS,
        *WITHHELD,
    }


async def test_work_is_asked_to_end_and_a_busy_conversation_is_freed(
    database: Database, clock: FakeClock
) -> None:
    await fill(database, clock, ALICE)
    await fill(database, clock, BOB)
    async with database.transaction() as tx:
        turn = select(turns.c.id).where(turns.c.user_id == ALICE.key).scalar_subquery()
        here = {"conversation_id": "22 conversations", "ended_at": None}
        await tx.execute(update(turns).values(status="running", **here))
        await tx.execute(update(subagent_runs).values(status="running", cancel_requested_at=None))
        await tx.execute(
            update(conversations)
            .where(conversations.c.user_id == BOB.key)
            .values(active_turn_id=turn)
        )
        work = await user_deletion.stop_work(tx, ALICE.key, clock())

    assert work.turns == ["11 turns"]
    assert len(work.runs) == 1
    async with database.snapshot() as tx:
        asked = (
            await tx.execute(
                select(subagent_runs.c.user_id).where(
                    subagent_runs.c.cancel_requested_at.is_not(None)
                )
            )
        ).scalars()
        assert list(asked) == [ALICE.key]
    await delete(database, clock, ALICE)
    async with database.snapshot() as tx:
        assert list(await tx.scalars(select(conversations.c.active_turn_id))) == [None]
