"""Sends signals and short notices in the background: receipts, and reports of runs."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.agent.sanitizer import one_line
from bot.errors import DeliveryError
from bot.events import RunEnded, RunEvent, RunProgress
from bot.platforms.base import Outlet
from bot.subagents.requests import notify_of
from bot.tasks import Tasks
from bot.values import Clock, Identity, Place, short
from db import runs, users
from db.database import Database

log = logging.getLogger(__name__)

#: The shortest time between two notices about one run.
BETWEEN = timedelta(minutes=2)
CHARACTERS = 300


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
