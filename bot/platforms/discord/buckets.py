"""Rate limit buckets that take the place of discord.py's, which wait and refuse too much.

What `discord.http.Ratelimit` of discord.py 2.7.1 does to a bucket of minutes, such as 50 threads in
300 s: with `max_ratelimit_timeout` it refuses every request until the window is nearly over,
although tokens are left; without it, the request that takes the last token returns minutes late.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import aiohttp
import discord
from discord.http import HTTPClient

#: With more buckets than this, those that were not used for so many seconds are dropped.
MOST_BUCKETS = 256
UNUSED_SECONDS = 300.0


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Bucket:
    """The requests that Discord takes for one route and channel in a window of time.

    Requests pass in the order in which they came.

    Args:
        longest_seconds: Requests that would wait longer are refused, and so are not sent.
        now: A clock in seconds that never goes back.
    """

    def __init__(self, longest_seconds: float, *, now: Callable[[], float] = _loop_time) -> None:
        self.limit = self.remaining = 1
        self._longest = longest_seconds
        self._now = now
        self._used = now()
        self._outgoing = 0
        #: The end of the window; `None` while Discord has not told it.
        self._ends: float | None = None
        self._queue = asyncio.Lock()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> None:
        self._used = self._now()
        try:
            async with asyncio.timeout(self._longest), self._queue:
                while not self._take():
                    await self._wait()
        except TimeoutError:
            raise discord.RateLimited(self._longest) from None

    async def __aexit__(self, *_: object) -> None:
        self._outgoing -= 1
        if self._ends is None and not self._outgoing:
            self.remaining = self.limit
        self._changed.set()

    def _take(self) -> bool:
        if self._ends is not None and self._now() >= self._ends:
            self._ends, self.remaining = None, self.limit - self._outgoing
        if self.remaining <= 0:
            return False
        self.remaining -= 1
        self._outgoing += 1
        return True

    async def _wait(self) -> None:
        """Wait until a request under way ends, or the window does.

        Raises:
            discord.RateLimited: The window lasts too long.
        """
        left = None if self._ends is None else self._ends - self._now()
        if left is not None and left > self._longest:
            raise discord.RateLimited(left)
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._changed.wait()

    def update(self, response: aiohttp.ClientResponse, *, use_clock: bool = False) -> None:
        """Take over what an answer says about the window."""
        headers = response.headers
        in_window = self._ends is not None and self._now() < self._ends
        self.limit = int(headers.get("X-Ratelimit-Limit", 1))
        # Of the requests under way, this one is counted in it; the others may not be.
        left = int(headers.get("X-Ratelimit-Remaining", 0)) - (self._outgoing - 1)
        self.remaining = min(left, self.remaining) if in_window else left
        self._ends = self._now() + float(headers.get("X-Ratelimit-Reset-After") or 1.0)
        self._changed.set()

    def is_inactive(self) -> bool:
        """Whether nobody uses it, so that it may be dropped."""
        return not self._outgoing and self._now() - self._used >= UNUSED_SECONDS


class _Reopening(asyncio.Event):
    """The library's gate for the global rate limit, which opens again in any case.

    The library opens it after the wait of the request that met the limit. When that request was
    cancelled meanwhile, every later request would wait for ever.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self.set()

    def clear(self) -> None:
        super().clear()
        asyncio.get_running_loop().call_later(self._seconds, self.set)


def use_buckets(http: HTTPClient, longest_seconds: float) -> None:
    """Let a client that is logged in use our buckets.

    Args:
        http: The client's.
        longest_seconds: The longest wait for a bucket, and for the global rate limit.
    """
    buckets: dict[str, Bucket] = {}

    def bucket_of(key: str) -> Bucket:
        if key not in buckets:
            if len(buckets) >= MOST_BUCKETS:
                for unused in [name for name, each in buckets.items() if each.is_inactive()]:
                    del buckets[unused]
            buckets[key] = Bucket(longest_seconds)
        return buckets[key]

    # The library puts buckets under a second name as soon as Discord tells the hash of a route.
    http._buckets = buckets  # type: ignore[assignment]  # noqa: SLF001
    http.get_ratelimit = bucket_of  # type: ignore[method-assign, assignment]
    http._global_over = _Reopening(longest_seconds + 1.0)  # noqa: SLF001
