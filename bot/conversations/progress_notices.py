"""Posts what runs report while they work, for users who asked for it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.agent.sanitizer import one_line
from bot.conversations.announcements import Notices
from bot.events import RunEnded, RunEvent, RunProgress
from bot.subagents.requests import notify_of
from bot.tasks import Tasks
from bot.values import Clock, short
from db import runs, users
from db.database import Database

#: The shortest time between two notices about one run.
BETWEEN = timedelta(minutes=2)
CHARACTERS = 300


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
            if now - self._posted.get(event.run_id, now - BETWEEN) >= BETWEEN:
                self._posted[event.run_id] = now
                self.tasks.start(self._post(event), name="post a report of a run")

    async def _post(self, event: RunProgress) -> None:
        async with self.database.snapshot() as tx:
            run = await runs.get(tx, event.run_id)
            owner = await users.get(tx, run.user_id) if run else None
        if run is None or owner is None or run.status.final:
            return
        if run.mode == "async" and notify_of(run.metadata, owner.notify) == "progress":
            said = one_line(event.content, CHARACTERS)
            text = f"🔄 “{run.label}” (`{short(run.id)}`): {said}"
            self.notices.say(run.place, owner.identity, text)
