"""Expands calendar objects to events, in a separate process: `skills.calendar.parsing` starts it.

Anyone who may send an invitation controls their content, and some rules take for ever to expand:
so `bot.isolated` may kill this process.
"""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import icalendar
import recurring_ical_events

#: CPU time limit of one object. A year of a usual rule takes some 10 ms.
OBJECT_SECONDS = 1.0
MOST_CHARACTERS = 1_000

#: Margin around a query: servers read a time without zone as one of their own, and a day as one in
#: UTC.
MARGIN = timedelta(days=1)


class TooLongError(BaseException):
    """An object takes too long; a `BaseException`, so that no `except Exception` catches it."""


def events(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the events of some objects in a window, earliest first.

    Args:
        asked: `objects`, iCalendar texts; `start` and `end`, aware; the `zone` for times that have
            none; and `most`, the most events to return.
    """
    zone = ZoneInfo(asked["zone"])
    start, end = (datetime.fromisoformat(asked[each]) for each in ("start", "end"))
    found: list[tuple[datetime, dict[str, Any]]] = []
    unread = 0
    for text in asked["objects"]:
        try:
            with _limited(OBJECT_SECONDS):
                found += list(_events_in(text, start, end, zone))
        # The input is untrusted; see BOUNDARIES.
        except (Exception, TooLongError):  # noqa: BLE001
            unread += 1
    found.sort(key=lambda each: each[0])
    most = asked["most"]
    return {
        "events": [event for _, event in found[:most]],
        "more": len(found) > most,
        "unread": unread,
    }


def _events_in(
    text: str, start: datetime, end: datetime, zone: ZoneInfo
) -> Iterator[tuple[datetime, dict[str, Any]]]:
    calendar = icalendar.Calendar.from_ical(text)
    local = (start.astimezone(zone) - MARGIN, end.astimezone(zone) + MARGIN)
    for found in recurring_ical_events.of(calendar).between(*local):
        first, last = found["DTSTART"].dt, found["DTEND"].dt
        begins, ends = _moment(first, zone), _moment(last, zone)
        if begins < end and (ends > start or begins >= start):
            all_day = not isinstance(first, datetime)
            yield (
                begins,
                {
                    "start": _spelled(first, zone),
                    # The last day, not the day after it as in iCalendar.
                    "end": _spelled(
                        max(first, last - timedelta(days=1)) if all_day else last, zone
                    ),
                    "all_day": all_day,
                    "title": _text(found, "SUMMARY"),
                    "location": _text(found, "LOCATION"),
                    "notes": _text(found, "DESCRIPTION"),
                    "status": _text(found, "STATUS"),
                },
            )


def _moment(found: date, zone: ZoneInfo) -> datetime:
    if not isinstance(found, datetime):
        found = datetime.combine(found, time.min)
    return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)


def _spelled(found: date, zone: ZoneInfo) -> str:
    if isinstance(found, datetime):
        return _moment(found, zone).astimezone(zone).isoformat(timespec="minutes")
    return found.isoformat()


def _text(found: Any, name: str) -> str:
    value = found.get(name, "")
    first = value[0] if isinstance(value, list) and value else value
    return str(first)[:MOST_CHARACTERS]


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    # CPU time, so that a busy machine loses no object. Repeated, since code may swallow the first
    # exception.
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


if __name__ == "__main__":
    print(json.dumps(events(json.load(sys.stdin))))  # noqa: T201 - this is its answer
