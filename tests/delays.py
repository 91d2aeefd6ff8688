"""A pytest plugin that delays transactions at random, to find what depends on their order.

`DELAYS_SEED=7 python -m pytest -p tests.delays -n 8 -m long tests/stories`: what fails with it may
fail on a busy machine, by a race of the test or of the bot. One seed finds a part of them.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from db.database import Database, Transaction

#: How often a delay is long or short, and the most of each in seconds.
LONG, SHORT = (0.04, 0.5), (0.5, 0.03)

_random = random.Random(f"{os.environ.get('DELAYS_SEED', '')} {os.getpid()}")
_connected = Database._connected


async def _delay() -> None:
    """Wait for some time, or not at all."""
    chance = _random.random()
    for share, seconds in (LONG, SHORT):
        if chance < share:
            await asyncio.sleep(_random.uniform(0, seconds))
            return


@asynccontextmanager
async def _delayed(
    self: Database, opening: AbstractAsyncContextManager[Transaction], *, reads: bool = False
) -> AsyncIterator[Transaction]:
    """Open a connection as `Database` does, with a delay before it and one after its end."""
    await _delay()
    async with _connected(self, opening, reads=reads) as connection:
        yield connection
    await _delay()


Database._connected = _delayed  # type: ignore[method-assign]
