"""The working time of one run."""

import time
from collections.abc import Callable

#: What is set aside at the end for the last step: so much of the whole, and no more than so long.
ASIDE_SHARE = 0.15
ASIDE_SECONDS = 30.0


class WorkClock:
    """Counts the seconds a run works; what earlier attempts used is counted, pauses are not.

    Args:
        total: The seconds the run may use.
        used: What earlier attempts used.
        monotonic: A clock that nobody sets.
    """

    def __init__(
        self, total: float, used: float = 0.0, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.total = total
        self._monotonic = monotonic
        self._began = monotonic() - used
        self._aside = min(ASIDE_SECONDS, total * ASIDE_SHARE)

    def used(self) -> float:
        """Return the seconds used so far."""
        return self._monotonic() - self._began

    @property
    def fraction(self) -> float:
        """How much of the time before the last step is used."""
        return self.used() / (self.total - self._aside)

    def left(self) -> float:
        """Return the seconds until the last step must begin."""
        return self.total - self._aside - self.used()

    def hard_left(self) -> float:
        """Return the seconds until the run is cut off."""
        return max(0.0, self.total - self.used())
