"""What tests of several folders ask for: runs that ask, part by part."""

from collections.abc import AsyncIterator

import pytest

from bot.tasks import Tasks
from db.database import Database
from tests.fakes.asking import Asked
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet


@pytest.fixture
async def asked(database: Database, clock: FakeClock) -> AsyncIterator[Asked]:
    tasks = Tasks()
    yield Asked(database, clock, tasks, FakeOutlet("discord"))
    await tasks.close()
