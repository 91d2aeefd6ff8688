"""How many requests go to one provider at once: as many as it bears, users' turns first."""

import asyncio
from collections import deque

#: Requests at once to a provider that never refused any, and after however many refusals.
MOST = 1000
LEAST = 4


class Gate:
    """Limits the requests to one provider that go at once, as far as the provider has refused any.

    The limit halves when the provider refuses and grows by one with every answer. Requests of
    background runs never hold up those of users' turns: a turn waits only for other turns.

    Args:
        least: So many requests go at once in any case.
    """

    def __init__(self, least: int = LEAST) -> None:
        self._least = least
        self._limit = MOST
        self._refusals = 0
        self._going = {False: 0, True: 0}
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {False: deque(), True: deque()}

    @property
    def limit(self) -> int:
        """How many requests may go at once now."""
        return self._limit

    def is_full(self, *, background: bool) -> bool:
        """Return True if a request would have to wait now."""
        waiting = any(not each.done() for each in self._waiting[background])
        return waiting or not self._has_room(background=background)

    async def enter(self, *, background: bool) -> int:
        """Wait for room; return the number that `refused` takes.

        Args:
            background: Whether the request is one of a run, not of a user's turn.
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
                # Let in a moment before.
                self.leave(background=background)
            raise
        return self._refusals

    def leave(self, *, background: bool) -> None:
        """Give the room of a request back, whatever came of it."""
        self._going[background] -= 1
        self._let_in()

    def answered(self) -> None:
        """Take note that the provider answered."""
        self._limit = min(MOST, self._limit + 1)
        self._let_in()

    def refused(self, number: int) -> None:
        """Take note that the provider refused a request because there were too many.

        Args:
            number: From `enter`: of all requests that were under way together one counts.
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
                # Else its owner was cancelled meanwhile.
                if not place.done():
                    self._going[background] += 1
                    place.set_result(None)
