"""A database of version 0.1 is upgraded with all its rows; an older one is refused."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, MetaData, Table, insert, select, text

import migrations
from bot.errors import ConfigError
from db.database import Database, DatabaseSettings
from db.user_texts import search_notes
from migrations.compare import FULL_TEXT_TABLE
from migrations.run import connection_for_versions, ensure_current, upgrade, version_of_server
from migrations.version import OLDEST_VERSION, SCHEMA_VERSION, version_of_file
from tests.migrations.test_versions import differences

#: The schema as the migrations of version 0.1 left it, one after the other: a dump for each kind.
DUMPS = Path(__file__).with_name("version_0_1")
#: Columns whose check constraint needs a value that no default gives.
CHECKED = {"run_questions.kind": "input", "memories.origin": "said"}

Rows = dict[str, list[dict[str, Any]]]


def load_dump(connection: Connection) -> None:
    dump = DUMPS / ("sqlite.sql" if connection.dialect.name == "sqlite" else "postgres.sql")
    for statement in dump.read_text(encoding="utf-8").split("\n--\n"):
        connection.exec_driver_sql(statement)


def run_to(connection: Connection, version: str) -> None:
    command.upgrade(settings_for(connection), version)


def settings_for(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    return config


def run_first_version(connection: Connection) -> None:
    run_to(connection, OLDEST_VERSION)


def run_to_the_version_before(connection: Connection) -> None:
    newest = ScriptDirectory.from_config(settings_for(connection)).get_revision("head")
    assert isinstance(newest.down_revision, str)
    run_to(connection, newest.down_revision)


def version_in(connection: Connection) -> str:
    return str(connection.scalar(text("SELECT version_num FROM alembic_version")))


def reflected(connection: Connection) -> Iterator[Table]:
    """Return the tables of a database in the order of their references."""
    found = MetaData()
    found.reflect(connection)
    for table in found.sorted_tables:
        if not table.name.startswith((FULL_TEXT_TABLE, "alembic")):
            yield table


def value_of(column: Column[Any], number: int) -> Any:
    """Return a value for a column, different for each number where the column is a key."""
    name = f"{column.table.name}.{column.name}"
    for key in column.foreign_keys:
        return value_of(key.column, number)
    match column.type:
        case sa.Uuid():
            return f"{number:08d}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
        case sa.CHAR():
            return f"{number:032d}"
        case sa.String():
            return CHECKED.get(name, f"{number} {column.name} ä")[: column.type.length]
        case sa.ARRAY():
            return ["a", "b"]
        case sa.JSON():
            return ["a", {"b": None}]
        case sa.DateTime():
            return datetime(2026, 11, 22, 12, number, tzinfo=UTC)
        case sa.LargeBinary():
            return b"\0\xff"
        case sa.Boolean():
            return True
        case sa.Float():
            return 1.5
    return number


def fill(connection: Connection) -> None:
    """Store two rows in every table; columns with checked defaults keep those."""
    defaults = {"status", "mode", "announce"}
    for table in reflected(connection):
        for number in (1, 2):
            columns = [each for each in table.c if each.name not in defaults or each.primary_key]
            row = {each.name: value_of(each, number) for each in columns}
            connection.execute(insert(table).values(row))


def rows_of(connection: Connection) -> Rows:
    return {
        table.name: [
            dict(row)
            for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()
        ]
        for table in reflected(connection)
    }


def kept_of(before: Rows, after: Rows) -> Rows:
    """Return the columns from before of the rows of now."""
    return {
        name: [
            {column: new[column] for column in old}
            for old, new in zip(rows, after[name], strict=True)
        ]
        for name, rows in before.items()
    }


async def test_an_upgrade_from_the_version_before_keeps_every_row(empty_url: str) -> None:
    async with connection_for_versions(empty_url) as connection:
        await connection.run_sync(run_to_the_version_before)
        assert await connection.run_sync(version_in) < SCHEMA_VERSION
        await connection.run_sync(fill)
        before = await connection.run_sync(rows_of)

    await upgrade(empty_url)

    async with connection_for_versions(empty_url) as connection:
        after = await connection.run_sync(rows_of)
        assert await connection.run_sync(version_in) == SCHEMA_VERSION
    assert kept_of(before, after) == before
    assert all(len(rows) == 2 for rows in before.values())


@pytest.mark.parametrize("make", [load_dump, run_first_version])
async def test_an_upgrade_from_version_0_1_keeps_every_row(empty_url: str, make: Any) -> None:
    async with connection_for_versions(empty_url) as connection:
        await connection.run_sync(make)
        await connection.run_sync(fill)
        before = await connection.run_sync(rows_of)

    await upgrade(empty_url)

    async with connection_for_versions(empty_url) as connection:
        after = await connection.run_sync(rows_of)
        assert kept_of(before, after) == before
        assert not any(row["shared"] for row in after["conversations"])
        assert all(len(rows) == 2 for rows in before.values())
        assert await connection.run_sync(differences) == []


async def test_notes_of_version_0_1_are_found_after_an_upgrade(empty_url: str) -> None:
    async with connection_for_versions(empty_url) as connection:
        await connection.run_sync(load_dump)
        await connection.run_sync(fill)

    await upgrade(empty_url)

    async with (
        Database.open(DatabaseSettings(url=empty_url)) as database,
        database.snapshot() as tx,
    ):
        found = await search_notes(tx, "1 id ä", "title", limit=5)
    assert [note.number for note in found] == [1]


async def test_a_database_older_than_version_0_1_is_refused(
    database: Database, database_settings: DatabaseSettings
) -> None:
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '2026112107'"))

    for attempt in (ensure_current(database, database_settings), upgrade(database_settings.url)):
        with pytest.raises(ConfigError, match=r"2026112107, too old.*with Retinue 0\.1\.0 first"):
            await attempt


def test_a_database_that_is_missing_or_out_of_reach_has_no_version(tmp_path: Path) -> None:
    missing = DatabaseSettings(url=f"sqlite:///{tmp_path}/none.db")
    away = DatabaseSettings(url="postgresql://a:b@127.0.0.1:9/none")

    assert version_of_file(missing) is None
    assert asyncio.run(version_of_server(away)) is None
    assert not (tmp_path / "none.db").exists()


async def test_the_version_is_read_without_an_upgrade(sqlite_url: str, postgres_url: str) -> None:
    assert version_of_file(DatabaseSettings(url=sqlite_url)) == SCHEMA_VERSION
    assert await version_of_server(DatabaseSettings(url=postgres_url)) == SCHEMA_VERSION
