"""Speaking CalDAV: with a real server, and with some that nobody should trust."""

import logging
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from bot.errors import ToolError
from bot.net.addresses import AnyAddress
from bot.net.guard import open_guarded
from skills.calendar.dav import RemoteCalendar
from skills.calendar.settings import CalendarSettings
from skills.calendar.times import TimeWindow
from tests.fakes.hostile_caldav import Manner, hostile_caldav
from tests.fakes.radicale_server import PASSWORDS, Radicale

WINDOW = TimeWindow(datetime(2026, 11, 23, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC))
ICS = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:{uid}\r\n"
    "DTSTAMP:20260101T000000Z\r\nDTSTART:20261124T090000Z\r\nSUMMARY:{title}\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)


def remote(
    url: str, *, person: str = "alice", password: str | None = None, seconds: float = 5
) -> RemoteCalendar:
    settings = CalendarSettings(
        url=url, username=person, password=SecretStr(password or PASSWORDS[person])
    )
    return RemoteCalendar("team", settings, lambda: open_guarded(AnyAddress()), seconds=seconds)


async def test_what_was_added_is_found_in_its_time_and_in_no_other(radicale: Radicale) -> None:
    calendar = remote(radicale.url("alice"))
    later = TimeWindow(WINDOW.end, WINDOW.end.replace(month=12))

    new = await calendar.add("uid-1", ICS.format(uid="uid-1", title="Tea"))

    assert new
    assert ["SUMMARY:Tea" in text for text in await calendar.between(WINDOW)] == [True]
    assert await calendar.between(later) == []


async def test_an_event_that_is_there_is_not_replaced(radicale: Radicale) -> None:
    calendar = remote(radicale.url("alice"))
    await calendar.add("uid-1", ICS.format(uid="uid-1", title="Tea"))

    again = await calendar.add("uid-1", ICS.format(uid="uid-1", title="Coffee"))

    assert not again
    assert ["Tea" in text for text in radicale.objects("alice")] == [True]


async def test_a_calendar_is_told_from_what_is_none(radicale: Radicale) -> None:
    assert await remote(radicale.url("alice")).is_calendar()
    assert not await remote(f"{radicale.base}/alice/").is_calendar()


async def test_a_refused_account_and_a_missing_calendar_are_told(radicale: Radicale) -> None:
    refused = remote(radicale.url("alice"), password="wrong")
    missing = remote(radicale.url("alice", "nothing"))
    anothers = remote(radicale.url("bob"))

    with pytest.raises(ToolError, match="does not let the bot in: its account is refused"):
        await refused.between(WINDOW)
    with pytest.raises(ToolError, match=r"is not where it should be.*calendar\.calendars\.team"):
        await missing.between(WINDOW)
    with pytest.raises(ToolError, match="does not let the bot do this"):
        await anothers.between(WINDOW)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_takes_the_password_elsewhere(status: int) -> None:
    async with hostile_caldav() as elsewhere, hostile_caldav("elsewhere") as server:
        server.status, server.elsewhere = status, f"{elsewhere.base}/calendars/"
        calendar = remote(f"{server.base}/team/")

        for asked in (
            calendar.between(WINDOW),
            calendar.add("u", "x"),
            calendar.is_calendar(),
        ):
            with pytest.raises(ToolError, match="sends us elsewhere"):
                await asked

        assert len(server.asked) == 3
        assert elsewhere.asked == []


async def test_no_address_that_a_server_names_is_asked() -> None:
    async with hostile_caldav() as elsewhere, hostile_caldav() as server:
        server.elsewhere = f"{elsewhere.base}/calendars/x.ics"

        found = await remote(f"{server.base}/team/").between(WINDOW)

        assert ["SUMMARY:Tea" in text for text in found] == [True]
        assert [path for _, path, _ in server.asked] == ["/team/"]
        assert elsewhere.asked == []


async def test_only_this_calendar_is_ever_asked() -> None:
    async with hostile_caldav() as elsewhere, hostile_caldav() as server:
        calendar = remote(f"{server.base}/team/")

        for url in (f"{elsewhere.base}/team/", f"{server.base}/other/"):
            with pytest.raises(ToolError, match="not in it"):
                await calendar.propfind(url)

        assert server.asked == elsewhere.asked == []


async def test_the_password_goes_with_every_request_and_into_no_log_or_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with hostile_caldav() as server:
        calendar = remote(f"{server.base}/team/")
        await calendar.between(WINDOW)
        server.manner = "drop"
        with pytest.raises(ToolError) as told:
            await calendar.between(WINDOW)

        basic = [known for _, _, known in server.asked]

    assert all(known.startswith("Basic ") for known in basic)
    assert PASSWORDS["alice"] not in caplog.text
    assert basic[0] not in caplog.text
    assert server.base not in str(told.value)


@pytest.mark.parametrize(
    ("manner", "complaint"),
    [
        ("slow", "did not answer within 0.5 seconds"),
        ("drop", "cannot be reached now"),
        ("bomb", "gives no usable answer"),
        ("big", "more to say than is read"),
        ("no xml", "gives no usable answer"),
        ("odd xml", "gives no usable answer"),
        ("busy", "too busy"),
    ],
)
async def test_a_server_that_misbehaves_is_told_in_a_sentence(
    manner: Manner, complaint: str
) -> None:
    async with hostile_caldav(manner) as server:
        seconds = 0.5 if manner == "slow" else 10

        with pytest.raises(ToolError, match=complaint):
            await remote(f"{server.base}/team/", seconds=seconds).between(WINDOW)


async def test_what_a_server_says_instead_of_xml_comes_into_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with hostile_caldav("no xml") as server:
        with pytest.raises(ToolError):
            await remote(f"{server.base}/team/").between(WINDOW)

    assert "It works!" not in caplog.text


@pytest.mark.parametrize("manner", ["entities", "comments"])
async def test_tricks_in_xml_bring_nothing(manner: Manner) -> None:
    async with hostile_caldav(manner) as server:
        try:
            found = await remote(f"{server.base}/team/").between(WINDOW)
        except ToolError:
            found = []

    assert sum(map(len, found)) < 1_000


async def test_a_server_that_is_away_is_told_and_that_an_event_may_have_been_added() -> None:
    async with hostile_caldav("drop") as server:
        calendar = remote(f"{server.base}/team/")
        with pytest.raises(
            ToolError, match=r"cannot be reached now\. It may have been added: look"
        ):
            await calendar.add("u", "x")

    with pytest.raises(ToolError, match=r"cannot be reached now\. Try again later"):
        await calendar.between(WINDOW)
    assert [method for method, _, _ in server.asked] == ["PUT"]
