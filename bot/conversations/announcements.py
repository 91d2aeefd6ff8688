"""Delivers the announcements in the outbox, with retries and backoff."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from math import inf

from bot.conversations.admin_notices import PREFIX, AdminNotices, id_of
from bot.conversations.pause_lines import pause_line
from bot.counted_events import DeliveryTried
from bot.errors import DeliveryError, NotPresentError
from bot.events import AnnouncementDue
from bot.platforms.base import (
    Announcement,
    Choice,
    Delivered,
    FileMessage,
    NoticeButton,
    OutgoingFile,
    Outlet,
)
from bot.subagents.limits import SubagentSettings
from bot.subagents.requests import notify_of
from bot.subagents.wording import shown_name
from bot.tasks import Tasks
from bot.values import Clock, Identity, Live, Stopper
from db import admin_notices, deliveries, outbox, pauses, run_files, users
from db.admin_notices import StoredNotice
from db.database import Database, Transaction, patiently
from db.deliveries import ClaimedEntry
from db.group_writer import GroupWriter
from db.outbox import OutboxEntry
from db.pauses import Pause
from db.users import User

log = logging.getLogger(__name__)

FIRST_WAIT = timedelta(seconds=15)
LONGEST_WAIT = timedelta(minutes=5)
#: The longest wait that a platform can ask for; it may end after `GIVE_UP_AFTER`.
LONGEST_ASKED_WAIT = timedelta(hours=1)
GIVE_UP_AFTER = timedelta(minutes=30)
SEND_SECONDS = 60.0
HELD_AT_MOST = timedelta(minutes=5)
#: An announcement within `BUSY_SECONDS` after another one waits `GATHER_SECONDS` for more, which
#: are claimed in the same transaction.
BUSY_SECONDS, GATHER_SECONDS = 0.1, 0.02

TOGETHER = "✅ {} sub-agents completed"

#: Sends the texts of items, or the files of a run, through an outlet.
Send = Callable[[Outlet], Awaitable[Delivered]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """An attempt to deliver items in one message, or the files of a run.

    Attributes:
        files: The files to send; only of a run whose text was delivered before.
        left: The runs of which files are left to send after the text.
        stopper: The user who stopped another user's run.
        notice: The notice to admins that is delivered.
        paused: The pause in the place.
    """

    items: Sequence[ClaimedEntry]
    files: Sequence[OutgoingFile]
    left: Sequence[str]
    stopper: User | None
    notice: StoredNotice | None
    paused: Pause | None


@dataclass(eq=False, slots=True)
class Announcements:
    """Delivers the items of the outbox through the outlets of this process.

    An item is stored as being sent before it is passed to the platform. After a crash it therefore
    counts as possibly delivered: it is sent at most once more, marked as a possible duplicate.

    Attributes:
        settings: The settings of runs.
        notices: Notifies the admins of blocked items.
        publish: Receives the outcome of each attempt.
        under_way: The keys of the items that this process claims or sends.
    """

    database: Database
    outlets: Mapping[str, Outlet]
    tasks: Tasks
    worker_id: str
    now: Clock
    settings: Live[SubagentSettings] = field(default_factory=SubagentSettings)
    notices: AdminNotices | None = None
    publish: Callable[[DeliveryTried], None] = lambda _: None
    under_way: set[str] = field(default_factory=set)
    _claimed_at: float = -BUSY_SECONDS
    _claims: GroupWriter[tuple[str, set[str]], DeliveryAttempt | None] = field(init=False)
    _arrivals: GroupWriter[Mapping[str, list[str]], None] = field(init=False)

    def __post_init__(self) -> None:
        """Create the writers of what concurrent deliveries store together."""
        self._claims = GroupWriter(
            database=self.database,
            tasks=self.tasks,
            name="claim announcements",
            store=self._claim,
            # The sweep retries.
            patience_seconds=0,
            gather_seconds=self._gather_seconds,
        )
        self._arrivals = GroupWriter(
            database=self.database,
            tasks=self.tasks,
            name="mark announcements as delivered",
            store=self._mark,
            # An item without a stored outcome counts as possibly sent, and would be sent again.
            patience_seconds=inf,
        )

    def _gather_seconds(self) -> float:
        before, self._claimed_at = self._claimed_at, asyncio.get_running_loop().time()
        return GATHER_SECONDS if self._claimed_at - before < BUSY_SECONDS else 0.0

    def on_due(self, event: AnnouncementDue) -> None:
        """Deliver an announcement in the background; the sweep retries a failure."""
        self.tasks.start(self.deliver(event.key), name=f"deliver {event.key}")

    async def deliver(self, key: str) -> bool:
        """Make one attempt to deliver an item; return True if it arrived with its files.

        Due items of its batch are delivered with it, in one message. The files of the
        runs follow the text, with attempts of their own.
        """
        if key in self.under_way:
            return False
        keys = {key}
        self.under_way.add(key)
        try:
            arrived, left = await self._attempt(key, keys)
            for each in left:
                arrived = (await self._attempt(each, keys))[0] and arrived
            return arrived
        finally:
            self.under_way.difference_update(keys)

    async def _attempt(self, key: str, keys: set[str]) -> tuple[bool, list[str]]:
        """Deliver the text of an item and of due ones of its batch, or the files of a run.

        Args:
            key: The item.
            keys: The keys that are under way: those of the batch are added, and those that are
                not sent now removed.

        Returns:
            True if it arrived, and the items of which files are left.
        """
        attempt = await self._claims.write((key, keys))
        if attempt is None:
            return False, []
        items, left = attempt.items, attempt.left
        item = items[0]
        send = send_files if item.text_delivered else send_texts
        delivered = await self._send(items, partial(send, attempt))
        if delivered is None:
            return False, []
        ids, now = list(delivered.message_ids), self.now()

        async def store(tx: Transaction, each: OutboxEntry) -> None:
            if each.run_id in left:
                # After a crash the files are sent in the order in which they are due.
                earlier = timedelta(microseconds=len(left) - left.index(each.run_id))
                await outbox.follow_with_files(tx, each.key, ids, now - earlier)
                return
            await outbox.delivered(tx, {each.key: ids}, now)
            if each.text_delivered:
                await run_files.forget(tx, each.run_id or "")

        if left or item.text_delivered:
            await self._store(items, store)
        else:
            await self._arrivals.write({each.key: ids for each in items})
        self._tried(item, "delivered")
        return True, [each.key for each in items if each.run_id in left]

    async def _claim(
        self, tx: Transaction, due: Sequence[tuple[str, set[str]]]
    ) -> list[DeliveryAttempt | None]:
        """Claim items, each with the keys that are under way with it."""
        settings = self.settings()
        claimed = await deliveries.claim(
            tx,
            [key for key, _ in due],
            self.worker_id,
            self.now(),
            present=timedelta(seconds=settings.present_seconds),
            together=settings.joined,
        )
        with_others = {each.key for items in claimed.values() for each in items} - claimed.keys()
        attempts: list[DeliveryAttempt | None] = []
        for key, keys in due:
            items = claimed.get(key)
            if key in with_others:
                # It is under way until the message of another item is sent.
                keys.discard(key)
            # Before the commit: a claimed item that is not under way counts as forgotten.
            keys.update(each.key for each in items or ())
            self.under_way.update(keys)
            attempts.append(await self._prepare(tx, items) if items else None)
        return attempts

    async def _prepare(self, tx: Transaction, items: Sequence[ClaimedEntry]) -> DeliveryAttempt:
        item = items[0]
        files: list[tuple[str, bytes]] = []
        left: list[str] = []
        if item.text_delivered:
            files = await run_files.of_run(tx, item.run_id or "")
        else:
            left = [each.run_id for each in items if each.run_id and each.has_files]
        stopper = notice = paused = None
        if len(items) == 1 and item.run_id and item.stopped_by_other:
            stopper = await users.stopper_of(tx, item.run_id)
        if item.key.startswith(PREFIX):
            notice = await admin_notices.get(tx, id_of(item.key))
        elif item.any_pause:
            paused = await pauses.of(tx, item.user.key, item.place)
        return DeliveryAttempt(
            items=items,
            files=[OutgoingFile(*each) for each in files],
            left=left,
            stopper=stopper,
            notice=notice,
            paused=paused,
        )

    async def _mark(
        self, tx: Transaction, arrivals: Sequence[Mapping[str, list[str]]]
    ) -> list[None]:
        """Mark items as delivered, each in a message with these ids."""
        sent = {key: ids for arrival in arrivals for key, ids in arrival.items()}
        await outbox.delivered(tx, sent, self.now())
        return [None] * len(arrivals)

    async def _send(self, items: Sequence[OutboxEntry], send: Send) -> Delivered | None:
        """Send items through the outlet of their platform; `None` if they did not arrive.

        A failure is stored. Items for a user who is absent are stored as waiting.
        """
        outlet = self.outlets.get(items[0].place.platform)
        if outlet is None:
            await self._failed(items, DeliveryError("This process does not serve that platform."))
            return None
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return await send(outlet)
        except NotPresentError:
            await self._store(items, outbox.wait)
            return None
        except Exception as error:
            if isinstance(error, DeliveryError):
                failure = error
            elif isinstance(error, TimeoutError):
                failure = DeliveryError("The platform did not answer.", fate_unknown=True)
            else:
                log.exception("The delivery of %s failed", items[0].key)
                failure = DeliveryError(type(error).__name__, fate_unknown=True)
            await self._failed(items, failure)
            return None

    async def _store(
        self,
        items: Sequence[OutboxEntry],
        change: Callable[[Transaction, OutboxEntry], Awaitable[None]],
    ) -> None:
        """Store the outcome of a send, with retries while the database is unreachable.

        An item without a stored outcome counts as possibly sent, and would be sent again.
        """

        async def write() -> None:
            async with self.database.transaction() as tx:
                for item in items:
                    await change(tx, item)

        await patiently(write, seconds=inf)

    async def _failed(self, items: Sequence[OutboxEntry], error: DeliveryError) -> None:
        item, now = items[0], self.now()
        tried_for = now - (item.first_tried_at or now)
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** max(0, item.attempts - 1))
        hopeless = error.permanent or tried_for + wait > GIVE_UP_AFTER
        asked = min(error.retry_after_seconds, LONGEST_ASKED_WAIT.total_seconds())
        wait = max(wait, timedelta(seconds=asked))
        twice_unknown = error.fate_unknown and any(each.maybe_repeated for each in items)
        if hopeless or twice_unknown:
            due: list[str] = []

            async def block(tx: Transaction, each: OutboxEntry) -> None:
                await outbox.block(tx, each, error=str(error))
                if self.notices is not None:
                    # A notice of the day is stored with the first of the items only.
                    due[:] = await self.notices.blocked(tx, each, str(error)) or due

            await self._store(items, block)
            log.warning("The announcement %s is blocked: %s", item.key, error)
            self._tried(item, "blocked")
            if self.notices is not None:
                self.notices.deliver(due)
            return
        self._tried(item, "retried")
        due_at, unknown = now + wait, error.fate_unknown
        await self._store(
            items,
            lambda tx, each: outbox.retry(
                tx, each, due_at=due_at, error=str(error), maybe_repeated=unknown
            ),
        )

    def _tried(self, item: OutboxEntry, outcome: str) -> None:
        platform, repeated = item.place.platform, item.attempts > 1
        self.publish(DeliveryTried(platform=platform, outcome=outcome, repeated=repeated))

    async def deliver_waiting(self, user: Identity) -> None:
        """Deliver, in order, the items that waited for this user to be present."""
        keys = await self.database.read(outbox.waiting_for, user.key)
        for key in keys:
            await self.deliver(key)

    async def sweep(self) -> None:
        """Deliver the items that are due, or that were held longer than `HELD_AT_MOST`."""
        now = self.now()
        async with self.database.transaction() as tx:
            await outbox.release_held_before(tx, now - HELD_AT_MOST, now)
            together = self.settings().joined
            keys = await outbox.due(tx, list(self.outlets), now, together=together)
        for key in keys:
            self.on_due(AnnouncementDue(key=key))


async def send_texts(attempt: DeliveryAttempt, outlet: Outlet) -> Delivered:
    """Send the texts of items in one message."""
    items, notice, stopper = [*attempt.items], attempt.notice, attempt.stopper
    item, several = items[0], len(items) > 1
    resumable = not several and item.run_status is not None and item.run_status.resumable
    if attempt.paused is not None:
        paused = f"{items[-1].text}\n\n{pause_line(attempt.paused)}"
        items[-1] = replace(items[-1], text=paused)
    together: list[str] = []
    for each in items:
        together += [f"**{each.title}**", each.text, f"_{each.footer}_" if each.footer else ""]
    # Owners of runs need no ping: by choice, or since they are here.
    of_runs = [(each, each.run_metadata) for each in items if each.run_metadata is not None]
    silent = all(notify_of(metadata, each.notify) == "silent" for each, metadata in of_runs)
    quiet = bool(of_runs) and (silent or any(each.owner_present for each, _ in of_runs))
    buttons: tuple[NoticeButton, ...] = ()
    if notice is not None and not notice.user_id:
        # No admin has settled the notice.
        buttons = tuple(
            NoticeButton(notice.id, Choice(str(number), label), line)
            for number, (label, line) in enumerate(notice.buttons, 1)
        )
    return await outlet.announce(
        Announcement(
            key=item.send_key or item.key,
            place=item.place,
            owner=item.user,
            title=TOGETHER.format(len(items)) if several else item.title,
            text="\n\n".join(filter(None, together)) if several else items[0].text,
            footer="" if several else item.footer,
            maybe_repeated=any(each.maybe_repeated for each in items),
            stopped_by=Stopper(stopper.identity, shown_name(stopper)) if stopper else None,
            resumable=item.run_id or "" if resumable else "",
            quiet=quiet,
            results=tuple((each.run_id, each.text) for each in items if each.run_id),
            buttons=buttons,
        )
    )


async def send_files(attempt: DeliveryAttempt, outlet: Outlet) -> Delivered:
    """Send the files of the run of an item."""
    item = attempt.items[0]
    return await outlet.send_files(
        FileMessage(
            place=item.place,
            owner=item.user,
            files=attempt.files,
            key=item.key,
            maybe_repeated=item.maybe_repeated,
        )
    )
