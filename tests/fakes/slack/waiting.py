"""Waiting for something to become true, without guessing how long it takes."""

import asyncio
import contextlib
from collections.abc import Callable

from tests.fakes.patience import PATIENCE_SECONDS


class Pulse:
    """Beats when something has happened.

    Args:
        patience: How long `until` waits, in seconds, before it fails the test.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self.patience = patience
        self._changed = asyncio.Event()

    def beat(self) -> None:
        """Wake whoever waits."""
        self._changed.set()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition holds; it may look at more than this Slack.

        Raises:
            AssertionError: It did not happen in time.
        """
        try:
            async with asyncio.timeout(self.patience):
                while not condition():
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), 0.05)
        except TimeoutError:
            raise AssertionError(f"Waited in vain for {what}.") from None
