"""How long a test waits for what must come: it only keeps a test that fails from hanging."""

import asyncio
import contextlib
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


class Pulse:
    """Beats when something has happened.

    Args:
        patience: The longest time for which `until` waits, in seconds, before it fails the test.
        describe: Returns the present state, for the text of such a failure.
    """

    def __init__(
        self, patience: float = PATIENCE_SECONDS, describe: Callable[[], str] = lambda: ""
    ) -> None:
        self.patience = patience
        self._describe = describe
        self._changed = asyncio.Event()

    def beat(self) -> None:
        """Wake whoever waits."""
        self._changed.set()

    async def until(
        self,
        condition: Callable[[], object],
        what: str = "the condition",
        *,
        seconds: float | None = None,
    ) -> None:
        """Wait until a condition holds; it may look at more than what beats.

        Raises:
            AssertionError: It did not happen in time.
        """
        patience = self.patience if seconds is None else seconds
        try:
            async with asyncio.timeout(patience):
                while not condition():
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), GLANCE_SECONDS)
        except TimeoutError:
            failed = f"After {patience:g} s still not: {what}."
            raise AssertionError(f"{failed}\n{self._describe()}".strip()) from None
