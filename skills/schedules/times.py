"""Computes the moments at which a schedule fires, across time zones and DST (pure)."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from bot.errors import BadRequestError

MOST_AHEAD = timedelta(days=731)
MAX_CRON = 100
FIELDS = 5
#: A fire that is later than this is skipped.
GRACE = timedelta(days=1)

_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_UNITS["w"] = timedelta(weeks=1)
_COUNT = r"\d{1,6}(?:\.\d{1,2})?|(?:an?|one)(?= )"
_PART = rf"({_COUNT}) ?(minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)(?![a-z])"
_SPAN = re.compile(rf"in {_PART}(?:,?(?: and)? ?{_PART}){{0,3}}", re.IGNORECASE)
_ONE_PART = re.compile(_PART, re.IGNORECASE)
_CLOCK_TIME = re.compile(r"\d{1,2}:\d{2}")


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone with this IANA name.

    Raises:
        BadRequestError: No time zone has that name.
    """
    try:
        return ZoneInfo(name)
    # A name like `../x` is a ValueError. A name like `Europe` is an OSError, since it is a folder.
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadRequestError(
            f"There is no time zone {name[:60]!r}; use a name like Europe/Berlin."
        ) from None


def spelled(moment: datetime, zone: ZoneInfo) -> str:
    """Return a moment as text, in the local time of a zone."""
    return f"{moment.astimezone(zone):%A %d %B %Y, %H:%M} ({zone.key})"


# -- once ----------------------------------------------------------------------------------------


def once(said: str, zone: ZoneInfo, now: datetime) -> datetime:
    """Parse a single moment: `in 2 hours`, `18:30` or `2026-11-22 09:00`.

    A time without an offset is local time in the zone. An ambiguous local time (end of DST) is its
    first occurrence; a local time that does not exist is moved to the end of the gap.

    Raises:
        BadRequestError: The text is no moment, or the moment is over or too far ahead.
    """
    text = " ".join(said.split())
    try:
        moment = _parse_moment(text, zone, now)
    except (ValueError, OverflowError):
        raise BadRequestError(
            f"{text[:60]!r} is no time that I understand. Write `2026-11-22 09:00`, `18:30`, or "
            "`in 2 hours`."
        ) from None
    if moment <= now:
        raise BadRequestError(
            f"{spelled(moment, zone)} is over: it is {spelled(now, zone)}. Give a later time."
        )
    if moment > now + MOST_AHEAD:
        raise BadRequestError("That is more than two years ahead. Give an earlier time.")
    return moment


def _parse_moment(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    if _SPAN.fullmatch(text):
        span = timedelta()
        for count, unit in _ONE_PART.findall(text[3:]):
            span += (float(count) if count[0].isdigit() else 1) * _UNITS[unit[0].lower()]
        return now + min(span, MOST_AHEAD * 2)
    if _CLOCK_TIME.fullmatch(text):
        # The next moment at which clocks in the zone show this time.
        shown = time.fromisoformat(text.zfill(5))
        today = now.astimezone(zone).date()
        moment = _moment(datetime.combine(today, shown), zone)
        return (
            moment
            if moment > now
            else _moment(datetime.combine(today + timedelta(days=1), shown), zone)
        )
    given = datetime.fromisoformat(text)
    # A date alone leaves the hour open, and midnight is seldom meant.
    if ":" not in text:
        raise ValueError(text)
    return _moment(given, zone) if given.tzinfo is None else given.astimezone(UTC)


# -- again and again -----------------------------------------------------------------------------


def cron_of(said: str, *, least: timedelta) -> str:
    """Validate a cron expression of five fields and return it normalised, as it is stored.

    Raises:
        BadRequestError: The expression is invalid, or two of its fires are closer than `least`.
    """
    text = " ".join(said.split())
    if len(text) > MAX_CRON or len(text.split()) != FIELDS:
        raise BadRequestError(
            "A cron expression has five fields: minute, hour, day of month, month and day of week, "
            "as in `0 9 * * 1-5`."
        )
    try:
        parsed = CronSim(text, datetime(2000, 1, 1))  # noqa: DTZ001 - the clock of any zone
    except CronSimError as error:
        raise BadRequestError(
            f"`{text}` is no cron expression ({error}). It has minute, hour, day of month, month "
            "and day of week, as in `0 9 * * 1-5`."
        ) from None
    # The shortest time between two fires, on one day or over midnight.
    marks = sorted(60 * hour + minute for hour in parsed.hours for minute in parsed.minutes)
    gaps = [24 * 60 - marks[-1] + marks[0], *(b - a for a, b in pairwise(marks))]
    closest = timedelta(minutes=min(gaps))
    if closest < least:
        raise BadRequestError(
            f"`{text}` fires after {closest.total_seconds() / 60:g} min at times; "
            f"{least.total_seconds() / 60:g} min is the least (`schedules.min_minutes_between`)."
        )
    if next(iter(parsed), None) is None:
        raise BadRequestError(f"`{text}` never comes: there is no such day.")
    return text


def fires(cron: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the fires of a schedule after `after`, in strictly ascending order.

    When the expression names hours, local time counts: an ambiguous local time fires at its first
    occurrence only, and a local time in a DST gap fires at the end of the gap. With `*` for the
    hour the schedule fires in every elapsed hour, whatever the local time.
    """
    local = after.astimezone(zone)
    if cron.split()[1] == "*":
        moments = (shown.astimezone(UTC) for shown in CronSim(cron, local))
    else:
        moments = (_moment(shown, zone) for shown in CronSim(cron, local.replace(tzinfo=None)))
    last = after
    for moment in moments:
        if moment > last:
            yield moment
            last = moment


def next_fire(cron: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the first fire after `after`; `None` if there is none within decades."""
    return next(fires(cron, zone, after), None)


def newest_due(cron: str, zone: ZoneInfo, due: datetime, now: datetime) -> datetime:
    """Return the one due fire to make: the newest within `GRACE`, or `due` if none is."""
    newest = due
    for moment in fires(cron, zone, max(due, now - GRACE)):
        if moment > now:
            break
        newest = moment
    return newest


def _moment(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the first moment at which a clock of the zone shows `shown`, or skips it."""
    while True:
        moment = shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == shown.replace(fold=0):
            return moment
        # In a DST gap, which ends on a full minute.
        shown = shown.replace(second=0, microsecond=0) + timedelta(minutes=1)
