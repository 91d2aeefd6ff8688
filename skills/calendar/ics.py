"""Writes an event as iCalendar."""

from datetime import UTC, date, datetime, time, timedelta

import icalendar

from skills.calendar.drafts import EventDraft

PRODUCT = "-//Retinue//Retinue//EN"


def ics_of(draft: EventDraft, uid: str, now: datetime) -> str:
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
    start, end = draft.start, draft.end
    if not (isinstance(start, datetime) and isinstance(end, datetime)):
        # The format's end is the day after the last.
        end += timedelta(days=1)
    elif not draft.repeat:
        # A repeating event follows the local time of its zone. A single event is written in UTC,
        # which is unambiguous even where the local time occurs twice.
        start, end = start.astimezone(UTC), end.astimezone(UTC)
    event.add("DTSTART", start)
    event.add("DTEND", end)
    if repeat := draft.repeat:
        until: date | None = repeat.until
        if until and not draft.all_day:
            until = datetime.combine(until, time(23, 59, 59), draft.zone).astimezone(UTC)
        rule = {
            "FREQ": repeat.unit,
            "INTERVAL": repeat.interval if repeat.interval > 1 else None,
            "BYDAY": list(repeat.days),
            "COUNT": repeat.count,
            "UNTIL": until,
        }
        event.add("RRULE", {name: value for name, value in rule.items() if value})
    for name, text in (("LOCATION", draft.location), ("DESCRIPTION", draft.notes)):
        if text:
            event.add(name, text)
    calendar = icalendar.Calendar()
    calendar.add("PRODID", PRODUCT)
    calendar.add("VERSION", "2.0")
    calendar.add_component(event)
    calendar.add_missing_timezones()
    return str(calendar.to_ical().decode())
