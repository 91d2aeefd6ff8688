"""Notifies users and admins: signals, reports of runs, troubles, spending limits."""

import hashlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.agent.sanitizer import one_line
from bot.conversations.access import account_workspace
from bot.conversations.admin_notices import AdminNotice, AdminNotices
from bot.conversations.spending_commands import Raise, place_of
from bot.disk import DiskFullError, DiskReserve
from bot.errors import DeliveryError
from bot.events import RunEnded, RunEvent, RunProgress, ServiceTroubled
from bot.platforms.base import Outlet
from bot.run_texts import counted
from bot.spending.ledger import PoolNotice
from bot.spending.pools import WARN_PERCENT, Scope, amounts, limit_name
from bot.subagents.requests import notify_of
from bot.tasks import Tasks
from bot.values import Clock, Identity, Place, RunStatus, short
from db import outbox, runs, users
from db.database import Database, Transaction

log = logging.getLogger(__name__)

#: The shortest time between two notices about one run.
BETWEEN_REPORTS = timedelta(minutes=2)
REPORT_CHARACTERS = 300
#: Interval between two looks at the disks.
LOOK_EVERY = timedelta(minutes=1)
SPENDING_TITLE = "⚠ Spending limit"


@dataclass(frozen=True, slots=True)
class Notices:
    """Sends receipts and short notices in the background, to platforms with an outlet here."""

    outlets: Mapping[str, Outlet]
    tasks: Tasks

    def acknowledge(self, place: Place) -> None:
        """Show in a place that the message was received."""
        self._start(place, lambda outlet: outlet.acknowledge(place), name="acknowledge")

    def answered(self, place: Place, *, read: bool = False) -> None:
        """Remove the sign that the message waits for an answer; show that it was `read`."""
        self._start(place, lambda outlet: outlet.answered(place, read=read), name="answered")

    def say(self, place: Place, user: Identity, text: str) -> None:
        """Send a text to a place, for all who read there; a failure is logged."""

        async def send(outlet: Outlet) -> None:
            try:
                await outlet.open_reply(place, user).finish(text)
            except DeliveryError as error:
                log.info("A notice did not reach its place: %s", error)

        self._start(place, send, name="say")

    def notify(self, place: Place, user: Identity, text: str) -> None:
        """Send a short text to one user in a place."""
        self._start(place, lambda outlet: outlet.tell(place, user, text), name="notify")

    def _start(
        self, place: Place, send: Callable[[Outlet], Coroutine[None, None, None]], *, name: str
    ) -> None:
        if outlet := self.outlets.get(place.platform):
            self.tasks.start(send(outlet), name=name, brief=True)


@dataclass(slots=True, kw_only=True)
class ProgressNotices:
    """Posts reports of runs in their places, without a ping, where `notify` is `progress`."""

    database: Database
    notices: Notices
    tasks: Tasks
    now: Clock
    _posted: dict[str, datetime] = field(default_factory=dict)

    def handle(self, event: RunEvent) -> None:
        """Post a report of a run, unless one was posted a short time ago."""
        if isinstance(event, RunEnded):
            self._posted.pop(event.run_id, None)
        elif isinstance(event, RunProgress) and event.part == "text" and event.content.strip():
            now = self.now()
            if now - self._posted.get(event.run_id, now - BETWEEN_REPORTS) >= BETWEEN_REPORTS:
                self._posted[event.run_id] = now
                self.tasks.start(self._post(event), name="post a report of a run")

    async def _post(self, event: RunProgress) -> None:
        async with self.database.snapshot() as tx:
            run = await runs.get(tx, event.run_id)
            owner = await users.get(tx, run.user_id) if run else None
        if run is None or owner is None or run.status.final:
            return
        if run.mode == "async" and notify_of(run.metadata, owner.notify) == "progress":
            said = one_line(event.content, REPORT_CHARACTERS)
            text = f"🔄 “{run.label}” (`{short(run.id)}`): {said}"
            self.notices.say(run.place, owner.identity, text)


@dataclass(slots=True, kw_only=True)
class AdminWatch:
    """Turns events into notices to admins.

    A trouble of a provider, a service or a disk is reported once a day while it lasts, each stalled
    run and each crash once.
    """

    notices: AdminNotices
    database: Database
    tasks: Tasks
    reserve: DiskReserve
    now: Clock
    _looked_at: datetime | None = None

    def on_run_ended(self, event: RunEnded) -> None:
        """Report a run that has stalled."""
        if event.status is RunStatus.STALLED:
            report = self._stalled(event.run_id)
            self.tasks.start(report, name="report a stalled run", brief=True)

    async def _stalled(self, run_id: str) -> None:
        run = await self.database.read(runs.get, run_id)
        if run is None:
            return
        label = one_line(run.label, 60)
        await self.notices.announce(
            AdminNotice(
                key=f"stalled {run_id}",
                text=f"The run “{label}” (`{short(run_id)}`, agent {run.agent}) was interrupted: "
                "nothing was written and no tool answered for too long.",
                place=run.place,
                buttons=(("Show its log", f"/subagents log {run_id}"),),
            )
        )

    def on_refused(self, provider: str, reason: str) -> None:
        """Report a provider that refuses the key, the account or a model."""
        self._report(f"provider {provider} {reason}", reason)

    def on_service_troubled(self, event: ServiceTroubled) -> None:
        """Report a problem of a service."""
        problem = one_line(event.problem, 500)
        self._report(f"service {event.service} {problem}", f"{event.service}: {problem}")

    async def look_at_disks(self) -> None:
        """Report a disk with no more space than its reserve."""
        now = self.now()
        if self._looked_at is not None and now - self._looked_at < LOOK_EVERY:
            return
        self._looked_at = now
        try:
            self.reserve.check()
        except DiskFullError as error:
            await self.notices.announce(AdminNotice(key=f"disk {now.date()}", text=error.state))

    def on_crashes(self, number: int) -> None:
        """Report processes that ended without being asked to."""
        processes = counted(number, "process", "processes")
        self._report(
            f"crash {self.now().isoformat()}",
            f"{processes} of the bot ended unexpectedly. The work goes on elsewhere, or at the "
            "next start; the log of that process has the reason.",
            daily=False,
        )

    def _report(self, key: str, text: str, *, daily: bool = True) -> None:
        day = f" {self.now().date()}" if daily else ""
        notice = AdminNotice(key=f"{key}{day}", text=text)
        self.tasks.start(self.notices.announce(notice), name="notify admins", brief=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingNotices:
    """Stores notices about spending limits, which the outbox delivers."""

    admins: AdminNotices
    now: Clock

    async def tell(self, tx: Transaction, notice: PoolNotice) -> list[str]:
        """Store the notice about a pool; return the keys of the outbox to deliver.

        At `WARN_PERCENT` the user is notified of a limit of their own, and the admins of a shared
        one. A refusal is notified to the admins, who can raise the limit; the user gets the
        refusal itself.
        """
        pool, state, payer = notice.pool, notice.state, notice.payer
        if pool.scope is Scope.RUN:
            return []
        used, resets = amounts(pool, state), f"It resets at {pool.resets_at:%Y-%m-%d %H:%M} UTC."
        known = await users.get(tx, payer.user.key)
        # A limit that was raised or changed can be reached again, and one of a month after a day
        # for which it was raised.
        limit = f"{pool.cost} {pool.tokens} {state.extra_cost} {state.extra_tokens}"
        when = f"on {self.now().date()}" if notice.exhausted else ""
        if not notice.exhausted and not pool.scope.shared:
            if known is None:  # The user's data were deleted during the call.
                return []
            user, now = payer.user, self.now()
            # The account may be of an organisation, or of a company in which the bot is not.
            workspace = account_workspace(user.platform, payer.place.workspace)
            place = Place(user.platform, workspace)
            text = f"{WARN_PERCENT} % of the limit of {limit_name(pool)} is used: {used}. {resets}"
            digest = hashlib.sha256(f"{pool.id} {limit}".encode()).hexdigest()
            key = f"spending-{digest[:24]}"
            entry = outbox.NewOutboxEntry(
                key=key, user_id=user.key, place=place, run_id=None, title=SPENDING_TITLE, text=text
            )
            await outbox.put(tx, entry, now)
            return [key]
        subject = limit_name(pool)
        if not pool.scope.shared:
            subject = one_line(known.name, 60) if known else payer.user.account
        elif place_of(pool.scope, payer.place):
            title = "the channel" if pool.scope is Scope.CHANNEL else "the server or workspace"
            subject = f"{title} {':'.join(filter(None, pool.subject.split(':')))}"
        state_words = "is reached" if notice.exhausted else f"is at {WARN_PERCENT} %"
        # Half of a limit of 0, which allows nothing on purpose, is nothing.
        by = str(Raise.half_of(pool))
        raising = ((f"Raise by {by} for today", f"!retinue raise {pool.id} {by}"),) if by else ()
        return await self.admins.tell(
            tx,
            AdminNotice(
                key=f"spending {pool.id} {notice.exhausted} {limit} {when}".strip(),
                text=f"The spending limit of {subject} {state_words}: {used} used. {resets}",
                place=place_of(pool.scope, payer.place),
                buttons=raising,
            ),
        )
