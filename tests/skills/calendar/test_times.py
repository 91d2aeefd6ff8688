"""From what a model wrote to moments."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bot.errors import ToolError
from skills.calendar import times

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def window(begin: str | None, end: str | None) -> tuple[str, str]:
    found = times.window(begin, end, BERLIN, NOW)
    return found.start.isoformat(), found.end.isoformat()


def test_a_week_from_now_is_meant_where_nothing_is_said() -> None:
    assert window(None, None) == ("2026-11-21T10:00:00+01:00", "2026-11-28T10:00:00+01:00")


def test_a_day_is_whole_at_both_ends() -> None:
    assert window("2026-12-01", "2026-12-01") == (
        "2026-12-01T00:00:00+01:00",
        "2026-12-02T00:00:00+01:00",
    )


def test_a_week_over_the_change_of_the_clock_ends_at_the_same_time_of_day() -> None:
    assert window("2026-10-20 09:00", None) == (
        "2026-10-20T09:00:00+02:00",
        "2026-10-27T09:00:00+01:00",
    )


@pytest.mark.parametrize(
    ("begin", "end", "complaint"),
    [
        ("tomorrow", None, "`from` is no time that I understand"),
        (None, "25:00", "`to` is no time that I understand"),
        ("0001-01-01", None, "`from` is no time"),
        ("9999-12-31T23:59-23:59", None, "`from` is no time"),
        ("2026-12-02", "2026-12-01", "`to` is not after `from`"),
        ("2026-12-02 10:00", "2026-12-02 10:00", "`to` is not after `from`"),
        ("2026-01-01", "2027-01-02", "more than 366 days"),
    ],
)
def test_what_makes_no_sense_is_told(begin: str | None, end: str | None, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        window(begin, end)


def test_the_longest_time_is_a_leap_year() -> None:
    assert window("2028-01-01", "2028-12-31")[1] == "2029-01-01T00:00:00+01:00"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        # The clock goes from 2:00 to 3:00.
        ("2027-03-28 02:30", "2027-03-28T03:30:00+02:00"),
        # The clock shows this twice: the first is meant, unless an offset says otherwise.
        ("2026-10-25 02:30", "2026-10-25T02:30:00+02:00"),
        ("2026-10-25 02:30+01:00", "2026-10-25T02:30:00+01:00"),
        ("2026-11-22T09:00Z", "2026-11-22T10:00:00+01:00"),
    ],
)
def test_the_change_of_the_clock_leaves_no_doubt(said: str, meant: str) -> None:
    found = times.beginning(times.read(said, "start"), BERLIN)

    assert found.isoformat() == meant
