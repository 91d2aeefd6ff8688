"""Stops our requests long before Discord bans this address for the ones that it refuses.

Discord bans an address for 10,000 refused requests in 10 minutes, whatever they were for.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from types import SimpleNamespace

import aiohttp

from bot.errors import DeliveryError

log = logging.getLogger(__name__)

WINDOW_SECONDS = 600.0
OPENS_AT = 1_000
CLOSES_AT = OPENS_AT // 2
#: What Discord counts.
REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
TOO_MANY = (
    "Discord has refused so many of my requests lately that I send none for some minutes, before "
    "it bans me. What is due is sent later."
)


class Breaker:
    """Counts the answers that refuse, and refuses to ask while there are too many.

    Args:
        monotonic: A clock in seconds that never goes back.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._refused: deque[float] = deque()
        self._open = False

    @property
    def open(self) -> bool:
        """Whether nothing may be asked now."""
        horizon = self._now() - WINDOW_SECONDS
        while self._refused and self._refused[0] <= horizon:
            self._refused.popleft()
        if self._open and len(self._refused) <= CLOSES_AT:
            self._open = False
            log.warning("Discord is asked again.")
        return self._open

    def check(self) -> None:
        """Let a request pass.

        Raises:
            DeliveryError: Too many were refused; this one was not sent.
        """
        if self.open:
            raise DeliveryError(TOO_MANY)

    def count(self, status: int, scope: str = "") -> None:
        """Take note of an answer.

        Args:
            status: Its status.
            scope: What a rate limit is on; Discord does not count those that bots share.
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
        """Return what makes a session of aiohttp count and refuse; the gateway is let through."""
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
        if request.url.scheme not in {"ws", "wss"}:
            self.check()

    async def _answered(
        self,
        _: aiohttp.ClientSession,
        __: SimpleNamespace,
        request: aiohttp.TraceRequestEndParams,
    ) -> None:
        answer = request.response
        self.count(answer.status, answer.headers.get("X-RateLimit-Scope", ""))
