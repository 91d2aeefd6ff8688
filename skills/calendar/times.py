"""Parses times of events from model input, and formats them in words (pure)."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from bot.errors import ToolError

DAYS_AHEAD = 7
MOST_DAYS = 366
_YEARS = range(1970, 2200)


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A period of time to search for events; both ends are aware."""

    start: datetime
    end: datetime


def window(begin: str | None, end: str | None, zone: ZoneInfo, now: datetime) -> TimeWindow:
    """Return the requested window; by default it starts now and lasts a week.

    A day alone means its beginning as `begin`, and its end as `end`.

    Raises:
        ToolError: A value is no time, or the two do not fit together.
    """
    start = beginning(read(begin, "from"), zone) if begin else now.astimezone(zone)
    stop = later(start, DAYS_AHEAD, zone)
    if end:
        last = read(end, "to")
        whole_day = timedelta(days=0 if isinstance(last, datetime) else 1)
        stop = beginning(last + whole_day, zone)
    if stop <= start:
        raise ToolError("`to` is not after `from`: give a later `to`, or leave it out for a week.")
    if stop > later(start, MOST_DAYS, zone):
        raise ToolError(f"That is more than {MOST_DAYS} days: ask for a shorter time.")
    return TimeWindow(start, stop)


def read(said: str, what: str) -> date | datetime:
    """Parse a day, or a time with or without an offset.

    Raises:
        ToolError: The text is neither.
    """
    text = said.strip()
    try:
        found = datetime.fromisoformat(text) if ":" in text else date.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.year not in _YEARS:
        raise ToolError(
            f"`{what}` is no time that I understand: write `2026-11-22 09:00`, or `2026-11-22` for "
            "a day."
        )
    return found


def beginning(found: date | datetime, zone: ZoneInfo) -> datetime:
    """Return the moment at which a day or time begins, in a zone.

    A time without an offset is local time in the zone. An ambiguous local time is its first
    occurrence; a local time in a DST gap is read with the offset before the gap (RFC 5545).
    """
    if not isinstance(found, datetime):
        found = datetime.combine(found, time.min)
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone, fold=0)
    return found.astimezone(UTC).astimezone(zone)


def later(moment: datetime, days: int, zone: ZoneInfo) -> datetime:
    """Return the same local time a number of days later."""
    return beginning(moment.replace(tzinfo=None) + timedelta(days=days), zone)


def day(found: date) -> str:
    """Return a day as text."""
    return f"{found:%A} {found.day} {found:%B %Y}"


def between(start: datetime, end: datetime, zone: ZoneInfo) -> str:
    """Return a period as text, in the local time of a zone."""
    first, last = start.astimezone(zone), end.astimezone(zone)
    closing = f"{last:%H:%M}" if first.date() == last.date() else f"{day(last)}, {last:%H:%M}"
    dash = "–" if first.date() == last.date() else " to "
    return f"{day(first)}, {first:%H:%M}{dash}{closing} ({zone.key})"
