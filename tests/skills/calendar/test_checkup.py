"""What the doctor says about calendars."""

from bot.config.model import Config
from bot.doctor import examine
from bot.report import report
from db.settings import DatabaseSettings
from skills.calendar.checkup import checks
from skills.calendar.settings import CalendarsSettings
from tests.fakes.radicale_server import PASSWORDS, Radicale


def configured(radicale: Radicale) -> CalendarsSettings:
    alice = {"username": "alice", "password": PASSWORDS["alice"]}
    url = radicale.url("alice")
    calendars = {
        "good": {"url": url, "write": True, "people": ["discord:1"], **alice},
        "home": {"url": f"{radicale.base}/alice/", **alice},
        "shut": {"url": url, "username": "alice", "password": "wrong"},
        "off": {"url": url, "enabled": False},
    }
    return CalendarsSettings.model_validate({"calendars": calendars})


async def test_each_calendar_is_asked_whether_it_is_one(radicale: Radicale) -> None:
    remarks = await checks(Config(calendar=configured(radicale)))

    good, home, shut = remarks
    assert (good.good, good.text) == (True, "good answers; events may be added.")
    assert not home.good
    assert "no calendar is there; `calendar.calendars.home.url`" in home.text
    assert not shut.good
    assert "its account is refused" in shut.text
    assert radicale.objects("alice") == []


async def test_the_doctor_tells_it(radicale: Radicale, sqlite_url: str) -> None:
    config = Config(calendar=configured(radicale), database=DatabaseSettings(url=sqlite_url))

    found = [each for each in await examine(config) if each.subject == "Calendar"]

    assert [each.good for each in found] == [True, False, False]


def test_check_says_whose_they_are(radicale: Radicale) -> None:
    told = report(Config(calendar=configured(radicale)), None, {})

    assert "Calendars      good: of 1 user, events may be added" in told
    assert "home: everyone's, read only" in told
    assert "off:" not in told.partition("Calendars")[2].partition("MCP servers")[0]
    assert "canary" not in told
