"""A failover of PostgreSQL leaves connections open to a server that only reads."""

import pytest
from sqlalchemy import insert, make_url, text

from bot.errors import DatabaseUnreachableError
from db.database import Database, DatabaseSettings, Transaction
from db.tables import seen_events
from tests.fakes.clock import FakeClock


async def add(tx: Transaction) -> None:
    row = {"platform": "p", "event_id": "e", "created_at": FakeClock()()}
    await tx.execute(insert(seen_events).values(row))


async def set_read_only(url: str, *, on: bool) -> None:
    """Let new sessions of a database only read, as those at a standby, or write again."""
    name = make_url(url).database
    server = make_url(url).set(database="postgres").render_as_string(hide_password=False)
    change = f'ALTER DATABASE "{name}" SET default_transaction_read_only = {on}'
    async with Database.open(DatabaseSettings(url=server)) as database:
        await database.write(lambda tx: tx.execute(text(change)))


async def test_a_server_that_became_a_standby_is_left_for_the_next_one(postgres_url: str) -> None:
    await set_read_only(postgres_url, on=True)
    async with Database.open(DatabaseSettings(url=postgres_url)) as database:
        with pytest.raises(DatabaseUnreachableError):
            await database.write(add)
        await set_read_only(postgres_url, on=False)

        await database.write(add)
