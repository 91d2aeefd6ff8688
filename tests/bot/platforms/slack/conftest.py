"""A fake Slack for every test of this folder."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.slack.server import FakeSlack


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack.open() as opened:
        yield opened
