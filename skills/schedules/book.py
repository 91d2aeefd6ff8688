"""Adds, lists, cancels, pauses and resumes the schedules of users."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from bot.agent.plain import plain
from bot.agent.sanitizer import one_line, stored
from bot.catalog.agents import Agents, find
from bot.changes import Cause
from bot.errors import BadRequestError, LimitReachedError, NotFoundError
from bot.run_texts import counted
from bot.subagents.planning import label_for
from bot.values import Clock, Identity, Json, Place
from db import changes, schedules, users
from db.database import Database, Transaction
from db.schedules import Schedule
from skills.schedules import times
from skills.schedules.settings import ScheduleSettings

MAX_TASK = 10_000
SHOWN_FIRES = 3

_NAMESPACE = uuid.UUID("0d5b6c1e-8f7a-4b52-9a3e-6f2d1c7b9e40")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRequest:
    """A requested schedule: once (`at`) or recurring (`cron`).

    Attributes:
        timezone: IANA name; empty for the zone of the user's newest schedule, else the bot's zone.
        key: (work, call) of the requesting call; a repeated call finds the same schedule.
    """

    task: str
    key: tuple[str, str]
    label: str = ""
    at: str = ""
    cron: str = ""
    timezone: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSchedule:
    """A schedule and its next fires, formatted in its own time zone.

    Attributes:
        notes: Sentences about deviations from the request.
    """

    schedule: Schedule
    fires: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBook:
    """Stores the schedules of all users; each user reaches only their own.

    Attributes:
        zone: Default time zone for users who have named none.
    """

    kind: ClassVar[str] = "schedule"

    database: Database
    settings: ScheduleSettings
    agents: Agents
    zone: str
    now: Clock

    async def add(self, wanted: ScheduleRequest, user: Identity, place: Place) -> PlannedSchedule:
        """Store a schedule of a user, to be announced in this place (idempotent by `wanted.key`).

        Raises:
            BadRequestError: The request is invalid; the text says what would be valid.
            LimitReachedError: The user has `max_per_user` schedules.
        """
        task = stored(plain(wanted.task, limit=None)).strip()
        if not task:
            raise BadRequestError("There is no task: say what is to be done.")
        if len(task) > MAX_TASK:
            raise BadRequestError(f"A task may have {MAX_TASK:,} characters: shorten it.")
        if bool(wanted.at.strip()) == bool(wanted.cron.strip()):
            raise BadRequestError("Give either `at`, for once, or `cron`, for again and again.")
        schedule_id = uuid.uuid5(_NAMESPACE, "/".join(wanted.key)).hex
        async with self.database.transaction() as tx:
            await users.lock(tx, user.key)
            schedule = await schedules.find(tx, user.key, schedule_id)
            if schedule is None:
                await self._check_room(tx, user.key)
                named = wanted.timezone.strip() or await schedules.newest_zone(tx, user.key)
                zone = times.zone_named(named or self.zone)
                cron = ""
                if wanted.cron.strip():
                    least = timedelta(minutes=self.settings.min_minutes_between)
                    cron = times.cron_of(wanted.cron, least=least)
                    due_at = times.next_fire(cron, zone, self.now())
                else:
                    due_at = times.once(wanted.at, zone, self.now())
                schedule = Schedule(
                    id=schedule_id,
                    user_id=user.key,
                    place=place,
                    number=await schedules.next_number(tx, user.key),
                    label=label_for(stored(wanted.label), task),
                    task=task,
                    agent=one_line(wanted.agent, 60),
                    cron=cron,
                    timezone=zone.key,
                    status="active",
                    due_at=due_at,
                    failures=0,
                    created_at=self.now(),
                )
                await schedules.add(tx, schedule)
        definition, known = find(self.agents, schedule.agent)
        note = f"There is no agent “{schedule.agent}”; `{definition.name}` will take it."
        return self._planned(schedule, () if known else (note,))

    async def alive(self, user: Identity) -> Sequence[PlannedSchedule]:
        """Return a user's schedules that are not over, oldest first."""
        found = await self.database.read(schedules.alive, user.key)
        return [self._planned(schedule) for schedule in found]

    async def cancel(self, number: int, user: Identity, cause: Cause) -> Schedule:
        """Cancel one of a user's schedules and record the change, which can be undone.

        Raises:
            NotFoundError: No schedule has that number, or it is over.
        """
        async with self.database.transaction() as tx:
            schedule = await self._one(tx, number, user)
            await schedules.cancel(tx, schedule.id, self.now())
            await changes.keep(
                tx,
                cause,
                kind=self.kind,
                key=schedule.id,
                title=f"schedule {number} “{one_line(schedule.label, 60)}”",
                before=_state(schedule),
                after={"status": "cancelled", "due_at": None},
                now=self.now(),
            )
        return schedule

    async def state(self, tx: Transaction, user: str, key: str) -> Json | None:
        """Return status and next due time of a user's schedule; `None` if it is deleted."""
        schedule = await schedules.find(tx, user, key)
        return None if schedule is None else _state(schedule)

    async def restore(
        self, tx: Transaction, user: str, key: str, before: Json | None, *, beside: bool
    ) -> tuple[str, str]:
        """Revive a user's cancelled schedule, or cancel it again.

        Raises:
            BadRequestError: The schedule is deleted, or its time is over.
            LimitReachedError: The user has `max_per_user` schedules.
        """
        await users.lock(tx, user)
        schedule = await schedules.find(tx, user, key)
        if schedule is None or before is None:
            raise BadRequestError("The schedule is deleted.")
        if before["status"] not in schedules.ALIVE:
            await schedules.cancel(tx, key, self.now())
            return key, "It is cancelled again."
        if schedule.status in schedules.ALIVE:
            return key, "It is there already."
        await self._check_room(tx, user)
        due = before["due_at"] and datetime.fromisoformat(before["due_at"])
        due_at = self._due_again(replace(schedule, due_at=due))
        if due_at is None or not await schedules.revive(tx, key, before["status"], due_at):
            raise BadRequestError("Its time is over.")
        zone = times.zone_named(schedule.timezone)
        state = "It is switched off." if before["status"] == "paused" else ""
        return key, state or f"It is due {times.spelled(due_at, zone)}."

    async def toggle(
        self, number: int | None, user: Identity, *, on: bool
    ) -> Sequence[PlannedSchedule]:
        """Pause or resume one of a user's schedules, or all of them when `number` is None.

        Returns:
            The schedules that have changed.

        Raises:
            NotFoundError: No schedule has that number, or it is over.
            BadRequestError: The time of the schedule is over.
        """
        changed = []
        async with self.database.transaction() as tx:
            if number is None:
                found = await schedules.alive(tx, user.key)
            else:
                found = [await self._one(tx, number, user)]
            for schedule in found:
                if not on:
                    done, due_at = await schedules.pause(tx, schedule.id), schedule.due_at
                else:
                    due_at = self._due_again(schedule)
                    if due_at is None and number is not None and schedule.status == "paused":
                        raise BadRequestError(
                            f"The time of schedule {number} is over. Cancel it and make a new one."
                        )
                    done = due_at is not None and await schedules.resume(tx, schedule.id, due_at)
                if done:
                    status = "active" if on else "paused"
                    changed.append(replace(schedule, status=status, due_at=due_at))
        return [self._planned(schedule) for schedule in changed]

    async def _one(self, tx: Transaction, number: int, user: Identity) -> Schedule:
        schedule = await schedules.get(tx, user.key, number)
        if schedule is None or schedule.status not in schedules.ALIVE:
            raise NotFoundError(
                f"There is no schedule {number}, or it is over. schedule_list shows what there is."
            )
        return schedule

    async def _check_room(self, tx: Transaction, user: str) -> None:
        there = len(await schedules.alive(tx, user))
        if there >= self.settings.max_per_user:
            raise LimitReachedError(
                f"You have {there} of {counted(self.settings.max_per_user, 'schedule')}. Cancel "
                "one first (schedule_list, schedule_cancel).",
                limit="schedules.max_per_user",
            )

    def _due_again(self, schedule: Schedule) -> datetime | None:
        if schedule.cron:
            zone = times.zone_named(schedule.timezone)
            return times.next_fire(schedule.cron, zone, self.now())
        over = schedule.due_at is None or schedule.due_at <= self.now()
        return None if over else schedule.due_at

    def _planned(self, schedule: Schedule, notes: tuple[str, ...] = ()) -> PlannedSchedule:
        zone = times.zone_named(schedule.timezone)
        moments = [] if schedule.due_at is None else [schedule.due_at]
        while schedule.cron and moments and len(moments) < SHOWN_FIRES:
            following = times.next_fire(schedule.cron, zone, moments[-1])
            if following is None:
                break
            moments.append(following)
        fires = tuple(times.spelled(moment, zone) for moment in moments)
        return PlannedSchedule(schedule=schedule, fires=fires, notes=notes)


def _state(schedule: Schedule) -> Json:
    due_at = schedule.due_at and schedule.due_at.isoformat()
    return {"status": schedule.status, "due_at": due_at}
