"""The versions lead to exactly the tables of `db.tables`, and to a search in notes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Inspector, inspect

import migrations
from db.tables import metadata
from migrations.compare import FULL_TEXT_INDEX, include
from migrations.run import connection_for_versions
from migrations.version import SCHEMA_VERSION

FOLDER = Path(migrations.__file__).parent


def differences(connection: Connection) -> list[Any]:
    options = {"compare_type": True, "include_object": include}
    context = MigrationContext.configure(connection, opts=options)
    found: list[Any] = compare_metadata(context, metadata)
    return found


def description(connection: Connection) -> dict[str, list[str]]:
    """Return all that the database knows about each of our tables."""
    inspector = inspect(connection)
    return {name: sorted(_parts_of(inspector, name)) for name in metadata.tables}


def _parts_of(inspector: Inspector, table: str) -> Iterator[str]:
    indexes = inspector.get_indexes(table)
    for part in (
        inspector.get_pk_constraint(table),
        *inspector.get_columns(table),
        *inspector.get_check_constraints(table),
        *inspector.get_foreign_keys(table),
        *inspector.get_unique_constraints(table),
        *(index for index in indexes if index["name"] != FULL_TEXT_INDEX),
    ):
        yield _spelled(part)


def _spelled(value: object) -> str:
    if isinstance(value, Mapping):
        return str(sorted((key, _spelled(item)) for key, item in value.items()))
    return str(value)


@pytest.fixture(params=["sqlite", "postgres"])
def upgraded_and_empty(request: pytest.FixtureRequest) -> tuple[str, str]:
    kind = request.param
    return request.getfixturevalue(f"{kind}_url"), request.getfixturevalue(f"empty_{kind}_url")


def test_the_newest_version_is_the_one_that_the_start_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))

    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA_VERSION]


async def test_alembic_finds_no_difference_to_the_tables(database_url: str) -> None:
    async with connection_for_versions(database_url) as connection:
        assert await connection.run_sync(differences) == []


async def test_upgraded_tables_are_described_like_tables_made_at_once(
    upgraded_and_empty: tuple[str, str],
) -> None:
    """Alembic does not compare everything: check constraints and defaults."""
    upgraded, empty = upgraded_and_empty
    async with connection_for_versions(empty) as connection:
        await connection.run_sync(metadata.create_all)
        expected = await connection.run_sync(description)

    async with connection_for_versions(upgraded) as connection:
        assert await connection.run_sync(description) == expected
