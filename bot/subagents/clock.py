"""The working time of one run."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Reserve for the last step: a share of the total time, and its upper bound in seconds.
ASIDE_SHARE = 0.15
ASIDE_SECONDS = 30.0


class WorkClock:
    """Counts the working seconds of a run over all attempts; pauses do not count.

    Args:
        total: The seconds the run may use.
        used: The seconds used by earlier attempts.
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(
        self, total: float, used: float = 0.0, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.total = total
        self._monotonic = monotonic
        self._began = monotonic() - used
        self._aside = min(ASIDE_SECONDS, total * ASIDE_SHARE)
        self._stopped_at: float | None = None
        self._holders = 0
        self._limit: asyncio.Timeout | None = None

    def used(self) -> float:
        """Return the seconds used so far."""
        now = self._monotonic() if self._stopped_at is None else self._stopped_at
        return now - self._began

    def cuts_off(self, limit: asyncio.Timeout) -> None:
        """Reschedule this timeout with every pause: it cuts the work off."""
        self._limit = limit

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the clock while the work waits for a user. Pauses may overlap."""
        if self._holders == 0:
            self._stopped_at = self._monotonic()
            if self._limit is not None:
                self._limit.reschedule(None)
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0 and self._stopped_at is not None:
                self._began += self._monotonic() - self._stopped_at
                self._stopped_at = None
                if self._limit is not None:
                    self._limit.reschedule(asyncio.get_running_loop().time() + self.hard_left())

    @property
    def stands_still(self) -> bool:
        """True while the work waits for a user."""
        return self._holders > 0

    @property
    def fraction(self) -> float:
        """The used share of the time before the last step."""
        return self.used() / (self.total - self._aside)

    def left(self) -> float:
        """Return the seconds until the last step must begin."""
        return self.total - self._aside - self.used()

    def hard_left(self) -> float:
        """Return the seconds until the run is cut off."""
        return max(0.0, self.total - self.used())
