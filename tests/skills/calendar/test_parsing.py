"""Objects as events, whatever strangers put into them."""

import asyncio
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from bot.errors import ToolError
from skills.calendar.parsing import CalendarEvent, FoundEvents, events_of
from skills.calendar.times import TimeWindow

BERLIN = ZoneInfo("Europe/Berlin")


def thing(event: str, uid: str = "1") -> str:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:x", "BEGIN:VEVENT", f"UID:{uid}"]
    return "\r\n".join([*lines, *event.strip().split("\n"), "END:VEVENT", "END:VCALENDAR", ""])


async def read(
    *objects: str, start: str = "2026-11-23", end: str = "2026-11-30", most: int = 50
) -> FoundEvents:
    window = TimeWindow(
        *(datetime.fromisoformat(day).replace(tzinfo=BERLIN) for day in (start, end))
    )
    return await events_of(objects, window, BERLIN, most=most)


def spans(found: FoundEvents) -> list[tuple[str, str]]:
    return [(event.start, event.end) for event in found.events]


async def test_an_event_is_read_in_the_zone_that_was_asked_for() -> None:
    found = await read(
        thing(
            "DTSTART;TZID=America/New_York:20261123T090000\nDTEND:20261123T150000Z\n"
            "SUMMARY:Tea\\, at last\nLOCATION:Room 1\nDESCRIPTION:Bring\\ncups\nSTATUS:TENTATIVE"
        )
    )

    assert found.events == (
        CalendarEvent(
            start="2026-11-23T15:00+01:00",
            end="2026-11-23T16:00+01:00",
            all_day=False,
            title="Tea, at last",
            location="Room 1",
            notes="Bring\ncups",
            status="TENTATIVE",
        ),
    )


async def test_a_time_without_a_zone_is_of_ours_and_days_end_with_their_last() -> None:
    found = await read(
        thing("DTSTART:20261124T090000\nDURATION:PT30M"),
        thing("DTSTART;VALUE=DATE:20261125\nDTEND;VALUE=DATE:20261127"),
        thing("DTSTART;VALUE=DATE:20261128"),
    )

    assert spans(found) == [
        ("2026-11-24T09:00+01:00", "2026-11-24T09:30+01:00"),
        ("2026-11-25", "2026-11-26"),
        ("2026-11-28", "2026-11-28"),
    ]


async def test_recurrences_are_expanded_over_the_change_of_the_clock() -> None:
    rule = "RRULE:FREQ=DAILY\nEXDATE;TZID=Europe/Berlin:20261025T090000"
    found = await read(
        thing(f"DTSTART;TZID=Europe/Berlin:20200101T090000\nDURATION:PT1H\n{rule}"),
        start="2026-10-24",
        end="2026-10-27",
    )

    assert spans(found) == [
        ("2026-10-24T09:00+02:00", "2026-10-24T10:00+02:00"),
        ("2026-10-26T09:00+01:00", "2026-10-26T10:00+01:00"),
    ]


async def test_only_what_happens_in_the_time_is_returned() -> None:
    found = await read(
        thing("DTSTART;VALUE=DATE:20261122", "before"),
        thing("DTSTART;VALUE=DATE:20261130", "after"),
        thing("DTSTART:20261122T220000Z\nDTEND:20261122T230000Z", "ends as it begins"),
        thing("DTSTART:20261122T220000Z\nDTEND:20261122T230100Z", "reaches into it"),
        thing("DTSTART:20261129T225900Z", "begins before its end"),
    )

    assert [start for start, _ in spans(found)] == [
        "2026-11-22T23:00+01:00",
        "2026-11-29T23:59+01:00",
    ]


async def test_the_first_are_returned_and_more_is_said() -> None:
    many = thing("DTSTART:20261123T000000Z\nDURATION:PT1M\nRRULE:FREQ=HOURLY")
    early = thing("DTSTART;VALUE=DATE:20261123")

    found = await read(many, early, most=3)

    assert [start for start, _ in spans(found)] == [
        "2026-11-23",
        "2026-11-23T01:00+01:00",
        "2026-11-23T02:00+01:00",
    ]
    assert found.more


@pytest.mark.parametrize(
    "hostile",
    [
        "no calendar",
        thing("SUMMARY:without a time"),
        thing("DTSTART:20261399T000000Z"),
        thing("DTSTART:20200101T000000Z\nRRULE:FREQ=SECONDLY"),
        thing("DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"),
        thing("DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;BYSETPOS=5"),
    ],
)
async def test_an_object_that_cannot_be_read_or_takes_for_ever_spoils_no_other(
    hostile: str,
) -> None:
    async with asyncio.timeout(15):
        found = await read(hostile, thing("DTSTART:20261124T090000\nSUMMARY:Tea", "2"))

    assert [event.title for event in found.events] == ["Tea"]


async def test_what_takes_too_long_in_all_is_killed_and_told() -> None:
    slow = thing("DTSTART:20200101T000000Z\nRRULE:FREQ=SECONDLY")
    window = TimeWindow(*(datetime(2026, 11, day, tzinfo=BERLIN) for day in (1, 2)))

    with pytest.raises(ToolError, match="takes too long to read"):
        await events_of([slow] * 50, window, BERLIN, most=5, seconds=1.5)


async def test_what_is_given_up_is_counted() -> None:
    found = await read(thing("DTSTART:20200101T000000Z\nRRULE:FREQ=SECONDLY"), "no calendar")

    assert found == FoundEvents(unread=2)


async def test_long_texts_are_cut_and_nothing_is_started_for_nothing() -> None:
    found = await read(thing(f"DTSTART:20261124T090000\nSUMMARY:{'x' * 100_000}"))

    assert len(found.events[0].title) == 1_000
    assert await read() == FoundEvents()
