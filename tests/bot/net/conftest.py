"""A web to fetch from, and a listener that nobody may reach."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.web import FakeWeb, Listener


@pytest.fixture
async def there() -> AsyncIterator[FakeWeb]:
    async with FakeWeb().open() as web:
        yield web


@pytest.fixture
async def inside() -> AsyncIterator[Listener]:
    """A service on loopback."""
    async with Listener().open() as listener:
        yield listener
