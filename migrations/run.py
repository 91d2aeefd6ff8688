"""Brings a database to the tables of this version of the bot."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection, NullPool, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from bot.errors import ConfigError, DatabaseUnreachableError
from bot.logs import quiet
from db.database import Database, DatabaseSettings, create_file
from db.diagnosis import file_trouble
from migrations.version import SCHEMA_VERSION, version_problem

#: Held by the one process that upgrades; the others wait for it and find nothing left to do.
UPGRADE_LOCK = 0x5EC1_0E02

# Rebuilding a table drops it in between, which must not delete rows that refer to it.
_BEGIN_SQLITE = ("PRAGMA foreign_keys=OFF", "BEGIN IMMEDIATE")
_BEGIN_POSTGRESQL = (
    f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})",
    # A table in long use makes the upgrade fail, instead of blocking the bot.
    "SET LOCAL lock_timeout = '10s'",
)


@asynccontextmanager
async def open_database(settings: DatabaseSettings) -> AsyncIterator[Database]:
    """Open the database with all its tables, for this process alone if it is a file.

    Raises:
        ConfigError: As `ensure_current`.
        DatabaseBusyError: Another bot holds the SQLite file.
    """
    async with AsyncExitStack() as stack:
        with quiet("db.trouble"):
            opening = Database.open(settings, exclusive=True)
            database = await stack.enter_async_context(opening)
            await ensure_current(database, settings)
        yield database


async def ensure_current(database: Database, settings: DatabaseSettings) -> None:
    """Upgrade the database if it is older than this bot; otherwise only one query is made.

    Raises:
        ConfigError: The database belongs to a newer bot, or is too old to be upgraded.
    """
    if await current_version(database) != SCHEMA_VERSION:
        await upgrade(settings.url)


async def current_version(database: Database) -> str | None:
    """Return the version of the database's tables; `None` if it has none yet."""
    async with database.snapshot() as tx:
        return await tx.run_sync(_version)


@asynccontextmanager
async def opened_beside(settings: DatabaseSettings) -> AsyncIterator[Database | None]:
    """Open the database beside a running bot; yield `None` if no database exists yet.

    Raises:
        ConfigError: The database has other tables.
    """
    file = Path(make_url(settings.url).database or "")
    if settings.is_sqlite and not await asyncio.to_thread(file.exists):
        yield None
        return
    async with Database.open(settings) as database:
        with quiet("db.trouble"):
            version = await current_version(database)
        if version != SCHEMA_VERSION:
            raise ConfigError(
                f"{settings.shown} does not have the tables of this version: run `python -m "
                "bot migrate` first."
            )
        yield database


async def version_of_server(settings: DatabaseSettings) -> str | None:
    """Return the version of a PostgreSQL database; `None` if it has none or is out of reach."""
    try:
        with quiet("db.trouble"):
            async with Database.open(settings) as database:
                return await current_version(database)
    except (DatabaseUnreachableError, SQLAlchemyError, ValueError):
        # A wrong URL is reported by `doctor`, like a server that does not answer.
        return None


async def upgrade(url: str) -> None:
    """Bring a database to the newest version in one transaction; safe to repeat and to run at once.

    Raises:
        ConfigError: The database belongs to a newer bot, or is too old to be upgraded.
    """

    def run_versions(connection: Connection) -> None:
        if problem := version_problem(_version(connection)):
            raise ConfigError(problem)
        # The import of Alembic takes longer than all the rest of a start without an upgrade.
        from alembic import command  # noqa: PLC0415
        from alembic.config import Config  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    async with connection_for_versions(url) as connection:
        await connection.run_sync(run_versions)


@asynccontextmanager
async def connection_for_versions(url: str) -> AsyncIterator[AsyncConnection]:
    """Yield a connection inside one transaction that excludes all other upgrades."""
    parsed = make_url(url)
    is_sqlite = parsed.get_backend_name() == "sqlite"
    if is_sqlite:
        if trouble := file_trouble(DatabaseSettings(url=url)):
            # For such a file the driver leaves a thread behind that does not end cleanly.
            raise ConfigError(f"{url} cannot be used: {trouble}")
        create_file(Path(parsed.database or ""))
    driver = "sqlite+aiosqlite" if is_sqlite else "postgresql+asyncpg"
    # Without an isolation level, the driver begins and commits nothing by itself.
    options = {"isolation_level": None, "timeout": 30} if is_sqlite else {}
    engine = create_async_engine(
        parsed.set(drivername=driver), poolclass=NullPool, connect_args=options
    )
    try:
        async with engine.connect() as connection:
            for statement in _BEGIN_SQLITE if is_sqlite else _BEGIN_POSTGRESQL:
                await connection.exec_driver_sql(statement)
            yield connection
            if is_sqlite:
                broken = (await connection.exec_driver_sql("PRAGMA foreign_key_check")).first()
                if broken is not None:
                    raise RuntimeError(
                        f"The upgrade would leave rows that refer to nothing: {broken}"
                    )
            await connection.commit()
    finally:
        await engine.dispose()


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
