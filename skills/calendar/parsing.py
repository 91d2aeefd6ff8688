"""Parses calendar objects in a separate process."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from bot.errors import ToolError
from bot.isolated import run_isolated
from skills.calendar.times import TimeWindow

log = logging.getLogger(__name__)

#: Timeout, including the start of the process, about 0.3 s.
READING_SECONDS = 20.0

_SCRIPT = Path(__file__).with_name("reading.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEvent:
    """An event of a calendar; its texts are untrusted.

    Attributes:
        start: ISO 8601: a time in the requested zone, or a day.
        end: The same; for an all-day event, its last day.
        status: Such as `TENTATIVE` or `CANCELLED`; may be empty.
    """

    start: str
    end: str
    all_day: bool
    title: str
    location: str
    notes: str
    status: str


@dataclass(frozen=True, slots=True)
class FoundEvents:
    """The events of one calendar in a window, earliest first.

    Attributes:
        more: The window holds more events than were requested.
        unread: Number of objects that could not be parsed.
        problem: The reason why the calendar cannot be read now; empty when it was read.
    """

    events: tuple[CalendarEvent, ...] = ()
    more: bool = False
    unread: int = 0
    problem: str = ""


async def events_of(
    objects: Sequence[str],
    window: TimeWindow,
    zone: ZoneInfo,
    *,
    most: int,
    seconds: float = READING_SECONDS,
) -> FoundEvents:
    """Return the events of these objects that occur in a window, recurrences expanded.

    Raises:
        ToolError: Parsing failed or took too long.
    """
    if not objects:
        return FoundEvents()
    asked = {
        "objects": list(objects),
        "start": window.start.isoformat(),
        "end": window.end.isoformat(),
        "zone": zone.key,
        "most": most,
    }
    given = json.dumps(asked).encode()
    try:
        out = await run_isolated(_SCRIPT, given=given, seconds=seconds, megabytes=512)
        parsed = json.loads(out)
    except (TimeoutError, ChildProcessError, ValueError):
        size = sum(map(len, objects))
        log.warning("Reading %d characters of a calendar took too long", size)
        raise ToolError(
            "What stands in the calendar takes too long to read. Ask for a shorter time."
        ) from None
    events = tuple(CalendarEvent(**event) for event in parsed["events"])
    return FoundEvents(events, parsed["more"], parsed["unread"])
