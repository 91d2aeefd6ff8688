"""How many requests of a kind a workspace is asked for in a minute, and who goes first."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.platforms.pacing import Pace

#: In a minute Slack takes about 50 edits, 100 additions to streams, 20 beginnings and as many ends
#: of streams (its tiers 3, 4 and 2).
EDITS_PER_MINUTE = 42
GROWTHS_PER_MINUTE = 84
STREAMS_PER_MINUTE = 14
#: How many may come at once after a quiet time. With the minute's rate they stay below the limit.
BURST = 6
#: How many of these are kept for what matters.
RESERVED = 3
#: How often somebody who waits looks whether they matter by now.
LOOK_SECONDS = 0.5
#: Nobody waits for less: a clock may not see it.
LEAST_SECONDS = 0.01


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Ticket:
    """Somebody who waits.

    Attributes:
        urgent: Whether they matter by now: it may change while they wait.
    """

    urgent: Callable[[], bool]


class Budget:
    """Lets requests through at a steady rate: what is urgent first, then in order.

    Args:
        per_minute: How many are let through in the long run.
        now: A clock in seconds that never goes back.
        sleep: Waits.
    """

    def __init__(
        self,
        per_minute: float,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._per_second = per_minute / 60
        self._now = now
        self._sleep = sleep
        self._left = float(BURST)
        self._counted = now()
        self._waiting: list[_Ticket] = []

    async def turn(self, *, urgent: Callable[[], bool] = _always) -> None:
        """Wait until one more may be sent, and count it."""
        ticket = _Ticket(urgent)
        self._waiting.append(ticket)
        try:
            while (seconds := self._seconds_for(ticket)) > 0:
                await self._sleep(min(seconds, LOOK_SECONDS))
            self._left -= 1
        finally:
            self._waiting.remove(ticket)

    def take_now(self) -> bool:
        """Count one more if it may be sent at once; return whether it may."""
        free = self._seconds_for(_Ticket(_always)) <= 0
        self._left -= free
        return free

    def _seconds_for(self, ticket: _Ticket) -> float:
        """Return how long this one has to wait at least; 0 when it is their turn."""
        now = self._now()
        self._left = min(BURST, self._left + (now - self._counted) * self._per_second)
        self._counted = now
        urgent = ticket.urgent()
        needed = (1 if urgent else 1 + RESERVED) - self._left
        if needed > 0:
            return max(needed / self._per_second, LEAST_SECONDS)
        return 0.0 if self._is_first(ticket, urgent=urgent) else LOOK_SECONDS

    def _is_first(self, ticket: _Ticket, *, urgent: bool) -> bool:
        matters = (other for other in self._waiting if not urgent or other.urgent())
        return next(matters, ticket) is ticket


class Budgets:
    """The budgets of every workspace: everything that edits there takes from the same one.

    Args:
        edits: Edits per minute.
        growths: Additions to streams per minute.
        streams: New streams per minute.
    """

    def __init__(
        self,
        *,
        edits: float = EDITS_PER_MINUTE,
        growths: float = GROWTHS_PER_MINUTE,
        streams: float = STREAMS_PER_MINUTE,
    ) -> None:
        self._edits: dict[str, Budget] = defaultdict(lambda: Budget(edits))
        self._growths: dict[str, Budget] = defaultdict(lambda: Budget(growths))
        self._streams: dict[str, Budget] = defaultdict(lambda: Budget(streams))

    def edits(self, workspace: str) -> Budget:
        """Return the budget for `chat.update`."""
        return self._edits[workspace]

    def growths(self, workspace: str) -> Budget:
        """Return the budget for `chat.appendStream`."""
        return self._growths[workspace]

    def streams(self, workspace: str) -> Budget:
        """Return the budget for `chat.startStream`, and so for `chat.stopStream`."""
        return self._streams[workspace]


class Share(Pace):
    """The pace of one message out of the budget of its workspace.

    Args:
        spacing: How far apart the edits of this message are.
        budget: Tells from which budget the next one is taken; `None` when it takes none.
        urgent: Whether what waits now matters.
    """

    def __init__(
        self,
        spacing: Pace,
        budget: Callable[[], Budget | None],
        *,
        urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        self._spacing = spacing
        self._budget = budget
        self._urgent = urgent

    async def turn(self, *, final: bool) -> None:
        """Wait until a send may start."""
        await self._spacing.turn(final=final)
        budget = self._budget()
        if budget is not None:
            await budget.turn(urgent=_always if final else self._urgent)
