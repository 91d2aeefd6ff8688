"""What Slack tells an app, how often it tried, and when the app acknowledged it."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Literal, Protocol

from bot.tasks import Tasks
from bot.values import Json
from tests.fakes.patience import Pulse

Kind = Literal["events_api", "slash_commands", "interactive"]
#: Slack tries an event once more at once, after a minute and after five, and then never again.
MAX_RETRIES = 3


@dataclass(eq=False, slots=True)
class Attempt:
    """One try.

    Attributes:
        number: 0 for the first.
        reason: Why it is tried again, in Slack's words.
        acked_after: In seconds; `None` while it is not.
        answer: What the app sent along with the acknowledgement.
        status: Of the HTTP response; 0 in Socket Mode, or when there was none.
        failure: Why it counts as failed; empty otherwise.
    """

    number: int = 0
    reason: str = ""
    sent_at: float = 0.0
    acked_after: float | None = None
    answer: Json = field(default_factory=dict)
    status: int = 0
    failure: str = ""
    no_retry: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def acknowledge(self, answer: Json | None = None) -> None:
        self.acked_after = time.monotonic() - self.sent_at
        self.answer = answer or {}
        self.ended.set()

    def fail(self, failure: str) -> None:
        if not self.ended.is_set():
            self.failure = failure
            self.ended.set()


@dataclass(eq=False, slots=True)
class Delivery:
    """One event, command or interaction on its way to the app.

    Attributes:
        type: Of the event or interaction (`app_mention`), or the command.
    """

    kind: Kind
    type: str
    payload: Json
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def event_id(self) -> str:
        return str(self.payload.get("event_id", ""))

    @property
    def acked(self) -> bool:
        return any(attempt.acked_after is not None for attempt in self.attempts)

    @property
    def acked_after(self) -> float | None:
        """How long the first acknowledgement took, in seconds."""
        times = (a.acked_after for a in self.attempts)
        return next((seconds for seconds in times if seconds is not None), None)


class Transport(Protocol):
    """A way to an app."""

    @property
    def ready(self) -> bool:
        """Whether an app is at the other end."""
        ...

    async def carry(self, delivery: Delivery, attempt: Attempt, *, everywhere: bool) -> None:
        """Send it; whoever waits for the attempt hears how it went."""
        ...


class Deliveries:
    """Sends things to the app, and again when Slack would.

    Attributes:
        all: Everything that was to be told, in order.
        transport: The way that is used now.
        ack_seconds: How long Slack waits.
        immediate_retry: Whether an event that failed is sent once more at once.
    """

    def __init__(self, transport: Transport, tasks: Tasks, pulse: Pulse) -> None:
        self.all: list[Delivery] = []
        self.transport = transport
        self.ack_seconds = 3.0
        self.immediate_retry = True
        self._tasks = tasks
        self._pulse = pulse

    async def send(
        self,
        delivery: Delivery,
        *,
        number: int = 0,
        reason: str = "",
        everywhere: bool = False,
    ) -> Attempt:
        """Try once, and return when the app has acknowledged it or the time is over."""
        attempt = Attempt(number, reason)
        if not delivery.attempts:
            self.all.append(delivery)
        delivery.attempts.append(attempt)
        attempt.sent_at = time.monotonic()
        if self.transport.ready:
            await self._carry(delivery, attempt, everywhere=everywhere)
        else:
            attempt.fail("connection_failed")
        self._pulse.beat()
        self._retry_at_once(delivery, attempt)
        return attempt

    async def _carry(self, delivery: Delivery, attempt: Attempt, *, everywhere: bool) -> None:
        carried = self._tasks.start(
            self.transport.carry(delivery, attempt, everywhere=everywhere), name="a Slack delivery"
        )
        try:
            async with asyncio.timeout(self.ack_seconds):
                await attempt.ended.wait()
        except TimeoutError:
            attempt.fail("http_timeout")
            carried.cancel()

    def send_soon(self, delivery: Delivery) -> None:
        """Send it without waiting."""
        self._tasks.start(self.send(delivery), name="a Slack delivery")

    async def send_all(self, deliveries: list[Delivery]) -> None:
        """Send several at the same time, in order, and wait for all."""
        tasks = [self._tasks.start(self.send(each), name="a Slack delivery") for each in deliveries]
        if tasks:
            await asyncio.wait(tasks)

    @property
    def unacknowledged(self) -> list[Delivery]:
        """Events that no app acknowledged, and that Slack would still try again."""
        return [
            delivery
            for delivery in self.all
            if delivery.kind == "events_api"
            and not delivery.acked
            and not delivery.attempts[-1].no_retry
            and delivery.attempts[-1].number < MAX_RETRIES
        ]

    async def retry_lost(self) -> None:
        """Send again what was not acknowledged, as Slack does after a minute and after five."""
        for delivery in self.unacknowledged:
            await delivery.attempts[-1].ended.wait()
            if delivery.acked:
                continue
            last = delivery.attempts[-1]
            await self.send(delivery, number=last.number + 1, reason=last.failure or "http_error")

    def _retry_at_once(self, delivery: Delivery, attempt: Attempt) -> None:
        if (
            self.immediate_retry
            and delivery.kind == "events_api"
            and attempt.failure
            and attempt.number == 0
            and not attempt.no_retry
        ):
            self._tasks.start(
                self.send(delivery, number=1, reason=attempt.failure), name="a Slack retry"
            )
