"""The budget of a run: its working time, and its tokens, reserved before each call of a model."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bot.agent.messages import Usage

#: Share of a budget that is reserved for the last step from the start, and the largest share that
#: is reserved when the report needs much input.
LAST_STEP_SHARE = 0.2
MOST_LAST_STEP_SHARE = 0.4
#: Smallest reserve of output tokens for the last report.
REPORT_OUTPUT = 2_000
LEAST_OUTPUT = 256
LEAST_LAST_OUTPUT = 64
#: Reserve for the last step: a share of the total time, and its upper bound in seconds.
ASIDE_SHARE = 0.15
ASIDE_SECONDS = 30.0


class WorkClock:
    """Counts the working seconds of a run over all attempts; pauses do not count.

    Args:
        total: The seconds the run may use.
        used: The seconds used by earlier attempts.
        monotonic: A monotonic clock, in seconds.

    Attributes:
        limit: The timeout that cuts the work off; rescheduled with every pause.
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
        self.limit: asyncio.Timeout | None = None

    def used(self) -> float:
        """Return the seconds used so far."""
        now = self._monotonic() if self._stopped_at is None else self._stopped_at
        return now - self._began

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the clock while the work waits for a user. Pauses may overlap."""
        if self._holders == 0:
            self._stopped_at = self._monotonic()
            if self.limit is not None:
                self.limit.reschedule(None)
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0 and self._stopped_at is not None:
                self._began += self._monotonic() - self._stopped_at
                self._stopped_at = None
                if self.limit is not None:
                    self.limit.reschedule(asyncio.get_running_loop().time() + self.hard_left())

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


class Budget:
    """The token budget of one run, in weighted tokens, input and output together.

    Only the attempt that holds the run counts here. Every step stores the count, so the next
    attempt begins with the same number. Spending exceeds the budget by at most one call and the
    requests that were repeated for it.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.spent = 0
        self._aside = int(total * LAST_STEP_SHARE)
        self._most_aside = int(total * MOST_LAST_STEP_SHARE)

    @property
    def fraction(self) -> float:
        """The used share of the tokens for ordinary steps: 0 to 1, more when overspent."""
        return self.spent / (self.total - self._aside)

    @property
    def left(self) -> int:
        """The tokens left of the whole budget."""
        return max(0, self.total - self.spent)

    def settle(self, usage: Usage) -> None:
        """Add the cost of a call."""
        self.spent += usage.weighted

    def set_aside(self, input_tokens: int) -> None:
        """Raise the reserve for the last step to that of this input, up to a maximum."""
        wanted = min(input_tokens + REPORT_OUTPUT, self._most_aside)
        self._aside = max(self._aside, wanted)

    def allow(self, input_tokens: int, max_output: int) -> int | None:
        """Return the most output tokens of an ordinary step; `None` if only the last step fits."""
        room = self.left - self._aside - input_tokens
        return min(max_output, room) if room >= LEAST_OUTPUT else None

    def allow_last(self, max_output: int) -> tuple[int, int] | None:
        """Return the most input and output tokens of the last step; `None` if none fits."""
        output = min(max_output, max(LEAST_LAST_OUTPUT, self.left // 3))
        room = self.left - output
        return (room, output) if room > 0 else None

    def reservation(self, input_tokens: int, max_output: int) -> int:
        """Return the most tokens that the next call may cost, within the budget."""
        return min(self.left, input_tokens + max_output)


class Unlimited:
    """The meter of a turn, which has no limit: an answer to a user is never cut off."""

    fraction = 0.0

    def settle(self, usage: Usage) -> None:
        """Count nothing; the row of the turn stores the sum."""

    def set_aside(self, input_tokens: int) -> None:
        """Reserve nothing."""

    def allow(self, input_tokens: int, max_output: int) -> int | None:
        """Allow `max_output` tokens."""
        return max_output

    def allow_last(self, max_output: int) -> tuple[int, int] | None:
        """Allow `max_output` tokens."""
        return 10**9, max_output

    def reservation(self, input_tokens: int, max_output: int) -> int:
        """Reserve nothing."""
        return 0
