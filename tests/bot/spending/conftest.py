"""What tests of spending limits share."""

from collections.abc import AsyncIterator

import pytest

from bot.tasks import Tasks
from db.database import Database
from tests.fakes.bank import Bank
from tests.fakes.clock import FakeClock


@pytest.fixture
async def bank(database: Database, clock: FakeClock) -> AsyncIterator[Bank]:
    async with Tasks() as tasks:
        yield Bank(database, clock, tasks)
