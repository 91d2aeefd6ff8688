"""Reports for `check` the calendars and whose they are."""

from collections.abc import Iterator, Mapping

from bot.checks import some
from bot.values import Sections
from skills.calendar.settings import CalendarsSettings

TITLE = "Calendars"


def lines(config: Sections, _: Mapping[str, str]) -> Iterator[str]:
    """Yield each calendar that is on."""
    settings = config.section(CalendarsSettings)
    on = {name: each for name, each in settings.calendars.items() if each.enabled}
    if not on:
        yield "none: see `calendar.calendars`"
    for name, each in on.items():
        whose = "everyone's" if each.people is None else "nobody's"
        if each.people:
            whose = f"of {some(each.people, 'user')}"
        yield f"{name}: {whose}, {'events may be added' if each.write else 'read only'}"
