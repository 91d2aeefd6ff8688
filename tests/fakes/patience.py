"""How long a test waits for what must come: it only keeps a test that fails from hanging."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

#: Long enough for a machine with much else to do.
PATIENCE_SECONDS = 20.0
GLANCE_SECONDS = 0.02

Found = TypeVar("Found")


async def eventually(
    look: Callable[[], Awaitable[Found]], what: str, *, seconds: float = PATIENCE_SECONDS
) -> Found:
    """Look until there is something of which nobody tells, in the database say, and return it."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if found := await look():
                    return found
                await asyncio.sleep(GLANCE_SECONDS)
    except TimeoutError:
        raise AssertionError(f"After {seconds:g} s still not: {what}.") from None
