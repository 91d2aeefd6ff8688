"""Validates a requested event, resolves its times, and describes it in words (pure)."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from bot.agent.sanitizer import one_line, stored
from bot.errors import ToolError
from bot.values import Json
from skills.calendar import times
from skills.calendar.repeats import Repeat, repeat

MOST_TITLE = 200
MOST_LOCATION = 300
MOST_NOTES = 5_000
MOST_DAYS = 366
MINUTES = 60
SHOWN_NOTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRequest:
    """An event as requested by a model; omitted values are empty."""

    title: str
    start: str
    end: str = ""
    minutes: int | None = None
    all_day: bool | None = None
    location: str = ""
    notes: str = ""
    repeat: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDraft:
    """A validated event to be added.

    Attributes:
        start: A moment in the zone; for an all-day event, its first day.
        end: A moment; for an all-day event, its last day.
    """

    title: str
    start: date | datetime
    end: date | datetime
    zone: ZoneInfo
    location: str = ""
    notes: str = ""
    repeat: Repeat | None = None

    @property
    def all_day(self) -> bool:
        """True if the event has days and no times."""
        return not isinstance(self.start, datetime)

    def arguments(self) -> Json:
        """Return the event as tool arguments that do not depend on the time of reading."""
        given = {
            "title": self.title,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "all_day": self.all_day,
            "location": self.location,
            "notes": self.notes,
            "repeat": str(self.repeat or ""),
        }
        return {name: value for name, value in given.items() if value != ""}

    def words(self, now: datetime) -> str:
        """Return a description of the event, for the user who approves it."""
        if isinstance(self.start, datetime) and isinstance(self.end, datetime):
            when, over = times.between(self.start, self.end, self.zone), self.end < now
        else:
            last = "" if self.end == self.start else f" to {times.day(self.end)}"
            when = f"{times.day(self.start)}{last}, all day"
            over = self.end < now.astimezone(self.zone).date()
        parts = [f"“{self.title}”", f"{when} (this is in the past)" if over else when]
        if self.repeat:
            parts.append(self.repeat.words)
        if self.location:
            parts.append(f"at “{self.location}”")
        if self.notes:
            parts.append(f"with the notes “{one_line(self.notes, SHOWN_NOTES)}”")
        return "; ".join(parts)


def draft(wanted: EventRequest, zone: ZoneInfo) -> EventDraft:
    """Return the validated event; its own `arguments` give the same event again.

    Raises:
        ToolError: The event is invalid; the text says what to change.
    """
    title = one_line(stored(wanted.title), MOST_TITLE)
    notes = stored(wanted.notes).strip()
    if not title:
        raise ToolError("The event has no title: give it a few words.")
    if len(notes) > MOST_NOTES:
        raise ToolError(
            f"The notes have {len(notes):,} characters, and {MOST_NOTES:,} is the most."
        )
    start, end = _span(wanted, zone)
    first = start.date() if isinstance(start, datetime) else start
    return EventDraft(
        title=title,
        start=start,
        end=end,
        zone=zone,
        location=one_line(stored(wanted.location), MOST_LOCATION),
        notes=notes,
        repeat=repeat(wanted.repeat, first) if wanted.repeat.strip() else None,
    )


def _span(wanted: EventRequest, zone: ZoneInfo) -> tuple[date | datetime, date | datetime]:
    start = times.read(wanted.start, "start")
    end = times.read(wanted.end, "end") if wanted.end.strip() else None
    timed = isinstance(start, datetime)
    if wanted.all_day is not None and wanted.all_day == timed:
        raise ToolError(
            "`start` is a day alone, like 2026-11-22, for an all-day event, and a day and a time "
            "for any other."
        )
    if end is not None and (wanted.minutes or isinstance(end, datetime) != timed):
        raise ToolError(
            "Give either `end`, written like `start`, or `duration_minutes`. The `end` of an "
            "all-day event is its last day."
        )
    if isinstance(start, datetime):
        begins = times.beginning(start, zone)
        # Elapsed minutes, also across a clock change.
        elapsed = begins.astimezone(UTC) + timedelta(minutes=wanted.minutes or MINUTES)
        ends = times.beginning(end if end is not None else elapsed, zone)
        _check(ends.astimezone(UTC) - begins.astimezone(UTC))
        return begins, ends
    if wanted.minutes:
        raise ToolError("An all-day event has no `duration_minutes`: give its last day as `end`.")
    last = end or start
    _check(timedelta(days=(last - start).days + 1))
    return start, last


def _check(span: timedelta) -> None:
    if span <= timedelta(0):
        raise ToolError("The event ends before it begins: give a later `end`.")
    if span > timedelta(days=MOST_DAYS):
        raise ToolError(f"The event takes more than {MOST_DAYS} days: give an earlier `end`.")
