"""Checks that the configured calendars are reachable, and are calendars."""

from bot.checks import Check, all_of, fails, reason_of, works
from bot.errors import ConfigError, ToolError
from bot.net.addresses import AnyAddress
from bot.net.guard import OpenClient, open_guarded
from bot.values import Sections
from skills.calendar.settings import CalendarSettings, CalendarsSettings

SUBJECT = "Calendar"

PATIENCE_SECONDS = 10


async def checks(config: Sections) -> list[Check]:
    """Check the calendars of a configuration."""
    settings = config.section(CalendarsSettings)
    try:
        settings.check_installed()
    except ConfigError as error:
        return [fails(str(error))]
    return await look(settings, lambda: open_guarded(AnyAddress()), seconds=PATIENCE_SECONDS)


async def look(
    settings: CalendarsSettings,
    open_client: OpenClient,
    *,
    seconds: float,
) -> list[Check]:
    """Return a check on each calendar; nothing is written."""
    return await all_of(
        _look(name, each, open_client, seconds)
        for name, each in settings.calendars.items()
        if each.enabled
    )


async def _look(
    name: str,
    settings: CalendarSettings,
    open_client: OpenClient,
    seconds: float,
) -> Check:
    from skills.calendar.dav import RemoteCalendar  # noqa: PLC0415

    try:
        found = await RemoteCalendar(name, settings, open_client, seconds=seconds).is_calendar()
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
