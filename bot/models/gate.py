"""Adaptive concurrency limit of the requests to one provider; users' turns have priority."""

import asyncio
from collections import deque

#: Concurrent requests to a provider that has refused none, and the lower bound after refusals.
MOST = 1000
LEAST = 4


class ConcurrencyLimit:
    """Limits the concurrent requests to one provider after the provider has refused some.

    The limit halves with each refusal and grows by one with each answer. Requests of background
    runs never delay those of users' turns: a turn waits only for other turns.

    Args:
        least: The lower bound of the limit.
    """

    def __init__(self, least: int = LEAST) -> None:
        self._least = least
        self._limit = MOST
        self._refusals = 0
        self._going = {False: 0, True: 0}
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {False: deque(), True: deque()}

    @property
    def limit(self) -> int:
        """The current limit of concurrent requests."""
        return self._limit

    def is_full(self, *, background: bool) -> bool:
        """Return True if a request would have to wait now."""
        waiting = any(not each.done() for each in self._waiting[background])
        return waiting or not self._has_room(background=background)

    async def enter(self, *, background: bool) -> int:
        """Wait until the request may start; return the number to pass to `refused`.

        Args:
            background: Whether the request belongs to a run, not to a user's turn.
        """
        queue = self._waiting[background]
        if not self.is_full(background=background):
            self._going[background] += 1
            return self._refusals
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                # The request was admitted just before the cancellation.
                self.leave(background=background)
            raise
        return self._refusals

    def leave(self, *, background: bool) -> None:
        """Release the slot of a request, whatever its outcome."""
        self._going[background] -= 1
        self._let_in()

    def answered(self) -> None:
        """Raise the limit by one after an answer."""
        self._limit = min(MOST, self._limit + 1)
        self._let_in()

    def refused(self, number: int) -> None:
        """Halve the limit, or the number of current requests if lower, after a refused request.

        Args:
            number: The number from `enter`. Of all requests with the same number, only the first
                refusal counts.
        """
        if number != self._refusals:
            return
        self._refusals += 1
        self._limit = max(self._least, min(self._limit, sum(self._going.values())) // 2)

    def _has_room(self, *, background: bool) -> bool:
        turns, runs = self._going[False], self._going[True]
        return (turns + runs if background else turns) < self.limit

    def _let_in(self) -> None:
        for background in (False, True):
            queue = self._waiting[background]
            while queue and self._has_room(background=background):
                place = queue.popleft()
                # A future that is done belongs to a cancelled request.
                if not place.done():
                    self._going[background] += 1
                    place.set_result(None)
