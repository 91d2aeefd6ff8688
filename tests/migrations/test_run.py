"""An upgrade happens once, and all or nothing, whoever asks and whenever it is stopped."""

import asyncio
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.engine import make_url

from bot.errors import ConfigError
from db.database import Database, DatabaseSettings
from db.tables import metadata, workers
from migrations.run import connection_for_versions, current_version, ensure_current, upgrade
from migrations.version import SCHEMA_VERSION
from tests.fakes.clock import FakeClock

DIES_IN_THE_MIDDLE = """
import asyncio, os, sys
from sqlalchemy import Engine, event
from migrations.run import upgrade

url, fatal = sys.argv[1:]

@event.listens_for(Engine, "after_cursor_execute")
def die(connection, cursor, statement, *_):
    if fatal in statement:
        os._exit(9)

asyncio.run(upgrade(url))
"""

WITHOUT_ALEMBIC = """
import asyncio, sys
from db.database import Database, DatabaseSettings
from migrations.run import ensure_current

async def main():
    settings = DatabaseSettings(url=sys.argv[1])
    async with Database.open(settings) as database:
        await ensure_current(database, settings)
    print("alembic" in sys.modules)

asyncio.run(main())
"""


def table_names(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


async def tables_of(url: str) -> set[str]:
    async with connection_for_versions(url) as connection:
        return await connection.run_sync(table_names)


async def version_of(url: str) -> str | None:
    async with Database.open(DatabaseSettings(url=url)) as database:
        return await current_version(database)


async def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=120, check=False
    )


async def test_an_empty_database_gets_all_tables_and_the_newest_version(empty_url: str) -> None:
    await upgrade(empty_url)

    assert set(metadata.tables) <= await tables_of(empty_url)
    assert await version_of(empty_url) == SCHEMA_VERSION


async def test_a_database_without_tables_has_no_version(empty_url: str) -> None:
    assert await version_of(empty_url) is None


async def test_upgrading_again_keeps_the_rows(
    database: Database, database_url: str, clock: FakeClock
) -> None:
    row = {"id": "w1", "platforms": ["slack"], "started_at": clock(), "heartbeat_at": clock()}
    async with database.transaction() as tx:
        await tx.execute(workers.insert().values(row))

    await upgrade(database_url)

    async with database.snapshot() as tx:
        assert (await tx.execute(select(workers.c.id))).scalars().all() == ["w1"]


@pytest.mark.parametrize(
    "fatal", ["CREATE TABLE conversations", "ix_notes_words", "INSERT INTO alembic_version"]
)
async def test_an_upgrade_that_is_killed_leaves_nothing_and_can_be_repeated(
    empty_url: str, fatal: str
) -> None:
    if fatal == "ix_notes_words" and empty_url.startswith("sqlite"):
        fatal = "notes_fts_delete"

    killed = await run_script(DIES_IN_THE_MIDDLE, empty_url, fatal)
    left = await tables_of(empty_url)
    await upgrade(empty_url)

    assert killed.returncode == 9, killed.stderr
    assert left == set()
    assert await version_of(empty_url) == SCHEMA_VERSION


async def test_upgrades_at_the_same_time_wait_for_one_another(empty_url: str) -> None:
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(upgrade(empty_url))

    assert await version_of(empty_url) == SCHEMA_VERSION


async def test_a_current_database_is_let_through_without_loading_alembic(database_url: str) -> None:
    finished = await run_script(WITHOUT_ALEMBIC, database_url)

    assert (finished.stdout, finished.stderr) == ("False\n", "")


async def test_a_new_database_is_upgraded_at_the_start(empty_url: str) -> None:
    settings = DatabaseSettings(url=empty_url)

    async with Database.open(settings) as database:
        await ensure_current(database, settings)

        assert await current_version(database) == SCHEMA_VERSION


async def test_a_database_of_a_newer_bot_is_refused(
    database: Database, database_settings: DatabaseSettings
) -> None:
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '2999010101'"))

    for attempt in (ensure_current(database, database_settings), upgrade(database_settings.url)):
        with pytest.raises(ConfigError, match=r"2999010101.*Install a newer bot"):
            await attempt


def test_a_new_file_can_be_read_by_its_owner_alone(empty_sqlite_url: str) -> None:
    asyncio.run(upgrade(empty_sqlite_url))

    path = Path(make_url(empty_sqlite_url).database or "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_an_upgrade_that_would_leave_loose_ends_is_rolled_back(sqlite_url: str) -> None:
    orphan = (
        "INSERT INTO messages (id, conversation_id, role, text, created_at)"
        " VALUES ('m', 'no such conversation', 'user', 'hello', '2026-11-21')"
    )

    with pytest.raises(RuntimeError, match="refer to nothing"):
        async with connection_for_versions(sqlite_url) as connection:
            await connection.execute(text(orphan))

    async with connection_for_versions(sqlite_url) as connection:
        assert (await connection.execute(text("SELECT id FROM messages"))).all() == []
