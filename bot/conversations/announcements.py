"""Delivers the announcements in the outbox, with retries and backoff; sends signals and notices."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf

from bot.errors import DeliveryError, NotPresentError
from bot.events import AnnouncementDue
from bot.platforms.base import Announcement, Outlet
from bot.subagents.wording import shown_name
from bot.tasks import Tasks
from bot.values import Clock, Identity, Place, Stopper
from db import outbox, runs, users
from db.database import Database, Transaction, patiently
from db.outbox import OutboxEntry
from db.users import User

log = logging.getLogger(__name__)

FIRST_WAIT = timedelta(seconds=15)
LONGEST_WAIT = timedelta(minutes=5)
GIVE_UP_AFTER = timedelta(minutes=30)
SEND_SECONDS = 60.0
HELD_AT_MOST = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Announcements:
    """Delivers the items of the outbox through the outlets of this process.

    An item is stored as being sent before it is passed to the platform. After a crash it therefore
    counts as possibly delivered: it is sent at most once more, marked as a possible duplicate.

    Attributes:
        under_way: The keys of the items that this process claims or sends.
    """

    database: Database
    outlets: Mapping[str, Outlet]
    tasks: Tasks
    worker_id: str
    now: Clock
    under_way: set[str] = field(default_factory=set)

    def on_due(self, event: AnnouncementDue) -> None:
        """Deliver an announcement in the background; the sweep retries a failure."""
        self.tasks.start(self.deliver(event.key), name=f"deliver {event.key}")

    async def deliver(self, key: str) -> bool:
        """Make one attempt to deliver an item; return True if it arrived."""
        if key in self.under_way:
            return False
        self.under_way.add(key)
        try:
            async with self.database.transaction() as tx:
                item = await outbox.claim(tx, key, self.worker_id, self.now())
                run_id = item.run_id if item else None
                stopper = await users.stopper_of(tx, run_id) if run_id else None
                run = await runs.get(tx, run_id) if run_id else None
            resumable = run is not None and run.status.resumable
            return item is not None and await self._send(item, stopper, resumable=resumable)
        finally:
            self.under_way.discard(key)

    async def _send(self, item: OutboxEntry, stopper: User | None, *, resumable: bool) -> bool:
        outlet = self.outlets.get(item.place.platform)
        if outlet is None:
            await self._failed(item, DeliveryError("This process does not serve that platform."))
            return False
        announcement = Announcement(
            key=item.key,
            place=item.place,
            owner=item.user,
            title=item.title,
            text=item.text,
            footer=item.footer,
            maybe_repeated=item.maybe_repeated,
            stopped_by=Stopper(stopper.identity, shown_name(stopper)) if stopper else None,
            resumable=item.run_id or "" if resumable else "",
        )
        try:
            async with asyncio.timeout(SEND_SECONDS):
                delivered = await outlet.announce(announcement)
        except NotPresentError:
            await self._store(lambda tx: outbox.wait(tx, item))
            return False
        except Exception as error:
            if isinstance(error, DeliveryError):
                failure = error
            elif isinstance(error, TimeoutError):
                failure = DeliveryError("The platform did not answer.", fate_unknown=True)
            else:
                log.exception("The delivery of %s failed", item.key)
                failure = DeliveryError(type(error).__name__, fate_unknown=True)
            await self._failed(item, failure)
            return False
        message_ids = list(delivered.message_ids)
        await self._store(lambda tx: outbox.delivered(tx, item.key, message_ids, self.now()))
        return True

    async def _store(self, change: Callable[[Transaction], Awaitable[None]]) -> None:
        """Store the outcome of a send, with retries while the database is unreachable.

        An item without a stored outcome counts as possibly sent, and would be sent again.
        """

        async def write() -> None:
            async with self.database.transaction() as tx:
                await change(tx)

        await patiently(write, seconds=inf)

    async def _failed(self, item: OutboxEntry, error: DeliveryError) -> None:
        now = self.now()
        tried_for = now - (item.first_tried_at or now)
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** max(0, item.attempts - 1))
        wait = max(wait, timedelta(seconds=min(error.retry_after_seconds, 3_600)))
        hopeless = error.permanent or tried_for + wait > GIVE_UP_AFTER
        twice_unknown = error.fate_unknown and item.maybe_repeated
        if hopeless or twice_unknown:
            await self._store(lambda tx: outbox.block(tx, item, error=str(error)))
            log.warning("The announcement %s is blocked: %s", item.key, error)
            return
        due, unknown = now + wait, error.fate_unknown
        await self._store(
            lambda tx: outbox.retry(tx, item, due_at=due, error=str(error), maybe_repeated=unknown)
        )

    async def deliver_waiting(self, user: Identity) -> None:
        """Deliver, in order, the items that waited for this user to be present."""
        async with self.database.snapshot() as tx:
            keys = await outbox.waiting_for(tx, user.key)
        for key in keys:
            await self.deliver(key)

    async def sweep(self) -> None:
        """Deliver the items that are due, or that were held longer than `HELD_AT_MOST`."""
        now = self.now()
        async with self.database.transaction() as tx:
            await outbox.release_held_before(tx, now - HELD_AT_MOST, now)
            keys = await outbox.due(tx, list(self.outlets), now)
        for key in keys:
            self.on_due(AnnouncementDue(key=key))


@dataclass(frozen=True, slots=True)
class Notices:
    """Sends receipts and short notices in the background, to platforms with an outlet here."""

    outlets: Mapping[str, Outlet]
    tasks: Tasks

    def acknowledge(self, place: Place) -> None:
        """Show in a place that the message was received."""
        if outlet := self.outlets.get(place.platform):
            self.tasks.start(outlet.acknowledge(place), name="acknowledge")

    def answered(self, place: Place, *, read: bool = False) -> None:
        """Remove the sign that the message waits for an answer; show that it was `read`."""
        if outlet := self.outlets.get(place.platform):
            self.tasks.start(outlet.answered(place, read=read), name="answered")

    def say(self, place: Place, user: Identity, text: str) -> None:
        """Send a text of a user's command to a place, for all who read there."""

        async def send(outlet: Outlet) -> None:
            try:
                await outlet.open_reply(place, user).finish(text)
            except DeliveryError as error:
                log.info("A notice did not reach its place: %s", error)

        if outlet := self.outlets.get(place.platform):
            self.tasks.start(send(outlet), name="say")

    def notify(self, place: Place, user: Identity, text: str) -> None:
        """Send a short text to one user in a place."""
        if outlet := self.outlets.get(place.platform):
            self.tasks.start(outlet.tell(place, user, text), name="notify")
