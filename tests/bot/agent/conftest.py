"""The fixtures of the tests of the agent."""

from collections.abc import AsyncIterator

import pytest

from bot.tasks import Tasks
from tests.bot.agent.things import Office


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    owner = Tasks()
    yield owner
    await owner.close()
    assert len(owner) == 0, "A task was left behind."


@pytest.fixture
def office(tasks: Tasks) -> Office:
    return Office(tasks)
