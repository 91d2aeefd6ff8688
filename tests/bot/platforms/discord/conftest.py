"""What tests of Discord may ask for."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.discord.listener import Listener, listening, logged_in
from tests.fakes.discord.server import FakeDiscord


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    """A Discord of this test's own."""
    async with FakeDiscord.open() as opened:
        yield opened


@pytest.fixture
async def listener(fake: FakeDiscord) -> AsyncIterator[Listener]:
    """A plain client of discord.py that hears the fake, without reading all messages."""
    async with listening(fake) as client:
        yield client


@pytest.fixture
async def speaker(fake: FakeDiscord) -> AsyncIterator[Listener]:
    """A plain client of discord.py that is logged in, without the gateway."""
    async with logged_in(fake) as client:
        yield client
