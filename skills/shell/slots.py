"""Shares the command slots of one process fairly between users."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.errors import BotError


class SlotsBusyError(BotError):
    """No slot became free in time; nothing was run."""


class FairSlots:
    """Grants a limited number of slots to users in turn, with a limit per user.

    A free slot goes to the user whose last slot was granted longest ago, and within one user to the
    oldest request.

    Args:
        total: Slots in all.
        per_user: Slots that one user may hold at the same time.
    """

    def __init__(self, total: int, per_user: int) -> None:
        self._free = total
        self._per_user = per_user
        self._held: Counter[str] = Counter()
        #: Waiting requests by user; the next user comes first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def hold(self, user: str, *, seconds: float) -> AsyncIterator[None]:
        """Hold a slot until the block ends.

        Args:
            user: The key of the user whose share the slot counts towards.
            seconds: Longest wait for a slot.

        Raises:
            SlotsBusyError: No slot became free in that time.
        """
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(granted)
        self._grant()
        try:
            async with asyncio.timeout(seconds):
                await granted
        except BaseException as error:
            if granted.done() and not granted.cancelled():
                self._release(user)
            else:
                queue = self._waiting.get(user)
                if queue is not None and granted in queue:
                    queue.remove(granted)
                    if not queue:
                        del self._waiting[user]
            if isinstance(error, TimeoutError):
                who = "all command slots are in use"
                if (most := self._per_user) <= self._held[user]:
                    who = f"{most} commands of this user are running, as many as one user may have"
                raise SlotsBusyError(
                    f"Nothing was run: {who}, and none ended within {seconds:g} seconds. Try again "
                    "later."
                ) from None
            raise
        try:
            yield
        finally:
            self._release(user)

    def _release(self, user: str) -> None:
        self._free += 1
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]
        self._grant()

    def _grant(self) -> None:
        """Grant the free slots to the users whose turn it is."""
        while self._free:
            user = next((each for each in self._waiting if self._held[each] < self._per_user), None)
            if user is None:
                return
            queue = self._waiting[user]
            granted = queue.popleft()
            if queue:
                self._waiting.move_to_end(user)
            else:
                del self._waiting[user]
            if not granted.done():
                self._free -= 1
                self._held[user] += 1
                granted.set_result(None)
