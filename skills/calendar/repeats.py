"""Parses repeat rules: the part of RFC 5545 that can be described in a few words (pure)."""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta

from bot.errors import ToolError

MOST_INTERVAL = 99
MOST_COUNT = 1000

DAYS = {
    "MO": "Monday",
    "TU": "Tuesday",
    "WE": "Wednesday",
    "TH": "Thursday",
    "FR": "Friday",
    "SA": "Saturday",
    "SU": "Sunday",
}
UNITS = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
_DAY = re.compile(r"([1-5]|-1)?(MO|TU|WE|TH|FR|SA|SU)")
_UNTIL = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T\d{6}Z?)?")

HOW = (
    "Write `daily`, `weekly`, `monthly` or `yearly`, or a rule such as "
    "`FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=10` or `FREQ=MONTHLY;BYDAY=1TU;UNTIL=20271231`."
)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeat rule.

    Attributes:
        unit: `DAILY`, `WEEKLY`, `MONTHLY` or `YEARLY`.
        days: As `MO`, or as `1MO` and `-1FR` for the first and the last of a month.
        until: The last day on which an occurrence may begin.
    """

    unit: str
    interval: int = 1
    days: tuple[str, ...] = ()
    count: int | None = None
    until: date | None = None

    def __str__(self) -> str:
        parts = [f"FREQ={self.unit}"]
        parts += [f"INTERVAL={self.interval}"] if self.interval > 1 else []
        parts += [f"BYDAY={','.join(self.days)}"] if self.days else []
        parts += [f"COUNT={self.count}"] if self.count else []
        parts += [f"UNTIL={self.until:%Y%m%d}"] if self.until else []
        return ";".join(parts)

    @property
    def words(self) -> str:
        """The rule in words."""
        unit = UNITS[self.unit]
        text = f"every {unit}" if self.interval == 1 else f"every {self.interval} {unit}s"
        if self.days:
            days = (
                f"the {_ORDINALS[int(day[:-2])]} {DAYS[day[-2:]]}" if day[:-2] else DAYS[day]
                for day in self.days
            )
            text += f" on {' and '.join(days)}"
        if self.count:
            text += ", once" if self.count == 1 else f", {self.count} times"
        return f"{text}, until {self.until:%Y-%m-%d}" if self.until else text


def repeat(said: str, first: date) -> Repeat:
    """Parse the rule of an event whose first occurrence is on this day.

    Raises:
        ToolError: The rule is invalid, unsupported, or excludes the first day.
    """
    text = said.strip().upper().removeprefix("RRULE:")
    rule = Repeat(text) if text in UNITS else _rule(text)
    if rule.until and rule.until < first:
        raise ToolError("The repeating ends before the event begins: give a later UNTIL.")
    if rule.days and not any(_is_on(day, first) for day in rule.days):
        raise ToolError(
            f"The event begins on a {first:%A}, {first:%Y-%m-%d}, which is none of "
            f"BYDAY={','.join(rule.days)}: begin it on such a day, or change BYDAY."
        )
    return rule


def _rule(text: str) -> Repeat:
    parts = dict(part.partition("=")[::2] for part in text.rstrip(";").split(";"))
    unit, until = parts.pop("FREQ", ""), parts.pop("UNTIL", "")
    days = tuple(filter(None, parts.pop("BYDAY", "").split(",")))
    interval = _number(parts.pop("INTERVAL", "1"), MOST_INTERVAL)
    count = _number(parts.pop("COUNT"), MOST_COUNT) if "COUNT" in parts else None
    # The start of the week matters only for several days in every second week, where Monday is what
    # users mean.
    parts.pop("WKST", None)
    if parts or unit not in UNITS or (count and until):
        raise ToolError(f"That is no way of repeating that I understand. {HOW}")
    if days and unit not in ("WEEKLY", "MONTHLY"):
        raise ToolError(f"BYDAY goes with FREQ=WEEKLY or FREQ=MONTHLY alone. {HOW}")
    ordinal = unit == "MONTHLY"
    for day in days:
        match = _DAY.fullmatch(day)
        if match is None or bool(match[1]) != ordinal:
            raise ToolError(f"BYDAY is MO,WE for a week, and 1TU or -1FR for a month. {HOW}")
    if not until:
        return Repeat(unit, interval, days, count)
    match = _UNTIL.fullmatch(until)
    try:
        if match:
            return Repeat(unit, interval, days, count, date(*map(int, match.groups())))
    except ValueError:
        pass
    raise ToolError(f"UNTIL is a day like 20271231. {HOW}")


def _number(text: str, most: int) -> int:
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or not 1 <= int(text) <= most:
        raise ToolError(f"INTERVAL is 1 to {MOST_INTERVAL}, and COUNT 1 to {MOST_COUNT}. {HOW}")
    return int(text)


def _is_on(rule: str, found: date) -> bool:
    ordinal, name = rule[:-2], rule[-2:]
    if list(DAYS)[found.weekday()] != name:
        return False
    if ordinal == "-1":
        last = monthrange(found.year, found.month)[1]
        return found + timedelta(days=7) > found.replace(day=last)
    return not ordinal or (found.day - 1) // 7 + 1 == int(ordinal)
