"""Makes what people have planned happen: each fire once, whoever makes it."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.conversations.access import AccessSettings, check_may_talk
from bot.errors import BotError, DatabaseUnreachableError, NotAllowedError
from bot.events import AnnouncementDue, EventBus
from bot.run_texts import status_text
from bot.schedules import times, wording
from bot.schedules.settings import ScheduleSettings
from bot.subagents.manager import SubagentManager
from bot.subagents.requests import Caller, RunRequest
from bot.values import Clock, Identity, Role, RunStatus, derived_run_id
from db import conversations, outbox, schedules, users
from db.database import Database, Transaction
from db.schedules import Ended, Fire, Schedule

log = logging.getLogger(__name__)

#: A fire that was claimed so long ago, and of which nothing came, is made by whoever sees it.
OVERDUE = timedelta(seconds=10)
#: How long a fire that breaks on our side is tried.
GIVE_UP_AFTER = timedelta(minutes=30)
OUR_FAULT = "Something went wrong on our side; the log says more."

#: What a person stops is no fault of the schedule.
_NEUTRAL = {RunStatus.COMPLETED, RunStatus.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fires:
    """Looks for schedules that are due, and has their work done.

    A fire is a row that only one process can insert. Its run has an id that comes from schedule and
    due time, so that whoever makes a fire again after a crash finds the run of the first attempt.

    Attributes:
        platforms: Those for which this process may act.
    """

    database: Database
    manager: SubagentManager
    settings: ScheduleSettings
    access: AccessSettings
    platforms: Sequence[str]
    events: EventBus
    now: Clock

    async def fire_due(self) -> None:
        """Make the fires that are due, and book how earlier ones ended."""
        now = self.now()
        async with self.database.snapshot() as tx:
            due = await schedules.due(tx, self.platforms, now)
            left = await schedules.left_behind(tx, self.platforms, now - OVERDUE)
            ended = await schedules.ended(tx)
        for schedule in due:
            await self._fire(schedule)
        for fire in left:
            await self._make(fire)
        for item in ended:
            await self._book(item)

    async def _fire(self, schedule: Schedule) -> None:
        try:
            fire = await self._claim(schedule)
        except DatabaseUnreachableError:
            raise
        except Exception:
            # One that cannot be claimed must not keep the others from firing.
            log.exception("Schedule %s could not be claimed", schedule.id)
            return
        if fire is not None:
            await self._make(fire)

    async def _claim(self, schedule: Schedule) -> Fire | None:
        now, due_at, next_due = self.now(), schedule.due_at, None
        if due_at is None:
            return None
        if schedule.cron:
            zone = times.zone_named(schedule.timezone)
            due_at = times.newest_due(schedule.cron, zone, due_at, now)
            next_due = times.next_fire(schedule.cron, zone, now)
        async with self.database.transaction() as tx:
            return await schedules.claim(tx, schedule, due_at=due_at, next_due=next_due, now=now)

    async def _make(self, fire: Fire) -> None:
        """Make a fire; what breaks on our side is tried again for a while."""
        try:
            await self._attempt(fire)
        except DatabaseUnreachableError:
            raise
        except Exception:
            log.exception("A fire of schedule %s failed", fire.schedule.id)
            tried_for = self.now() - fire.created_at
            if tried_for > GIVE_UP_AFTER:
                await self._refuse(fire, OUR_FAULT)

    async def _attempt(self, fire: Fire) -> None:
        now = self.now()
        async with self.database.snapshot() as tx:
            owner = await users.get(tx, fire.schedule.user_id)
        if owner is None or self._is_blocked(owner.identity):
            await self._close(fire, "blocked")
            return
        if now - fire.due_at > times.GRACE:
            await self._skip(fire)
            return
        request = RunRequest(
            task=fire.schedule.task,
            label=wording.label(fire, now),
            agent=fire.schedule.agent,
            context=wording.context(fire, now),
        )
        try:
            spawned = await self.manager.spawn(request, await self._caller(fire, owner.identity))
        except DatabaseUnreachableError:
            raise
        except BotError as error:
            await self._refuse(fire, str(error))
            return
        await self._close(fire, "started", spawned.run.id)

    def _is_blocked(self, user: Identity) -> bool:
        try:
            check_may_talk(user, self.access)
        except NotAllowedError:
            return True
        return False

    async def _caller(self, fire: Fire, owner: Identity) -> Caller:
        """Return the owner as the one who asks, in the conversation that is open there now."""
        place = fire.schedule.place
        async with self.database.transaction() as tx:
            conversation_id = await conversations.find_or_open(tx, owner, place, self.now())
        return Caller(
            user=owner,
            role=Role.USER,
            place=place,
            conversation_id=conversation_id,
            call_key=_key(fire),
        )

    async def _refuse(self, fire: Fire, reason: str) -> None:
        """Book that a fire's run was not let in: its owner is told, and it counts as a failure."""
        keys = [derived_run_id(*_key(fire))]
        async with self.database.transaction() as tx:
            if not await schedules.close(tx, fire, "refused"):
                return
            await self._say(tx, fire.schedule, keys[0], wording.refused(fire, reason))
            keys += await self._failed(tx, fire.schedule, reason)
        for key in keys:
            self.events.publish(AnnouncementDue(key=key))

    async def _skip(self, fire: Fire) -> None:
        """Book that a fire came too late to be made, and tell its owner."""
        key = derived_run_id(*_key(fire))
        async with self.database.transaction() as tx:
            if not await schedules.close(tx, fire, "skipped"):
                return
            await self._say(tx, fire.schedule, key, wording.skipped(fire))
        self.events.publish(AnnouncementDue(key=key))

    async def _close(self, fire: Fire, status: str, run_id: str | None = None) -> None:
        async with self.database.transaction() as tx:
            await schedules.close(tx, fire, status, run_id)

    # -- how it ended ----------------------------------------------------------------------------

    async def _book(self, item: Ended) -> None:
        """Book how a fire's run ended."""
        keys: list[str] = []
        async with self.database.transaction() as tx:
            if not await schedules.book(tx, item.fire):
                return
            if item.unheard:
                reason = "its result could not be delivered."
                keys = await self._failed(tx, item.fire.schedule, reason)
            elif item.status is RunStatus.COMPLETED:
                await schedules.succeeded(tx, item.fire.schedule.id)
            elif item.status not in _NEUTRAL:
                reason = item.error or f"its run ended: {status_text(item.status).words}."
                keys = await self._failed(tx, item.fire.schedule, reason)
        for key in keys:
            self.events.publish(AnnouncementDue(key=key))

    async def _failed(self, tx: Transaction, schedule: Schedule, reason: str) -> list[str]:
        """Count a failure; return the key of what is to be announced if it was one too many."""
        most = self.settings.max_failures_in_a_row
        if not await schedules.failed(tx, schedule.id, most=most, now=self.now()):
            return []
        key = derived_run_id(schedule.id, "ended")
        await self._say(tx, schedule, key, wording.given_up(schedule, most, reason))
        return [key]

    async def _say(
        self, tx: Transaction, schedule: Schedule, key: str, said: tuple[str, str]
    ) -> None:
        title, text = said
        item = outbox.NewItem(
            key=key,
            user_id=schedule.user_id,
            place=schedule.place,
            run_id=None,
            title=title,
            text=text,
        )
        await outbox.put(tx, item, self.now())


def _key(fire: Fire) -> tuple[str, str]:
    return fire.schedule.id, fire.due_at.isoformat()
