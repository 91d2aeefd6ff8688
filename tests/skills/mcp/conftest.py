"""What the tests of MCP share."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from bot.tasks import Tasks
from db.database import Database, DatabaseSettings
from tests.skills.mcp.things import Bench


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    owner = Tasks()
    yield owner
    await owner.close()
    assert len(owner) == 0, "A task was left behind."


@pytest.fixture
async def sqlite(sqlite_url: str) -> AsyncIterator[Database]:
    async with Database.open(DatabaseSettings(url=sqlite_url)) as opened:
        yield opened


@pytest.fixture
async def bench(sqlite: Database, tasks: Tasks) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        yield Bench(sqlite, tasks, stack)
