"""Events as they are wanted: definite, and in words."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bot.errors import ToolError
from skills.calendar.drafts import EventDraft, EventRequest, draft
from skills.calendar.ics import ics_of

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def made(**wanted: object) -> EventDraft:
    given = {"title": "Tea", "start": "2026-11-23 09:00", **wanted}
    return draft(EventRequest(**given), BERLIN)  # type: ignore[arg-type]


def words(**wanted: object) -> str:
    return made(**wanted).words(NOW)


def lines(**wanted: object) -> list[str]:
    return ics_of(made(**wanted), "uid-1", NOW).splitlines()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, "“Tea”; Monday 23 November 2026, 09:00–10:00 (Europe/Berlin)"),
        ({"minutes": 90}, "“Tea”; Monday 23 November 2026, 09:00–10:30 (Europe/Berlin)"),
        (
            {"end": "2026-11-24 01:00"},
            "“Tea”; Monday 23 November 2026, 09:00 to Tuesday 24 November 2026, 01:00 "
            "(Europe/Berlin)",
        ),
        ({"start": "2026-11-23"}, "“Tea”; Monday 23 November 2026, all day"),
        (
            {"start": "2026-11-23", "end": "2026-11-24", "all_day": True},
            "“Tea”; Monday 23 November 2026 to Tuesday 24 November 2026, all day",
        ),
        (
            {"start": "2026-11-20", "location": "My\nroom", "notes": "Bring\ncups"},
            "“Tea”; Friday 20 November 2026, all day (this is in the past); at “My room”; "
            "with the notes “Bring cups”",
        ),
        (
            {"start": "2027-03-28 02:30"},
            "“Tea”; Sunday 28 March 2027, 03:30–04:30 (Europe/Berlin)",
        ),
        (
            {"repeat": "weekly"},
            "“Tea”; Monday 23 November 2026, 09:00–10:00 (Europe/Berlin); every week",
        ),
    ],
)
def test_a_user_reads_what_it_is(wanted: dict[str, object], said: str) -> None:
    assert words(**wanted) == said


@pytest.mark.parametrize(
    ("rule", "first", "said"),
    [
        ("daily", "2026-11-23", "every day"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", "2026-11-23", "every 2 weeks on Monday and Wedn"),
        ("RRULE:FREQ=MONTHLY;BYDAY=4MO;COUNT=3", "2026-11-23", "every month on the fourth Monday"),
        ("FREQ=MONTHLY;BYDAY=-1MO", "2026-11-30", "every month on the last Monday"),
        ("freq=yearly;until=20300101t000000z", "2026-11-23", "every year, until 2030-01-01"),
    ],
)
def test_a_rule_is_said_in_words(rule: str, first: str, said: str) -> None:
    assert said in words(start=first, repeat=rule)


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ({"title": " \n"}, "no title"),
        ({"start": "soon"}, "`start` is no time"),
        ({"end": "2026-11-23 08:00"}, "ends before it begins"),
        ({"end": "2026-11-23 09:00"}, "ends before it begins"),
        ({"start": "2026-11-23", "end": "2026-11-22"}, "ends before it begins"),
        ({"end": "2027-11-25 09:00"}, "more than 366 days"),
        ({"end": "2026-11-23"}, "Give either `end`, written like `start`"),
        ({"end": "2026-11-23 10:00", "minutes": 5}, "Give either `end`"),
        ({"start": "2026-11-23", "minutes": 5}, "no `duration_minutes`"),
        ({"all_day": True}, "a day alone"),
        ({"start": "2026-11-23", "all_day": False}, "a day alone"),
        ({"notes": "x" * 5_001}, "5,000 is the most"),
        ({"repeat": "FREQ=SECONDLY"}, "no way of repeating"),
        ({"repeat": "FREQ=DAILY;BYSECOND=1"}, "no way of repeating"),
        ({"repeat": "FREQ=DAILY;COUNT=2;UNTIL=20300101"}, "no way of repeating"),
        ({"repeat": "FREQ=DAILY;COUNT=100000"}, "COUNT 1 to 1000"),
        ({"repeat": "FREQ=DAILY;INTERVAL=0"}, "INTERVAL is 1 to 99"),
        ({"repeat": "FREQ=DAILY;UNTIL=20301399"}, "UNTIL is a day"),
        ({"repeat": "FREQ=DAILY;UNTIL=20260101"}, "ends before the event begins"),
        ({"repeat": "FREQ=DAILY;BYDAY=MO"}, "BYDAY goes with"),
        ({"repeat": "FREQ=WEEKLY;BYDAY=1MO"}, "BYDAY is MO,WE for a week"),
        ({"repeat": "FREQ=WEEKLY;BYDAY=TU"}, "begins on a Monday, 2026-11-23, which is none of"),
        ({"repeat": "FREQ=MONTHLY;BYDAY=1MO"}, "which is none of BYDAY=1MO"),
        ({"repeat": "FREQ=MONTHLY;BYDAY=-1MO"}, "which is none of BYDAY=-1MO"),
    ],
)
def test_what_makes_no_sense_is_told(wanted: dict[str, object], complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        made(**wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"start": "2026-10-25 02:30+01:00", "notes": "two\nlines", "location": "here"},
        {"start": "2027-03-28 02:30"},
        {"start": "2026-11-23", "end": "2026-11-25"},
        {"repeat": "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;UNTIL=20271231"},
    ],
)
def test_what_was_shown_is_read_again_as_the_very_same(wanted: dict[str, object]) -> None:
    event = made(**wanted)

    assert made(**event.arguments()) == event


def test_what_happens_once_is_written_without_a_zone_so_that_no_clock_matters() -> None:
    found = lines(start="2026-10-25 02:30+01:00")

    assert "DTSTART:20261025T013000Z" in found
    assert "DTEND:20261025T023000Z" in found


def test_what_repeats_goes_by_the_clock_of_its_zone() -> None:
    found = lines(repeat="FREQ=WEEKLY;BYDAY=MO;UNTIL=20271231")

    assert "DTSTART;TZID=Europe/Berlin:20261123T090000" in found
    assert "RRULE:FREQ=WEEKLY;UNTIL=20271231T225959Z;BYDAY=MO" in found
    assert "BEGIN:VTIMEZONE" in found


def test_an_all_day_event_ends_after_its_last_day_as_the_format_has_it() -> None:
    found = lines(start="2026-11-23", end="2026-11-24", repeat="FREQ=YEARLY;UNTIL=20301231")

    assert "DTSTART;VALUE=DATE:20261123" in found
    assert "DTEND;VALUE=DATE:20261125" in found
    assert "RRULE:FREQ=YEARLY;UNTIL=20301231" in found


def test_a_text_cannot_become_a_line_of_its_own() -> None:
    evil = "Tea\r\nATTENDEE:mailto:all@example.org\r\nEND:VEVENT"
    found = lines(title=evil, location=evil, notes=evil)

    assert not [line for line in found if line.startswith("ATTENDEE")]
    assert found.count("END:VEVENT") == 1
