"""Writes an event as iCalendar."""

from datetime import UTC, date, datetime, time, timedelta

import icalendar

from skills.calendar.drafts import Draft
from skills.calendar.repeats import Repeat

PRODUCT = "-//Retinue//Retinue//EN"


def ics_of(draft: Draft, uid: str, now: datetime) -> str:
    """Return the iCalendar object of an event.

    Args:
        draft: The event.
        uid: Its id, the same on every retry.
        now: The time of creation.
    """
    event = icalendar.Event()
    event.add("UID", uid)
    event.add("DTSTAMP", now.astimezone(UTC).replace(microsecond=0))
    event.add("SUMMARY", draft.title)
    for name, moment in zip(("DTSTART", "DTEND"), _span(draft), strict=True):
        event.add(name, moment)
    if draft.repeat:
        event.add("RRULE", _rule(draft.repeat, draft))
    for name, text in (("LOCATION", draft.location), ("DESCRIPTION", draft.notes)):
        if text:
            event.add(name, text)
    calendar = icalendar.Calendar()
    calendar.add("PRODID", PRODUCT)
    calendar.add("VERSION", "2.0")
    calendar.add_component(event)
    calendar.add_missing_timezones()
    return str(calendar.to_ical().decode())


def _span(draft: Draft) -> tuple[date, date]:
    start, end = draft.start, draft.end
    if not (isinstance(start, datetime) and isinstance(end, datetime)):
        # The format's end is the day after the last.
        return start, end + timedelta(days=1)
    # A repeating event follows the local time of its zone. A single event is written in UTC, which
    # is unambiguous even where the local time occurs twice.
    return (start, end) if draft.repeat else (start.astimezone(UTC), end.astimezone(UTC))


def _rule(repeat: Repeat, draft: Draft) -> dict[str, object]:
    rule: dict[str, object] = {"FREQ": repeat.unit}
    if repeat.interval > 1:
        rule["INTERVAL"] = repeat.interval
    if repeat.days:
        rule["BYDAY"] = list(repeat.days)
    if repeat.count:
        rule["COUNT"] = repeat.count
    if repeat.until and draft.all_day:
        rule["UNTIL"] = repeat.until
    elif repeat.until:
        end = datetime.combine(repeat.until, time(23, 59, 59), draft.zone)
        rule["UNTIL"] = end.astimezone(UTC)
    return rule
