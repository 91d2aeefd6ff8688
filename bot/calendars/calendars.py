"""The calendars of the configuration: each for those whose it is, and unknown to all others."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from bot.calendars.drafts import Draft
from bot.calendars.parsing import READING_SECONDS, Found, events_of
from bot.calendars.settings import CalendarSettings, CalendarsSettings
from bot.calendars.times import Window
from bot.conversations.access import spelled
from bot.errors import ToolError
from bot.values import Identity

if TYPE_CHECKING:
    import aiohttp

    from bot.calendars.dav import RemoteCalendar

MOST_EVENTS = 50
#: Calendars that are read at once: each is a process of its own.
AT_ONCE = 2
GRACE = 5.0

#: Servers take a time without zone for one of theirs, and a day for one of UTC.
MARGIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of a look into one calendar.

    Attributes:
        problem: Why it cannot be read now; empty when it could.
    """

    name: str
    found: Found = field(default_factory=Found)
    problem: str = ""


class Calendars:
    """All calendars of the configuration.

    Args:
        settings: Which there are.
        zone: What counts for times that name no zone.
        open_client: Opens a client that dials what the configuration names.
    """

    def __init__(
        self,
        settings: CalendarsSettings,
        *,
        zone: ZoneInfo,
        open_client: Callable[[], AbstractAsyncContextManager["aiohttp.ClientSession"]],
    ) -> None:
        self.zone = zone
        self._settings = settings
        self._open = open_client
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._calendars = {name: each for name, each in settings.calendars.items() if each.enabled}

    @property
    def any(self) -> bool:
        """Whether there is a calendar at all."""
        return bool(self._calendars)

    @property
    def any_to_write(self) -> bool:
        """Whether there is one into which events may be put."""
        return any(each.write for each in self._calendars.values())

    @property
    def seconds(self) -> float:
        """The longest that a look into one calendar takes."""
        return self._settings.timeout_seconds + READING_SECONDS + GRACE

    def of(self, user: Identity) -> dict[str, CalendarSettings]:
        """Return the calendars that a person may know of."""
        me = spelled(user)
        return {
            name: each
            for name, each in self._calendars.items()
            if each.people is None or me in each.people
        }

    async def between(self, user: Identity, window: Window, name: str | None) -> list[Looked]:
        """Look into one of a person's calendars, or into all.

        Raises:
            ToolError: There is no such calendar for this person.
        """
        mine = self.of(user)
        names = [self._named(name, mine)] if name else list(mine)
        if not names:
            raise ToolError(NONE)
        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(self._look(each, window)) for each in names]
        return [look.result() for look in looks]

    def to_write(self, user: Identity, name: str | None) -> str:
        """Return the calendar into which a person's event goes.

        Raises:
            ToolError: There is none for this person, or it is not clear which.
        """
        mine = self.of(user)
        if name:
            name = self._named(name, mine)
            if not mine[name].write:
                raise ToolError(f"Nothing can be added to the calendar {name}: it is read only.")
            return name
        writable = [each for each in mine if mine[each].write]
        if not writable:
            raise ToolError("There is no calendar to which I can add something for this person.")
        if len(writable) > 1:
            raise ToolError(f"Say which `calendar`: {', '.join(writable)}.")
        return writable[0]

    async def add(
        self, user: Identity, name: str, draft: Draft, *, uid: str, now: datetime
    ) -> bool:
        """Put an event into one of a person's calendars; return whether it was not there yet.

        Raises:
            ToolError: It cannot be done.
        """
        from bot.calendars.ics import ics_of  # noqa: PLC0415

        name = self.to_write(user, name)
        return await self._remote(name).add(uid, ics_of(draft, uid, now))

    async def _look(self, name: str, window: Window) -> Looked:
        around = Window(window.start - MARGIN, window.end + MARGIN)
        try:
            objects = await self._remote(name).between(around)
            async with self._reading:
                found = await events_of(objects, window, self.zone, most=MOST_EVENTS)
        except ToolError as error:
            return Looked(name, problem=str(error))
        return Looked(name, found)

    def _remote(self, name: str) -> "RemoteCalendar":
        from bot.calendars.dav import RemoteCalendar  # noqa: PLC0415

        seconds = self._settings.timeout_seconds
        return RemoteCalendar(name, self._calendars[name], self._open, seconds=seconds)

    @staticmethod
    def _named(name: str, mine: dict[str, CalendarSettings]) -> str:
        wanted = name.strip().lower()
        if wanted in mine:
            return wanted
        # Another's calendar and none at all are answered alike.
        advice = f"There are: {', '.join(mine)}." if mine else NONE
        raise ToolError(f"There is no calendar {name[:50]!r}. {advice}")


NONE = "There is no calendar for this person: the bot's admins can set one up."
