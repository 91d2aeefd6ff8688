"""Stays below Discord's rate limits: a circuit breaker, and buckets that replace discord.py's.

Discord bans an address after 10,000 refused requests of any kind within 10 minutes.

`discord.http.Ratelimit` of discord.py 2.7.1 mishandles a bucket of minutes, such as 50 threads in
300 s. With `max_ratelimit_timeout` it refuses every request until the window is nearly over,
although tokens are left. Without it, the request that takes the last token returns minutes late.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from types import SimpleNamespace

import aiohttp
import discord
from discord.http import HTTPClient

from bot.errors import DeliveryError

log = logging.getLogger(__name__)

WINDOW_SECONDS = 600.0
OPENS_AT = 1_000
CLOSES_AT = OPENS_AT // 2
#: Statuses that Discord counts towards the ban.
REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
TOO_MANY = (
    "Discord has refused so many of my requests lately that I send none for some minutes, before "
    "it bans me. What is due is sent later."
)
#: With more buckets than `MOST_BUCKETS`, those unused for `UNUSED_SECONDS` are dropped.
MOST_BUCKETS = 256
UNUSED_SECONDS = 300.0


class Breaker:
    """Counts refused requests and blocks further ones while there are too many.

    Args:
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._refused: deque[float] = deque()
        self._open = False

    @property
    def open(self) -> bool:
        """True while no request may be sent; closes the breaker when few refusals are left."""
        horizon = self._now() - WINDOW_SECONDS
        while self._refused and self._refused[0] <= horizon:
            self._refused.popleft()
        if self._open and len(self._refused) <= CLOSES_AT:
            self._open = False
            log.warning("Discord is asked again.")
        return self._open

    def count(self, status: int, scope: str = "") -> None:
        """Count a response if it is a refusal; open the breaker after too many.

        Args:
            status: The status of the response.
            scope: The scope of a rate limit; Discord does not count limits shared by bots.
        """
        if status not in REFUSED or scope == "shared":
            return
        self._refused.append(self._now())
        if not self.open and len(self._refused) >= OPENS_AT:
            self._open = True
            log.error(
                "Discord refused %d requests in %d minutes (the last with status %d): nothing is "
                "sent until that is less. Look for channels where the bot lost its permissions.",
                len(self._refused),
                WINDOW_SECONDS / 60,
                status,
            )

    def trace(self) -> aiohttp.TraceConfig:
        """Return an aiohttp trace that counts and blocks requests, except those to the gateway."""
        config = aiohttp.TraceConfig()
        config.on_request_start.append(self._asked)
        config.on_request_end.append(self._answered)
        return config

    async def _asked(
        self,
        _: aiohttp.ClientSession,
        __: SimpleNamespace,
        request: aiohttp.TraceRequestStartParams,
    ) -> None:
        if request.url.scheme not in {"ws", "wss"} and self.open:
            raise DeliveryError(TOO_MANY)

    async def _answered(
        self,
        _: aiohttp.ClientSession,
        __: SimpleNamespace,
        request: aiohttp.TraceRequestEndParams,
    ) -> None:
        answer = request.response
        self.count(answer.status, answer.headers.get("X-RateLimit-Scope", ""))


class Bucket:
    """Rate limit of the requests for one route and channel within a time window.

    Requests are sent in the order of their arrival.

    Args:
        longest_seconds: Longest wait; requests that would wait longer are refused and not sent.
        now: A monotonic clock, in seconds.
    """

    def __init__(
        self, longest_seconds: float, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit = self.remaining = 1
        self._longest = longest_seconds
        self._now = now
        self._used = now()
        self._outgoing = 0
        #: The end of the window; `None` until Discord has sent it.
        self._ends: float | None = None
        self._queue = asyncio.Lock()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> None:
        self._used = self._now()
        try:
            async with asyncio.timeout(self._longest), self._queue:
                while True:
                    left = None if self._ends is None else self._ends - self._now()
                    if left is not None and left <= 0:
                        self._ends, self.remaining = None, self.limit - self._outgoing
                        left = None
                    if self.remaining > 0:
                        break
                    if left is not None and left > self._longest:
                        raise discord.RateLimited(left)
                    # Until a request in flight or the window ends.
                    self._changed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await self._changed.wait()
                self.remaining -= 1
                self._outgoing += 1
        except TimeoutError:
            raise discord.RateLimited(self._longest) from None

    async def __aexit__(self, *_: object) -> None:
        self._outgoing -= 1
        if self._ends is None and not self._outgoing:
            self.remaining = self.limit
        self._changed.set()

    @property
    def unused(self) -> bool:
        """True if the bucket has been unused for long enough to be dropped."""
        return not self._outgoing and self._now() - self._used >= UNUSED_SECONDS

    def update(self, response: aiohttp.ClientResponse, *, use_clock: bool = False) -> None:
        """Update the window from the headers of a response."""
        headers = response.headers
        in_window = self._ends is not None and self._now() < self._ends
        self.limit = int(headers.get("X-Ratelimit-Limit", 1))
        # The header counts this request; the other requests in flight may not be counted yet.
        left = int(headers.get("X-Ratelimit-Remaining", 0)) - (self._outgoing - 1)
        self.remaining = min(left, self.remaining) if in_window else left
        self._ends = self._now() + float(headers.get("X-Ratelimit-Reset-After") or 1.0)
        self._changed.set()


class _Reopening(asyncio.Event):
    """The library's event for the global rate limit, set again after a timeout in any case.

    The library sets the event after the wait of the request that met the limit. If that request is
    cancelled while it waits, every later request would wait forever.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self.set()

    def clear(self) -> None:
        super().clear()
        asyncio.get_running_loop().call_later(self._seconds, self.set)


class _Buckets(dict[str, Bucket]):
    """The buckets by their key, created on first use; unused ones are dropped.

    The library adds a second key for a bucket once Discord has sent the hash of its route.
    """

    def __init__(self, longest_seconds: float) -> None:
        super().__init__()
        self._longest = longest_seconds

    def __missing__(self, key: str) -> Bucket:
        if len(self) >= MOST_BUCKETS:
            for unused in [name for name, each in self.items() if each.unused]:
                del self[unused]
        self[key] = Bucket(self._longest)
        return self[key]


def use_buckets(http: HTTPClient, longest_seconds: float) -> None:
    """Replace the buckets of a logged-in client with ours.

    Args:
        http: The client's HTTP client.
        longest_seconds: The longest wait for a bucket and for the global rate limit.
    """
    buckets = _Buckets(longest_seconds)
    http._buckets = buckets  # type: ignore[assignment]  # noqa: SLF001
    http.get_ratelimit = buckets.__getitem__  # type: ignore[method-assign, assignment]
    http._global_over = _Reopening(longest_seconds + 1.0)  # noqa: SLF001
