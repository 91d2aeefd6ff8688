"""Checks that the configured calendars are reachable, and are calendars."""

from bot.checks import Check, all_of, fails, reason_of, works
from bot.errors import ConfigError, ToolError
from bot.net.addresses import AnyAddress
from bot.net.guard import open_guarded
from bot.values import Sections
from skills.calendar.settings import CalendarSettings, CalendarsSettings

SUBJECT = "Calendar"

PATIENCE_SECONDS = 10


async def checks(config: Sections) -> list[Check]:
    """Return a check on each calendar of a configuration; nothing is written."""
    settings = config.section(CalendarsSettings)
    try:
        settings.check_installed()
    except ConfigError as error:
        return [fails(str(error))]
    return await all_of(
        _look(name, each) for name, each in settings.calendars.items() if each.enabled
    )


async def _look(name: str, settings: CalendarSettings) -> Check:
    from skills.calendar.dav import RemoteCalendar  # noqa: PLC0415

    calendar = RemoteCalendar(
        name, settings, lambda: open_guarded(AnyAddress()), seconds=PATIENCE_SECONDS
    )
    try:
        found = await calendar.is_calendar()
    except ToolError as error:
        text = f"{name}: {reason_of(error)}. Check `calendar.calendars.{name}`."
        return fails(text)
    if not found:
        text = (
            f"{name}: its server answers, but no calendar is there; "
            f"`calendar.calendars.{name}.url` must be the address of one calendar."
        )
        return fails(text)
    what = "events may be added" if settings.write else "read only"
    return works(f"{name} answers; {what}.")
