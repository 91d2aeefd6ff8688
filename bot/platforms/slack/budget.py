"""Limits the rate of requests per workspace and method; urgent requests go first."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field

from bot.platforms.messaging.pacing import Pace, Spacing

#: Slack accepts per minute about 50 edits, 100 additions to streams, 20 starts and 20 ends of
#: streams (its tiers 3, 4 and 2).
EDITS_PER_MINUTE = 42
GROWTHS_PER_MINUTE = 84
STREAMS_PER_MINUTE = 14
#: Most requests at once after a quiet time. Together with the rate they stay below Slack's limit.
BURST = 6
#: Part of the burst that is reserved for urgent requests.
RESERVED = 3
#: Interval at which a waiting request checks again if it is urgent or first, in seconds.
LOOK_SECONDS = 0.5
#: Shortest wait, in seconds: a clock may not resolve less.
LEAST_SECONDS = 0.01


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Ticket:
    """A request that waits.

    Attributes:
        urgent: Returns True if the request is urgent now; this may change while it waits.
    """

    urgent: Callable[[], bool]


@dataclass(eq=False, slots=True)
class RequestBudget:
    """Limits requests to a steady rate (token bucket): urgent requests first, then in order.

    Attributes:
        per_minute: The rate, in requests per minute.
        now: A monotonic clock in seconds.
        sleep: Waits.
    """

    per_minute: float
    _: KW_ONLY
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _left: float = float(BURST)
    _counted: float = float("-inf")
    _waiting: list[_Ticket] = field(default_factory=list)

    async def wait(self, *, urgent: Callable[[], bool] = _always) -> None:
        """Wait until one more request may be sent, and count it."""
        ticket = _Ticket(urgent)
        self._waiting.append(ticket)
        try:
            while (seconds := self._seconds_for(ticket)) > 0:
                await self.sleep(min(seconds, LOOK_SECONDS))
            self._left -= 1
        finally:
            self._waiting.remove(ticket)

    def take_now(self) -> bool:
        """Count one more request and return True if it may be sent at once; else return False."""
        free = self._seconds_for(_Ticket(_always)) <= 0
        self._left -= free
        return free

    def _seconds_for(self, ticket: _Ticket) -> float:
        """Return the shortest wait of a request, in seconds; 0 if it may be sent now."""
        now = self.now()
        self._left = min(BURST, self._left + (now - self._counted) * self.per_minute / 60)
        self._counted = now
        urgent = ticket.urgent()
        needed = (1 if urgent else 1 + RESERVED) - self._left
        if needed > 0:
            return max(needed * 60 / self.per_minute, LEAST_SECONDS)
        earlier = (other for other in self._waiting if not urgent or other.urgent())
        return 0.0 if next(earlier, ticket) is ticket else LOOK_SECONDS


class WorkspaceBudgets:
    """The budgets of all workspaces; all edits in a workspace share one budget.

    Args:
        edits: Edits per minute.
        growths: Additions to streams per minute.
        streams: New streams per minute.

    Attributes:
        edits: The budget for `chat.update`, by workspace.
        growths: The budget for `chat.appendStream`, by workspace.
        streams: The budget for `chat.startStream`, and so for `chat.stopStream`, by workspace.
    """

    def __init__(
        self,
        *,
        edits: float = EDITS_PER_MINUTE,
        growths: float = GROWTHS_PER_MINUTE,
        streams: float = STREAMS_PER_MINUTE,
    ) -> None:
        self.edits = defaultdict[str, RequestBudget](lambda: RequestBudget(edits))
        self.growths = defaultdict[str, RequestBudget](lambda: RequestBudget(growths))
        self.streams = defaultdict[str, RequestBudget](lambda: RequestBudget(streams))


@dataclass(frozen=True, slots=True)
class BudgetedPace(Pace):
    """The pace of one message, within the budget of its workspace.

    Attributes:
        limits: Returns the spacing and the budget of the next request; `None` if it needs none.
        urgent: Returns True if the waiting request is urgent.
    """

    limits: Callable[[], tuple[Spacing, RequestBudget | None]]
    _: KW_ONLY
    urgent: Callable[[], bool] = lambda: False

    async def wait(self, *, final: bool) -> None:
        """Wait until a send may start."""
        spacing, budget = self.limits()
        await spacing.wait(final=final)
        if budget is not None:
            await budget.wait(urgent=_always if final else self.urgent)
