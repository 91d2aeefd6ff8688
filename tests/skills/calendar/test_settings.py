"""Which calendars can be configured at all."""

import sys

import pytest
from pydantic import ValidationError

from bot.config.model import Config
from bot.errors import ConfigError
from bot.values import Json
from skills.calendar.settings import CalendarsSettings

URL = "https://host/calendars/bot/team/"


def configured(name: str = "team", **keys: object) -> CalendarsSettings:
    return CalendarsSettings.model_validate({"calendars": {name: {"url": URL, **keys}}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://host/team/"},
        {"url": "https://host"},
        {"url": "https://bot:word@host/team/"},
        {"url": "https://host/team/?key=word"},
        {"url": "https://host/a team/"},
        {"url": "https://höst/team/"},
        {"username": "bot"},
        {"password": "word"},
        {"username": "a:b", "password": "word"},
        {"people": ["Alice"]},
        {"people": ["slack:T1/U2"]},
        {"name": "My Team"},
        {"name": "x" * 31},
    ],
)
def test_a_calendar_that_could_not_work_is_refused(wrong: Json) -> None:
    with pytest.raises(ValidationError):
        configured(**wrong)


def test_it_is_for_everyone_and_read_only_unless_it_says_otherwise() -> None:
    calendar = configured().calendars["team"]

    assert (calendar.people, calendar.write) == (None, False)


def test_people_are_named_as_elsewhere_and_the_password_is_kept_secret() -> None:
    people = ("discord:1001", "slack:T1:U2", "terminal:alice")
    settings = configured(people=people, username="bot", password="canary-word")
    config = Config(calendar=settings)

    assert settings.calendars["team"].people == people
    assert "canary-word" in config.secrets
    assert "canary-word" not in repr(config)


def test_calendars_without_their_libraries_are_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "caldav", None)

    with pytest.raises(ConfigError, match=r"pip install 'retinue\[calendar\]'"):
        configured().check_installed()
    configured(enabled=False).check_installed()
    CalendarsSettings().check_installed()
