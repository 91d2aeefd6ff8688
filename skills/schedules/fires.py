"""Starts the runs of schedules that are due: each fire once, in whichever process claims it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.conversations.access import AccessSettings, is_blocked
from bot.errors import BotError, DatabaseUnreachableError, UnknownRoleError
from bot.events import AnnouncementDue, EventBus
from bot.run_texts import status_text
from bot.subagents.manager import SubagentManager
from bot.subagents.requests import Caller, RunRequest
from bot.values import Clock, ConversationMode, Live, Place, Role, RunStatus, derived_run_id
from db import conversations, outbox, pauses, schedules, users
from db.database import Database, Transaction
from db.schedules import EndedFire, Fire, Schedule
from skills.schedules import times, wording
from skills.schedules.settings import ScheduleSettings

log = logging.getLogger(__name__)

#: A fire that was claimed this long ago without a result is taken over by any process.
OVERDUE = timedelta(seconds=10)
#: Retry period of a fire that fails because of an internal error, or of a platform that does not
#: answer.
GIVE_UP_AFTER = timedelta(minutes=30)
OUR_FAULT = "Something went wrong on our side; the log says more."

#: A run that its user cancels does not count as a failure of the schedule.
_NEUTRAL = {RunStatus.COMPLETED, RunStatus.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fires:
    """Finds schedules that are due and starts their runs.

    A fire is a row that only one process can insert. The id of its run is derived from schedule and
    due time, so a process that retries a fire after a crash finds the run of the first attempt.

    Attributes:
        mode_at: Returns the mode of the conversations of a place.
        platforms: The platforms for which this process may act.
    """

    database: Database
    manager: SubagentManager
    settings: ScheduleSettings
    access: Live[AccessSettings]
    mode_at: Callable[[Place], ConversationMode]
    platforms: Sequence[str]
    events: EventBus
    now: Clock

    async def fire_due(self) -> None:
        """Start the fires that are due, and record the outcomes of earlier ones."""
        now = self.now()
        async with self.database.snapshot() as tx:
            # Others are made after the pause, or reported as missed after `GRACE`.
            paused = await pauses.listed(tx)
            due = await schedules.due(tx, self.platforms, now, paused=paused)
            left = await schedules.left_behind(tx, self.platforms, now - OVERDUE)
            ended = await schedules.ended(tx)
        for schedule in due:
            fire = None
            try:
                fire = await self._claim(schedule)
            except DatabaseUnreachableError:
                raise
            except Exception:
                # A schedule that cannot be claimed must not keep the others from firing.
                log.exception("Schedule %s could not be claimed", schedule.id)
            if fire is not None:
                await self._make(fire)
        for fire in left:
            await self._make(fire)
        for item in ended:
            await self._record_outcome(item)

    async def _claim(self, schedule: Schedule) -> Fire | None:
        now, due_at, next_due = self.now(), schedule.due_at, None
        if due_at is None:
            return None
        if schedule.cron:
            zone = times.zone_named(schedule.timezone)
            due_at = times.newest_due(schedule.cron, zone, due_at, now)
            next_due = times.next_fire(schedule.cron, zone, now)
        return await self.database.write(
            schedules.claim, schedule, due_at=due_at, next_due=next_due, now=now
        )

    async def _make(self, fire: Fire) -> None:
        """Start the run of a fire; after an internal error it is retried until `GIVE_UP_AFTER`."""
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
        owner = await self.database.read(users.get, fire.schedule.user_id)
        if owner is None or is_blocked(owner.identity, self.access()):
            await self._close(fire, "blocked")
            return
        if now - fire.due_at > times.GRACE:
            key = derived_run_id(*_key(fire))
            async with self.database.transaction() as tx:
                if not await schedules.close(tx, fire, "skipped"):
                    return
                await self._announce(tx, fire.schedule, key, wording.skipped(fire))
            self.events.publish(AnnouncementDue(key=key))
            return
        place = fire.schedule.place
        mode = self.mode_at(place)
        # The conversation that is open in the place now.
        conversation_id = await self.database.write(
            conversations.find_or_open, owner.identity, place, now, mode
        )
        caller = Caller(
            user=owner.identity,
            role=Role.USER,
            place=place,
            conversation_id=conversation_id,
            call_key=_key(fire),
            shared=mode.shared,
        )
        request = RunRequest(
            task=fire.schedule.task,
            label=wording.label(fire, now),
            agent=fire.schedule.agent,
            context=wording.context(fire, now),
        )
        try:
            spawned = await self.manager.spawn(request, caller)
        except DatabaseUnreachableError:
            raise
        except BotError as error:
            # A platform that does not answer takes nobody's schedule: the fire is tried again.
            if not isinstance(error, UnknownRoleError) or now - fire.created_at > GIVE_UP_AFTER:
                await self._refuse(fire, str(error))
            return
        await self._close(fire, "started", spawned.run.id)

    async def _refuse(self, fire: Fire, reason: str) -> None:
        """Record that a fire's run was refused: notify its owner and count a failure."""
        keys = [derived_run_id(*_key(fire))]
        async with self.database.transaction() as tx:
            if not await schedules.close(tx, fire, "refused"):
                return
            await self._announce(tx, fire.schedule, keys[0], wording.refused(fire, reason))
            keys += await self._failed(tx, fire.schedule, reason)
        for key in keys:
            self.events.publish(AnnouncementDue(key=key))

    async def _close(self, fire: Fire, status: str, run_id: str | None = None) -> None:
        await self.database.write(schedules.close, fire, status, run_id)

    # -- outcomes ----------------------------------------------------------------------------------

    async def _record_outcome(self, item: EndedFire) -> None:
        """Record the outcome of a fire's run."""
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
        """Count a failure; return the key of the announcement if the schedule ended by it."""
        most = self.settings.max_failures_in_a_row
        if not await schedules.failed(tx, schedule.id, most=most, now=self.now()):
            return []
        key = derived_run_id(schedule.id, "ended")
        await self._announce(tx, schedule, key, wording.given_up(schedule, most, reason))
        return [key]

    async def _announce(
        self, tx: Transaction, schedule: Schedule, key: str, texts: tuple[str, str]
    ) -> None:
        title, text = texts
        item = outbox.NewOutboxEntry(
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
