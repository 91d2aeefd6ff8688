"""Reads and writes the configured calendars; a calendar is hidden from all but its users."""

import asyncio
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from bot.conversations.access import spelled
from bot.errors import ToolError
from bot.net.guard import OpenClient
from bot.values import Identity
from skills.calendar.drafts import EventDraft
from skills.calendar.parsing import READING_SECONDS, FoundEvents, events_of
from skills.calendar.settings import CalendarSettings, CalendarsSettings
from skills.calendar.times import TimeWindow

if TYPE_CHECKING:
    from skills.calendar.dav import RemoteCalendar

MOST_EVENTS = 50
#: Most calendars that are parsed concurrently, each in a separate process.
AT_ONCE = 2
GRACE = 5.0

#: Margin around a query: servers read a time without zone as one of their own, and a day as one in
#: UTC.
MARGIN = timedelta(days=1)


@dataclass(eq=False)
class Calendars:
    """All enabled calendars of the configuration.

    Attributes:
        settings: The configured calendars.
        zone: Time zone for times that name none.
        open_client: Opens an HTTP client that may connect to any configured address.
    """

    settings: CalendarsSettings
    _: KW_ONLY
    zone: ZoneInfo
    open_client: OpenClient
    _reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    @property
    def _calendars(self) -> dict[str, CalendarSettings]:
        return {name: each for name, each in self.settings.calendars.items() if each.enabled}

    @property
    def any_to_write(self) -> bool:
        """True if events may be added to a calendar."""
        return any(each.write for each in self._calendars.values())

    @property
    def seconds(self) -> float:
        """The longest time that reading one calendar takes, in seconds."""
        return self.settings.timeout_seconds + READING_SECONDS + GRACE

    def of(self, user: Identity) -> dict[str, CalendarSettings]:
        """Return the calendars that a user may access."""
        me = spelled(user)
        return {
            name: each
            for name, each in self._calendars.items()
            if each.people is None or me in each.people
        }

    async def between(
        self, user: Identity, window: TimeWindow, name: str | None
    ) -> dict[str, FoundEvents]:
        """Read one of a user's calendars, or all of them, and return what was found by its name.

        Raises:
            ToolError: The user has no such calendar.
        """
        mine = self.of(user)
        names = [self._named(name, mine)] if name else list(mine)
        if not names:
            raise ToolError(NONE)
        async with asyncio.TaskGroup() as group:
            looks = {each: group.create_task(self._read(each, window)) for each in names}
        return {each: look.result() for each, look in looks.items()}

    def to_write(self, user: Identity, name: str | None) -> str:
        """Return the name of the calendar for a user's new event.

        Raises:
            ToolError: The user has none, or the choice is ambiguous.
        """
        mine = self.of(user)
        if name:
            name = self._named(name, mine)
            if not mine[name].write:
                raise ToolError(f"Nothing can be added to the calendar {name}: it is read only.")
            return name
        writable = [each for each in mine if mine[each].write]
        if not writable:
            raise ToolError("There is no calendar to which I can add something for this user.")
        if len(writable) > 1:
            raise ToolError(f"Say which `calendar`: {', '.join(writable)}.")
        return writable[0]

    async def add(
        self, user: Identity, name: str, draft: EventDraft, *, uid: str, now: datetime
    ) -> bool:
        """Add an event to one of a user's calendars; return False if it exists already.

        Raises:
            ToolError: The event cannot be added.
        """
        from skills.calendar.ics import ics_of  # noqa: PLC0415

        name = self.to_write(user, name)
        return await self._remote(name).add(uid, ics_of(draft, uid, now))

    async def _read(self, name: str, window: TimeWindow) -> FoundEvents:
        around = TimeWindow(window.start - MARGIN, window.end + MARGIN)
        try:
            objects = await self._remote(name).between(around)
            async with self._reading:
                return await events_of(objects, window, self.zone, most=MOST_EVENTS)
        except ToolError as error:
            return FoundEvents(problem=str(error))

    def _remote(self, name: str) -> "RemoteCalendar":
        from skills.calendar.dav import RemoteCalendar  # noqa: PLC0415

        seconds = self.settings.timeout_seconds
        return RemoteCalendar(name, self._calendars[name], self.open_client, seconds=seconds)

    @staticmethod
    def _named(name: str, mine: dict[str, CalendarSettings]) -> str:
        wanted = name.strip().lower()
        if wanted in mine:
            return wanted
        # The error is the same for another user's calendar and for an unknown name.
        advice = f"There are: {', '.join(mine)}." if mine else NONE
        raise ToolError(f"There is no calendar {name[:50]!r}. {advice}")


NONE = "There is no calendar for this user: the bot's admins can set one up."
