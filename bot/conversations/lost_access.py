"""Ends what users started in places to which they have lost access."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.conversations.rights import RightsDirectory
from bot.subagents.active import ActiveRuns
from bot.subagents.endings import Endings
from bot.subagents.wording import Outcome
from bot.values import Clock, Identity, Place, RunStatus
from db import audit, runs, schedules, turns, work_owners
from db.audit import SYSTEM, AuditEntry
from db.database import Database, is_connection_trouble

log = logging.getLogger(__name__)

#: Interval between two checks of the owners of active work.
CHECK_EVERY = timedelta(seconds=60)
#: Most lookups at the same time.
AT_ONCE = 10
ENDED = "Its owner has no access to this place any more."
#: The states of a run that no process works on.
_NOT_BEGUN = {RunStatus.QUEUED, RunStatus.ACCEPTED}


@dataclass(slots=True, kw_only=True)
class LostAccess:
    """Ends runs, turns and schedules of users who left, were deactivated or lost a role.

    Attributes:
        platforms: The platforms whose members this process can read.
        active: The runs at work in this process; `turns` holds the turns.
    """

    database: Database
    directory: RightsDirectory
    endings: Endings
    active: ActiveRuns
    turns: ActiveRuns
    platforms: Sequence[str]
    now: Clock
    _checked_at: datetime | None = field(default=None)

    async def end_lost(self) -> None:
        """Check the owners of active work, once in `CHECK_EVERY`."""
        now = self.now()
        if self._checked_at is not None and now - self._checked_at < CHECK_EVERY:
            return
        self._checked_at = now
        owners = await self.database.read(work_owners.working, self.platforms)
        few = asyncio.Semaphore(AT_ONCE)

        async def check(user: Identity, place: Place) -> None:
            async with few:
                try:
                    if reason := await self.directory.lost(user, place):
                        await self._end(user, place, reason)
                except Exception as error:
                    if is_connection_trouble(error):
                        raise
                    # The other owners are checked all the same.
                    log.exception("The access of %s could not be checked", user.key)

        async with asyncio.TaskGroup() as group:
            for user, place in owners:
                group.create_task(check(user, place), name="check access")

    async def _end(self, user: Identity, place: Place, reason: str) -> None:
        """End the active work of a user in a channel."""
        now, not_begun = self.now(), []
        async with self.database.transaction() as tx:
            work = await work_owners.work_of(tx, user.key, place)
            if not work:
                # Another process ends it.
                return
            for run_id in work.runs:
                run = await runs.request_cancel(tx, run_id, by=user.key, now=now)
                if run is not None and run.status in _NOT_BEGUN:
                    not_begun.append(run)
            for turn_id in work.turns:
                await turns.request_stop(tx, turn_id, now)
            for schedule_id in work.schedules:
                await schedules.cancel(tx, schedule_id, now)
            where = f"{place.platform}:{place.workspace}:{place.channel}"
            entry = AuditEntry(
                actor=SYSTEM,
                action="access lost",
                owner=user.key,
                place=place,
                subject=where,
                effect=f"work ended: {reason[:200]}",
                created_at=now,
            )
            await audit.record(tx, entry)
        log.warning("The work of %s in %s is ended: %s", user.key, where, reason)
        for run_id in work.runs:
            self.active.stop(run_id)
        for turn_id in work.turns:
            self.turns.stop(turn_id)
        for run in not_begun:
            outcome = Outcome(status=RunStatus.CANCELLED, error=ENDED)
            await self.endings.end(run, outcome, attempt=run.attempt)
