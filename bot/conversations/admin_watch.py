"""Notifies admins of stalled runs, providers that refuse, full disks, and lost services."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.agent.sanitizer import one_line
from bot.conversations.admin_notices import AdminNotice, AdminNotices
from bot.disk import DiskFullError, DiskReserve
from bot.events import RunEnded, ServiceTroubled
from bot.run_texts import counted
from bot.tasks import Tasks
from bot.values import Clock, RunStatus, short
from db import runs
from db.database import Database

#: Interval between two looks at the disks.
LOOK_EVERY = timedelta(minutes=1)


@dataclass(slots=True, kw_only=True)
class AdminWatch:
    """Turns events into notices to admins. A trouble that lasts is reported once a day."""

    notices: AdminNotices
    database: Database
    tasks: Tasks
    reserve: DiskReserve
    now: Clock
    _looked_at: datetime | None = field(default=None)

    def on_run_ended(self, event: RunEnded) -> None:
        """Report a run that has stalled."""
        if event.status is RunStatus.STALLED:
            self.tasks.start(self._stalled(event.run_id), name="report a stalled run")

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
            text = str(error).removesuffix(" Tell the user.")
            await self.notices.announce(AdminNotice(key=f"disk {now.date()}", text=text))

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
        self.tasks.start(self.notices.announce(notice), name="notify admins")
