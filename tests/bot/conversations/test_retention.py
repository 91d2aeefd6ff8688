"""Every table loses what is old, in small transactions, and keeps what is still needed."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import insert, select, text

from bot.conversations.retention import Retention
from bot.subagents.limits import SubagentSettings
from bot.subagents.retention import RetentionSettings
from bot.subagents.wording import Outcome
from bot.values import Identity, RunStatus
from db import retention, users
from db.conversations import find_or_open as open_conversation
from db.conversations import say
from db.database import Database, DatabaseSettings
from db.tables import conversations, files, messages, metadata, outbox
from db.tables import users as people
from tests.fakes.clock import FakeClock
from tests.fakes.history import History
from tests.fakes.office import FakeOffice
from tests.fakes.patience import eventually
from tests.fakes.stored import Stored, room
from tests.fakes.watched_database import WatchedDatabase

#: The user's own: it stays, and the user with it.
OWN = frozenset({"notes", "memories"})
#: Rows that belong to no user and are few.
STAYS = frozenset(
    {
        *("slack_installs", "mcp_pins", "skill_data", "reservations", "pauses", "holds"),
        *("held_copies", "audit"),
    }
)
#: Tables whose rows no rule deletes, with the reason.
KEPT = {
    "workers": "a row per start of a process: `workers.forget`, by the database's clock",
    "pauses": "until an admin lifts them",
    "audit": "its text is erased: `audit.erase_before`",
    "holds": "until an operator releases it",
    "held_copies": "deleted with the last hold on its user",
    "run_files": "deleted when they are delivered, and with their run",
    "run_messages": "deleted with its run",
    "run_questions": "deleted with its run",
    "whiteboard": "deleted with its run",
    "scratch": "deleted with its run",
    "participants": "deleted with their conversation",
    "notes": "the user's own: kept until the user deletes it",
    "memories": "the user's own: kept until the user deletes it",
    "slack_installs": "kept until the app is removed from the workspace",
    "mcp_pins": "a row per tool that a configured server offers",
    "reservations": "settled when its call ends, or when its process has died",
    "skill_data": "kept until the skill deletes it; limited in number and size for each skill",
}
YEARS = 400 * 86_400
#: Whether a transaction waits for another one of the same database.
WAITING = text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def retention_of(
    database: Database, clock: FakeClock, settings: RetentionSettings | None = None
) -> Retention:
    return Retention(
        database=database,
        settings=settings or RetentionSettings(),
        runs=SubagentSettings(archive_ttl_minutes=60),
        now=clock,
    )


async def counts(database: Database, clock: FakeClock) -> dict[str, int]:
    """Return how many rows each table has, of those with any."""
    found = await Stored(database, clock).counts(list(metadata.tables.values()))
    return {name: count for name, count in found.items() if count}


def test_every_table_has_one_rule_or_a_reason_to_be_kept() -> None:
    ruled = {rule.table.name for rule in retention.RULES}
    unreferenced = {table.name for table in retention.UNREFERENCED}

    assert ruled | unreferenced | set(KEPT) == set(metadata.tables)
    assert ruled.isdisjoint(unreferenced)
    assert set(KEPT).isdisjoint(ruled | unreferenced)


async def test_old_rows_of_every_table_are_deleted_and_young_ones_are_kept(
    database: Database, clock: FakeClock
) -> None:
    await History(database, "old", clock()).store(without=OWN | STAYS, pairings_confirmed_at=None)
    async with database.transaction() as tx:
        # Processes count by the database's clock.
        await tx.execute(metadata.tables["workers"].delete())
    clock.advance(YEARS)
    await History(database, "young", clock()).store(without=STAYS, pairings_confirmed_at=None)
    young = dict.fromkeys(set(metadata.tables) - STAYS, 1)

    both = await counts(database, clock)
    await retention_of(database, clock).apply()

    assert both == dict.fromkeys(young, 2) | dict.fromkeys(OWN | {"workers"}, 1)
    assert await counts(database, clock) == young


async def test_processes_without_a_sign_of_life_are_forgotten(
    database: Database, clock: FakeClock
) -> None:
    await History(database, "old", clock()).store()

    await retention_of(database, clock).apply()

    assert await Stored(database, clock).count(metadata.tables["workers"]) == 0


async def test_a_user_and_a_conversation_stay_while_anything_refers_to_them(
    database: Database, clock: FakeClock
) -> None:
    await History(database, "writer", clock()).store(without=STAYS, pairings_confirmed_at=None)
    waiting: dict[str, Any] = {"turns_status": "queued", "turns_ended_at": None}
    await History(database, "waiting", clock()).store(without=STAYS | OWN, **waiting)
    going = {"subagent_runs_status": "running", "subagent_runs_completed_at": None}
    await History(database, "going", clock()).store(without=STAYS | OWN, **going)
    clock.advance(YEARS)

    await retention_of(database, clock).apply()

    left = await counts(database, clock)
    assert left["users"] == 3  # one with a note, one with a turn, one with a run
    assert left["conversations"] == 2
    assert left["turns"] == left["subagent_runs"] == 1
    assert left["notes"] == left["memories"] == 1


async def test_the_result_of_a_deleted_run_goes_with_it(
    database: Database, clock: FakeClock
) -> None:
    await History(database, "h", clock()).store(without=STAYS, pairings_confirmed_at=None)
    clock.advance(2 * 86_400)
    settings = RetentionSettings(runs_days=1, conversations_days=30)

    await retention_of(database, clock, settings).apply()

    left = await counts(database, clock)
    assert left.get("subagent_runs", 0) == left.get("messages", 0) == left.get("files", 0) == 0
    assert left["turns"] == left["conversations"] == 1


async def test_a_message_older_than_its_file_may_be_is_deleted_with_it(
    database: Database, clock: FakeClock
) -> None:
    await History(database, "h", clock()).store(without=STAYS, pairings_confirmed_at=None)
    clock.advance(2 * 86_400)
    settings = RetentionSettings(conversations_days=1, files_days=30, runs_days=30)

    await retention_of(database, clock, settings).apply()

    assert await Stored(database, clock).counts([files, messages]) == {"files": 0, "messages": 0}


async def test_announcements_that_nobody_came_for_go_with_their_runs(
    database: Database, clock: FakeClock
) -> None:
    for status in ("waiting", "pending"):
        await History(database, status, clock()).store(without=STAYS, outbox_status=status)
    clock.advance(YEARS)

    await retention_of(database, clock).apply()

    async with database.snapshot() as tx:
        assert list(await tx.scalars(select(outbox.c.status))) == ["pending"]


async def test_many_old_rows_are_deleted_in_one_pass_and_others_get_their_turn_in_between(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity
) -> None:
    # A batch of so many runs with their transcripts holds others up for some 5 ms.
    assert retention.BATCH <= 50
    number = 5 * retention.BATCH + 1
    async with WatchedDatabase.open(database_settings) as database:
        stored = Stored(database, clock)
        conversation = await stored.conversation(alice)
        rows = [
            {
                "id": f"{index:032}",
                "conversation_id": conversation,
                "role": "user",
                "text": "Hello",
                "created_at": clock(),
            }
            for index in range(number)
        ]
        async with database.transaction() as tx:
            await tx.execute(insert(messages), rows)
        clock.advance(YEARS)
        before, seen = database.transactions, []

        async def look() -> None:
            while True:
                seen.append(await stored.count(messages))
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            looking = group.create_task(look())
            await asyncio.sleep(0)
            await retention_of(database, clock).apply()
            looking.cancel()

        assert await stored.count(messages) == 0
        assert database.transactions - before >= 6
        between = {count for count in seen if 0 < count < number}
        # A busy machine may not look after every batch.
        assert between
        assert between <= {1 + retention.BATCH * step for step in range(5)}


async def test_rows_without_references_are_found_in_later_passes_too(
    database: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "WINDOW", 2)
    stored = Stored(database, clock)
    for number in range(25):
        await stored.person(Identity("discord", "", f"{number:03}"))
    clock.advance(YEARS)
    passes = retention_of(database, clock)

    await passes.apply()
    first = await stored.count(people)
    for _ in range(3):
        await passes.apply()

    assert first == 15
    assert await stored.count(people) == 0


async def test_who_speaks_while_user_and_conversation_are_deleted_gets_new_ones(
    postgres_url: str, clock: FakeClock, alice: Identity
) -> None:
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        stored = Stored(database, clock)
        old = await stored.conversation(alice)
        clock.advance(YEARS)

        async def speak() -> str:
            async with database.transaction() as tx:
                await users.ensure_user(tx, alice, alice.account, clock())
                opened = await open_conversation(tx, alice, room(alice), clock())
                await say(tx, opened, role="user", text="Hello", now=clock())
            return opened

        async def waits() -> bool:
            async with database.snapshot() as now:
                return bool(await now.scalar(WAITING))

        async with (
            asyncio.timeout(20),
            asyncio.TaskGroup() as group,
            database.transaction() as tx,
        ):
            for table in retention.UNREFERENCED:
                await retention.forget_unreferenced(tx, table, clock(), "")
            speaking = group.create_task(speak())
            await eventually(waits, "who speaks waits for the deletion")

        assert speaking.result() != old
        assert await stored.counts([people, conversations, messages]) == {
            "users": 1,
            "conversations": 1,
            "messages": 1,
        }


async def test_a_user_who_is_speaking_is_not_deleted(
    database_settings: DatabaseSettings, clock: FakeClock, alice: Identity
) -> None:
    async with Database.open(database_settings) as database:
        stored = Stored(database, clock)
        await stored.person(alice)
        clock.advance(YEARS)
        async with database.transaction() as tx:
            await users.ensure_user(tx, alice, alice.account, clock())
            if not database.is_sqlite:  # A file has one writer.
                async with asyncio.timeout(20):
                    await retention_of(database, clock).apply()

        kept = await stored.count(people)

    assert kept == 1


async def test_the_end_of_a_run_whose_conversation_is_gone_is_stored_and_announced(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    stored = Stored(database, clock)
    run = await stored.run(alice, status="running", conversation_id="gone")
    endings = FakeOffice(database, SubagentSettings(), clock).endings

    over = await endings.end(run, Outcome(status=RunStatus.COMPLETED, text="Six."), attempt=None)

    assert over is not None
    assert over.status is RunStatus.COMPLETED
    assert (await stored.read_item(run.id)).text.endswith("Six.")
