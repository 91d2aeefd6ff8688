"""A fake Slack for every test of this folder."""

from collections.abc import AsyncIterator

import pytest

from bot.platforms.slack import people
from tests.fakes.slack.server import FakeSlack


@pytest.fixture(autouse=True)
def _names_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with much to do is not taken for a Slack that does not answer."""
    monkeypatch.setattr(people, "ASK_SECONDS", 10.0)


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack.open() as opened:
        yield opened
