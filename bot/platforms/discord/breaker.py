"""Circuit breaker that stops our requests before Discord bans this address.

Discord bans an address after 10,000 refused requests of any kind within 10 minutes.
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
#: Statuses that Discord counts towards the ban.
REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
TOO_MANY = (
    "Discord has refused so many of my requests lately that I send none for some minutes, before "
    "it bans me. What is due is sent later."
)


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

    def check(self) -> None:
        """Allow a request while the breaker is closed.

        Raises:
            DeliveryError: Too many requests were refused, so this one must not be sent.
        """
        if self.open:
            raise DeliveryError(TOO_MANY)

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
