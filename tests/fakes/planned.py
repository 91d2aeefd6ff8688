"""Schedules with all that they need, on a real database: time passes when a test says so."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select, update

from bot.catalog.agents import AgentDefinition
from bot.changes import Cause
from bot.conversations.access import AccessSettings
from bot.events import AnnouncementDue, EventBus
from bot.values import PERSONAL, Identity, Json, Place
from db import outbox, schedules
from db.database import Database
from db.outbox import OutboxEntry
from db.runs import Run
from db.schedules import Schedule
from db.tables import outbox as outbox_table
from db.tables import schedule_fires
from skills.schedules.book import PlannedSchedule, ScheduleBook, ScheduleRequest
from skills.schedules.fires import Fires
from skills.schedules.settings import ScheduleSettings
from tests.fakes.agents import FakeAgents
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, limits
from tests.fakes.rows import meet

ZONE = "Europe/Berlin"
GENERAL = AgentDefinition(name="general", description="Does anything.", prompt="Do it.")


@dataclass(slots=True)
class Plans:
    """A book of schedules, and what makes them happen.

    Attributes:
        said: The keys of which it was said that an announcement is due.
    """

    database: Database
    clock: FakeClock
    settings: ScheduleSettings = field(default_factory=ScheduleSettings)
    office: FakeOffice = field(init=False)
    said: list[str] = field(default_factory=list)
    _keys: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.office = FakeOffice(self.database, limits(per_user=50, everyone=100), self.clock)

    @property
    def book(self) -> ScheduleBook:
        return ScheduleBook(
            database=self.database,
            settings=self.settings,
            agents=FakeAgents({"general": GENERAL}),
            zone=ZONE,
            now=self.clock,
        )

    def fires(self, *, platform: str = "discord", **changed: Any) -> Fires:
        """Return what one process has, in which these things are different."""
        events = EventBus()
        events.subscribe(AnnouncementDue, lambda event: self.said.append(event.key))
        parts: Json = {
            "database": self.database,
            "manager": self.office.manager,
            "settings": self.settings,
            "access": AccessSettings(),
            "mode_at": lambda _: PERSONAL,
            "platforms": [platform],
            "events": events,
            "now": self.clock,
        }
        return Fires(**parts | changed)

    async def plan(
        self, user: Identity, task: str = "Count sheep", **wanted: Any
    ) -> PlannedSchedule:
        """Let a user plan something."""
        await meet(self.database, user, self.clock())
        key = wanted.pop("key", ("turn", str(next(self._keys))))
        place = Place(user.platform, user.workspace, "room")
        return await self.book.add(ScheduleRequest(task=task, key=key, **wanted), user, place)

    async def cancel(self, number: int, user: Identity) -> None:
        """Cancel a schedule of a user."""
        cause = Cause(user_id=user.key, work_id="turn-1", run_id=None)
        await self.book.cancel(number, user, cause)

    async def pass_until(self, moment: str) -> None:
        """Let time pass until this moment of UTC, and look once what is due."""
        until = datetime.fromisoformat(f"{moment}+00:00")
        self.clock.advance((until - self.clock()).total_seconds())
        await self.fires().fire_due()

    async def runs(self) -> list[Run]:
        """Return the runs that were admitted, in order."""
        return await self.office.admitted_runs()

    async def read(self, schedule: Schedule) -> Schedule:
        """Return a schedule as its row is now."""
        async with self.database.snapshot() as tx:
            found = await schedules.find(tx, schedule.user_id, schedule.id)
        assert found is not None
        return found

    async def made(self) -> list[tuple[datetime, str]]:
        """Return due time and status of every fire, in order."""
        query = select(schedule_fires.c.due_at, schedule_fires.c.status)
        async with self.database.snapshot() as tx:
            rows = await tx.execute(query.order_by(schedule_fires.c.due_at))
        return [(row.due_at, row.status) for row in rows]

    async def told(self) -> list[OutboxEntry]:
        """Return what is to be announced by now, in the order in which it was said."""
        async with self.database.snapshot() as tx:
            found = [await outbox.get(tx, key) for key in dict.fromkeys(self.said)]
        return [item for item in found if item is not None]

    async def deliver_all(self, status: str = "delivered") -> None:
        """Take all announcements as delivered, or as something else."""
        async with self.database.transaction() as tx:
            await tx.execute(update(outbox_table).values(status=status))
