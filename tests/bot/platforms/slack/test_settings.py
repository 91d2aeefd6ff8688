"""What is wrong with the settings is said in a sentence that names the key."""

import base64

import pytest
from pydantic import ValidationError

from bot.platforms.slack.settings import SlackSettings

BOT, APP = "xoxb-1-secret", "xapp-1-secret"
KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
MANY: dict[str, object] = {
    "mode": "http",
    "signing_secret": "secret",
    "client_id": "1.2",
    "client_secret": "secret",
    "encryption_key": KEY,
    "public_url": "https://bot.example",
}


def settings(**given: object) -> SlackSettings:
    return SlackSettings.model_validate(given)


def test_nothing_is_needed_where_slack_is_not_wanted() -> None:
    assert not settings().configured
    assert not settings(bot_token="").configured
    assert not settings(app_token=APP, signing_secret="secret").configured


def test_one_workspace_needs_two_tokens() -> None:
    found = settings(bot_token=BOT, app_token=APP)

    assert found.configured
    assert not found.many_workspaces
    assert found.mode == "socket"


def test_many_workspaces_need_an_app_and_a_key() -> None:
    found = settings(**MANY)

    assert found.configured
    assert found.many_workspaces


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bot_token": BOT}, "`slack.mode: socket` needs `slack.app_token`"),
        ({"bot_token": BOT, "app_token": " "}, "needs `slack.app_token`"),
        ({"bot_token": BOT, "mode": "http"}, "`slack.mode: http` needs `slack.signing_secret`"),
        (
            {"bot_token": BOT, "mode": "http", "signing_secret": " "},
            "needs `slack.signing_secret`",
        ),
        ({"bot_token": APP, "app_token": APP}, "must begin with xoxb-"),
        ({"bot_token": BOT, "app_token": BOT}, "must begin with xapp-"),
        (MANY | {"bot_token": BOT}, "leave one of them out"),
        (MANY | {"mode": "socket", "app_token": APP}, "needs `slack.mode: http`"),
        (MANY | {"client_secret": None}, "needs `slack.client_secret` as well"),
        (MANY | {"encryption_key": None, "public_url": None}, "encryption_key` and `slack.public"),
        (MANY | {"encryption_key": "short"}, "32 random bytes"),
        (MANY | {"users": ["U012AB3CD"]}, "`slack.users` must say in which workspace"),
        (
            {"bot_token": BOT, "app_token": APP, "command": "/x", "subagents_command": "/x"},
            "must differ",
        ),
        ({"edit_seconds": 2.4}, "greater than or equal to 2.5"),
        ({"channels": ["general"]}, "should match pattern"),
        ({"workspaces": ["acme"]}, "should match pattern"),
        ({"users": ["@alice"]}, "should match pattern"),
        ({"command": "retinue"}, "should match pattern"),
        ({"api_url": "https://slack.com/api"}, "should match pattern"),
        ({"tokens": BOT}, "Extra inputs"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**given)

    assert said in str(caught.value)


def test_secrets_are_not_shown() -> None:
    shown = repr(settings(bot_token=BOT, app_token=APP, signing_secret="secret"))

    assert "secret" not in shown.replace("signing_secret", "").replace("client_secret", "")


@pytest.mark.parametrize("users", [["U012AB3CD"], ["T012AB3CD:U012AB3CD"], ["E012AB3CD:W012AB3CD"]])
def test_people_are_named_with_or_without_their_workspace(users: list[str]) -> None:
    assert settings(bot_token=BOT, app_token=APP, users=users).users == tuple(users)


def test_installing_begins_at_the_same_slack() -> None:
    assert settings().authorize_url == "https://slack.com/oauth/v2/authorize"
    assert (
        settings(api_url="http://127.0.0.1:1/api/").authorize_url
        == "http://127.0.0.1:1/oauth/v2/authorize"
    )
