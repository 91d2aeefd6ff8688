"""Runs the versions for Alembic: `migrations.run` passes a connection, the command line a URL.

By hand: `alembic -x url=sqlite:///data/retinue.db revision --autogenerate --rev-id 2027010101`.
"""

import asyncio

from alembic import context
from sqlalchemy import Connection

from db.database import DatabaseSettings
from db.tables import metadata
from migrations.compare import include, render
from migrations.run import connection_for_versions


def run(connection: Connection) -> None:
    """Run the versions inside the transaction of this connection."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        compare_type=True,
        include_object=include,
        render_item=render,
        render_as_batch=connection.dialect.name == "sqlite",
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_on(url: str) -> None:
    """Connect and run the versions, for a call of `alembic` by hand."""
    async with connection_for_versions(url) as connection:
        await connection.run_sync(run)


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    arguments = context.get_x_argument(as_dictionary=True)
    asyncio.run(run_on(DatabaseSettings.model_validate(arguments).url))
