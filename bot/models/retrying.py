"""Retries requests to a busy provider until the deadline, within a limit that adapts to it."""

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain, repeat
from typing import TypeVar

from pydantic import Field

from bot.agent.messages import Answer
from bot.errors import ModelUnavailableError
from bot.models import failures
from bot.models.base import Model, ModelRequest, OnText, OnWait
from bot.setting_types import LONGEST_WORK_SECONDS
from bot.values import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Longest wait of a request without a limit of its own.
UNLIMITED_SECONDS = 180.0
#: Longest pause before a model is asked again, even if its provider requests a day: an admin may
#: have raised the limit meanwhile.
LONGEST_REST = 600.0
#: Concurrent requests to a provider that has refused none, and the lower bound after refusals.
MOST = 1000
LEAST = 4


class RetrySettings(Settings):
    """Everything under `models.retry:`."""

    attempts: int = Field(5, ge=1, le=20)
    """Attempts in all of a request that may be charged each time: its answer broke off, did not
    come in time, or cannot be read. A busy provider is asked for as long as the work has time.
    """

    total_seconds: float = Field(3600, gt=0, le=LONGEST_WORK_SECONDS)
    """The longest that a request waits for a busy provider, in seconds; never longer than the time
    that its run or turn has left.
    """

    wait_initial_seconds: float = Field(0.5, ge=0, le=LONGEST_WORK_SECONDS)
    """The wait before the second attempt; it doubles each time."""

    wait_max_seconds: float = Field(30, ge=0, le=LONGEST_WORK_SECONDS)
    """The longest wait between attempts, unless the provider asks more."""

    wait_jitter_seconds: float = Field(1, ge=0, le=LONGEST_WORK_SECONDS)
    """A random part on top, so that runs do not all come back at once."""


class ConcurrencyLimit:
    """Limits the concurrent requests to one provider after the provider has refused some.

    The limit halves with each refusal and grows by one with each answer. Requests of background
    runs never delay those of users' turns: a turn waits only for other turns.

    Args:
        least: The lower bound of the limit.

    Attributes:
        limit: The current limit of concurrent requests.
    """

    def __init__(self, least: int = LEAST) -> None:
        self._least = least
        self.limit = MOST
        self._refusals = 0
        self._going = {False: 0, True: 0}
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {False: deque(), True: deque()}

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
        self.limit = min(MOST, self.limit + 1)
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
        self.limit = max(self._least, min(self.limit, sum(self._going.values())) // 2)

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


@dataclass(eq=False, slots=True)
class Patience:
    """Retries requests to one provider while the provider is busy.

    A pause that the provider requests applies to all requests to the same model.

    Attributes:
        provider: The provider's display name.
        now: A monotonic clock, in seconds.
        sleep: Sleeps by that clock.
    """

    settings: RetrySettings
    provider: str
    _: KW_ONLY
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    gate: ConcurrencyLimit = field(default_factory=ConcurrencyLimit)
    _rests: dict[str, float] = field(default_factory=dict)
    _down: set[str] = field(default_factory=set)

    async def ask(
        self,
        ask: Callable[[], Awaitable[T]],
        *,
        name: str,
        seconds: float | None = None,
        background: bool = False,
        on_wait: OnWait | None = None,
    ) -> T:
        """Return the result of the first successful attempt.

        Args:
            ask: Makes one attempt.
            name: The name of the model.
            seconds: Longest time until the last attempt begins; `None` for the default.
            background: Whether a run asks, not a user's turn.
            on_wait: Called before each wait.

        Raises:
            ModelUnavailableError: The provider is busy and the time left is too short for another
                attempt, or the limit of attempts that may be charged is reached.
            ModelError: Any other error of an attempt.
        """
        limit = UNLIMITED_SECONDS if seconds is None else seconds
        until = self.now() + min(limit, self.settings.total_seconds)
        failed, charged, error = 0, 0, None
        while True:
            rest = self._rests.get(name, 0.0) - self.now()
            wait = self._wait(failed, rest, until - self.now(), error)
            if wait > 0:
                if on_wait is not None:
                    on_wait(str(error or failures.resting(self.provider, wait)), wait)
                await self.sleep(wait)
            try:
                number = await self._enter(until, background=background, on_wait=on_wait)
                if self._rests.get(name, 0.0) > self.now():
                    # The provider requested a pause while this request waited at the gate.
                    self.gate.leave(background=background)
                    continue
                answer = await self._once(ask, number, background=background)
            except ModelUnavailableError as caught:
                error = caught
                # Hundreds of runs may wait for the same model: only its first failure is a warning.
                details = "; ".join(getattr(error, "__notes__", ()))
                level = logging.DEBUG if name in self._down else logging.WARNING
                text = "%s does not answer, it is asked again: %s (%s)"
                log.log(level, text, name, error, details)
                self._down.add(name)
                if error.retry_after_seconds is not None:
                    rest = min(error.retry_after_seconds, LONGEST_REST)
                    self._rests[name] = max(self._rests.get(name, 0.0), self.now() + rest)
                    if error.retry_after_seconds > until - self.now():
                        raise
                failed += 1
                charged += error.charged
                if charged >= self.settings.attempts:
                    raise
            else:
                if name in self._down:
                    self._down.discard(name)
                    log.warning("%s answers again", name)
                return answer

    def _wait(
        self, failed: int, rest: float, left: float, error: ModelUnavailableError | None
    ) -> float:
        """Return the seconds to wait before the next attempt.

        Args:
            failed: Number of failed attempts.
            rest: Seconds left of the pause that the provider requested.
            left: Seconds until the deadline.
            error: The error of the last attempt.

        Raises:
            ModelUnavailableError: The time left is too short for another attempt.
        """
        settings = self.settings
        if rest > max(left, 0.0):
            raise error or failures.resting(self.provider, rest)
        if failed == 0 and rest <= 0:
            return 0.0
        if error is not None and left <= 0:
            raise error
        jitter = random.uniform(0, settings.wait_jitter_seconds)  # noqa: S311
        backoff = 0.0
        if failed > 0:
            # The exponent is capped, since a large one raises OverflowError.
            backoff = settings.wait_initial_seconds * 2.0 ** min(failed - 1, 30)
            backoff = min(backoff, settings.wait_max_seconds, left / 2)
        return max(0.0, min(max(rest, backoff) + jitter, max(rest, left)))

    async def _enter(self, until: float, *, background: bool, on_wait: OnWait | None) -> int:
        """Wait for a slot of the gate and return the request's number.

        Raises:
            ModelUnavailableError: The deadline passed before a slot was free.
        """
        if not self.gate.is_full(background=background):
            return await self.gate.enter(background=background)
        if on_wait is not None:
            on_wait(str(failures.crowded(self.provider)), math.inf)
        try:
            async with asyncio.timeout(max(0.0, until - self.now())):
                return await self.gate.enter(background=background)
        except TimeoutError:
            raise failures.crowded(self.provider) from None

    async def _once(self, ask: Callable[[], Awaitable[T]], number: int, *, background: bool) -> T:
        gate = self.gate
        try:
            answer = await ask()
        except ModelUnavailableError as error:
            if error.throttled:
                gate.refused(number)
            raise
        else:
            gate.answered()
            return answer
        finally:
            gate.leave(background=background)


@dataclass(frozen=True, slots=True)
class RetryingModel:
    """Wraps a model and retries its requests while the provider is busy, within limits.

    A retry repeats no side effects, since no tool call of an incomplete answer is made. A streamed
    text starts over.
    """

    model: Model
    patience: Patience

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; see `bot.models.base.Model`."""
        again = (replace(request, repeated=True) for _ in repeat(None))
        attempts = chain((request,), again)
        return await self.patience.ask(
            lambda: self.model.ask(next(attempts), on_text),
            name=request.model,
            seconds=request.seconds,
            background=request.background,
            on_wait=request.on_wait,
        )
