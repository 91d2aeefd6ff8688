"""When schedules fire: said in many ways, in every zone, across every change of the clocks."""

from datetime import UTC, datetime, time, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import BadRequestError
from skills.schedules.times import cron_of, fires, newest_due, next_fire, once, spelled, zone_named

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
FIVE = timedelta(minutes=5)

#: With half hours, whole days, midnight, both halves of the world, and none at all.
ZONES = [
    "America/Havana",
    "America/New_York",
    "America/Santiago",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
    "UTC",
]
zones = st.sampled_from(ZONES).map(ZoneInfo)
moments = st.integers(0, 20 * 365 * 86_400).map(
    lambda seconds: datetime(2009, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)


def shown(said: str) -> list[str]:
    """Return how clocks in Berlin show the next fires after the evening before a change."""
    day, cron = said.split(" ", 1)
    before = datetime.fromisoformat(f"{day} 22:00+00:00") - timedelta(days=1)
    found = islice(fires(cron, BERLIN, before), 3)
    return [f"{moment.astimezone(BERLIN):%d %H:%M %Z}" for moment in found]


# -- once ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("in 2 hours", "2026-11-21 11:00"),
        ("in 1 h 30 min", "2026-11-21 10:30"),
        ("In an hour and 5 minutes", "2026-11-21 10:05"),
        ("in  2 days, 3 hours", "2026-11-23 12:00"),
        ("in 1h30m", "2026-11-21 10:30"),
        ("in 1.5 hours", "2026-11-21 10:30"),
        ("in one week", "2026-11-28 09:00"),
        ("18:30", "2026-11-21 17:30"),
        ("9:59", "2026-11-22 08:59"),
        ("2026-11-22 09:00", "2026-11-22 08:00"),
        ("2026-11-22T09:00+00:00", "2026-11-22 09:00"),
        ("2026-11-22T09:00Z", "2026-11-22 09:00"),
    ],
)
def test_a_moment_may_be_said_in_many_ways(said: str, meant: str) -> None:
    assert once(said, BERLIN, NOW) == datetime.fromisoformat(f"{meant}+00:00")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("tomorrow", "no time that I understand. Write"),
        ("2026-11-22", "no time that I understand"),
        ("25:00", "no time that I understand"),
        ("in andd", "no time that I understand"),
        ("in 5", "no time that I understand"),
        ("", "no time that I understand"),
        ("0001-01-01 00:00", "no time that I understand"),
        ("2026-11-21 09:00", r"is over: it is Saturday 21 November 2026, 10:00 \(Europe/Berlin\)"),
        ("in 0 minutes", "is over"),
        ("9999-12-31 23:59", "more than two years ahead"),
        ("in 999999 weeks", "more than two years ahead"),
    ],
)
def test_what_is_no_moment_to_come_is_refused_with_advice(said: str, complaint: str) -> None:
    with pytest.raises(BadRequestError, match=complaint):
        once(said, BERLIN, NOW)


@given(said=st.text(max_size=40) | st.from_regex(r"in [0-9]{1,9} ?[a-z]{0,7}", fullmatch=True))
def test_whatever_is_said_is_a_later_moment_or_refused(said: str) -> None:
    try:
        moment = once(said, BERLIN, NOW)
    except BadRequestError:
        return
    assert moment > NOW


def test_a_time_in_a_gap_means_its_end_and_one_that_comes_twice_the_first() -> None:
    in_a_gap = once("2027-03-28 02:30", BERLIN, NOW)
    twice = once("2027-10-31 02:30", BERLIN, NOW)

    assert spelled(in_a_gap, BERLIN) == "Sunday 28 March 2027, 03:00 (Europe/Berlin)"
    assert twice == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "Europe", "", "\0", "x" * 5000])
def test_a_zone_that_there_is_not_is_refused(name: str) -> None:
    with pytest.raises(BadRequestError, match=r"There is no time zone .* use a name like"):
        zone_named(name)


# -- again and again -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("*/4 * * * *", "fires after 4 min at times; 5 min is the least"),
        ("0,3 12 1 1 *", "after 3 min"),
        ("58 23 * * *|2 0 * * *", "has five fields"),
        ("58,2 0,23 * * *", "after 4 min"),
        ("0 25 * * *", "Bad hour"),
        ("0 0 30 2 *", "Bad day-of-month"),
        ("0 0 */31 2 MON#5", "never comes"),
        ("0 9 * * 1-5 30", "has five fields"),
        ("@daily", "has five fields"),
        ("", "has five fields"),
        ("1," * 60 + "1 * * * *", "has five fields"),
    ],
)
def test_what_is_no_rhythm_is_refused_with_advice(said: str, complaint: str) -> None:
    with pytest.raises(BadRequestError, match=complaint):
        cron_of(said, least=FIVE)


def test_a_rhythm_is_kept_with_single_spaces() -> None:
    assert cron_of(" 0   9 * * 1-5\n", least=FIVE) == "0 9 * * 1-5"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        # The clocks go from 2:00 to 3:00.
        ("2026-03-29 30 2 * * *", ["29 03:00 CEST", "30 02:30 CEST", "31 02:30 CEST"]),
        ("2026-03-29 */30 2 * * *", ["29 03:00 CEST", "30 02:00 CEST", "30 02:30 CEST"]),
        ("2026-03-29 0 2,3 * * *", ["29 03:00 CEST", "30 02:00 CEST", "30 03:00 CEST"]),
        ("2026-03-29 0 */2 * * *", ["29 00:00 CET", "29 03:00 CEST", "29 04:00 CEST"]),
        ("2026-03-29 30 * * * *", ["28 23:30 CET", "29 00:30 CET", "29 01:30 CET"]),
        # The clocks go from 3:00 back to 2:00.
        ("2026-10-25 30 2 * * *", ["25 02:30 CEST", "26 02:30 CET", "27 02:30 CET"]),
        ("2026-10-25 */30 2 * * *", ["25 02:00 CEST", "25 02:30 CEST", "26 02:00 CET"]),
        ("2026-10-25 0 * * * *", ["25 01:00 CEST", "25 02:00 CEST", "25 02:00 CET"]),
    ],
)
def test_a_change_of_the_clocks_neither_loses_nor_doubles_a_fire(
    said: str, expected: list[str]
) -> None:
    assert shown(said) == expected


@given(
    zone=zones,
    after=moments,
    minutes=st.sets(st.integers(0, 59), min_size=1, max_size=3),
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=3),
)
def test_every_time_on_the_wall_fires_once_a_day_whatever_the_clocks_do(
    zone: ZoneInfo, after: datetime, minutes: set[int], hours: set[int]
) -> None:
    cron = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
    until = after + timedelta(days=370)

    found = list(takewhile(lambda moment: moment <= until, fires(cron, zone, after)))

    first = after.astimezone(zone).date() - timedelta(days=2)
    wanted = {
        moment_of(datetime.combine(first + timedelta(days=day), time(hour, minute)), zone)
        for day in range(375)
        for hour in hours
        for minute in minutes
    }
    assert found == sorted(moment for moment in wanted if after < moment <= until)


def moment_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return when a clock on the wall shows this first; the end of the gap if it never does."""
    while True:
        moment = wall.replace(tzinfo=zone).astimezone(UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == wall:
            return moment
        wall += timedelta(minutes=1)


@given(zone=zones, after=moments, minute=st.integers(0, 59))
def test_a_fire_of_every_hour_comes_every_hour(
    zone: ZoneInfo, after: datetime, minute: int
) -> None:
    found = list(islice(fires(f"{minute} * * * *", zone, after), 50))

    # Half an hour: where the clocks are put by that much.
    apart = {(b - a).total_seconds() for a, b in pairwise([after, *found])}
    assert max(apart) <= 1.5 * 3600
    assert min((b - a).total_seconds() for a, b in pairwise(found)) >= 1800


@given(zone=zones, after=moments, steps=st.integers(1, 30))
def test_the_next_fire_does_not_depend_on_when_one_asks(
    zone: ZoneInfo, after: datetime, steps: int
) -> None:
    cron = "15,45 1,2 * * *"
    walked = after
    for _ in range(steps):
        following = next_fire(cron, zone, walked)
        assert following is not None
        walked = following

    assert walked == list(islice(fires(cron, zone, after), steps))[-1]


# -- late ----------------------------------------------------------------------------------------


def test_of_the_fires_that_were_missed_the_newest_counts() -> None:
    due = datetime(2026, 11, 18, 8, tzinfo=UTC)

    assert newest_due("0 9 * * *", BERLIN, due, NOW) == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert newest_due("0 9 * * *", BERLIN, due, due) == due
    assert newest_due("*/5 * * * *", BERLIN, due - timedelta(days=900), NOW) == NOW


def test_where_all_are_too_late_the_first_missed_counts() -> None:
    due = datetime(2026, 10, 2, 7, tzinfo=UTC)

    assert newest_due("0 9 2 * *", BERLIN, due, NOW) == due


@given(zone=zones, due=moments, later=st.integers(0, 5 * 86_400))
def test_a_missed_fire_is_never_ahead_and_never_before_the_first(
    zone: ZoneInfo, due: datetime, later: int
) -> None:
    cron = "*/20 * * * *"
    first = next_fire(cron, zone, due)
    assert first is not None
    now = first + timedelta(seconds=later)

    newest = newest_due(cron, zone, first, now)

    assert first <= newest <= now
    following = next_fire(cron, zone, now)
    assert following is not None
    assert following > newest
