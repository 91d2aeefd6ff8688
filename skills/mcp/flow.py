"""Limits the data rate of a server; exceeding it ends the connection (pure, but for its clock)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_MESSAGE_BYTES = 4 * 1024 * 1024


class FloodError(Exception):
    """A server exceeds a limit of its data rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """Limits per window of `seconds`; `requests` are those that the server sends to the bot."""

    seconds: float = 10.0
    messages: int = 2_000
    requests: int = 100
    octets: int = 32 * 1024 * 1024


class Flow:
    """Counts the bytes and messages that a server sends."""

    def __init__(
        self, allowance: FlowLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._allowance = allowance or FlowLimits()
        self._clock = clock
        self._since = clock()
        self._messages = self._requests = self._octets = 0

    def take_octets(self, count: int) -> None:
        """Count bytes.

        Raises:
            FloodError: The limit of the window is exceeded.
        """
        self._window()
        self._octets += count
        if self._octets > self._allowance.octets:
            raise FloodError("it sends too many bytes")

    def take_message(self, *, request: bool) -> None:
        """Count a message.

        Raises:
            FloodError: The limit of the window is exceeded.
        """
        self._window()
        self._messages += 1
        self._requests += request
        if self._messages > self._allowance.messages:
            raise FloodError("it sends too many messages")
        if self._requests > self._allowance.requests:
            raise FloodError("it asks too much of the bot")

    def _window(self) -> None:
        now = self._clock()
        if now - self._since >= self._allowance.seconds:
            self._since = now
            self._messages = self._requests = self._octets = 0
