"""The guide to Slack (docs/slack.md) says what is so."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from bot import web_server
from bot.config.loading import FROM_ENVIRONMENT, load
from bot.platforms.slack import (
    clients,
    oauth,
    platform,
    sockets,
    web,
)
from bot.platforms.slack.oauth import SCOPES
from bot.platforms.slack.settings import SlackSettings
from tests.fakes.slack.webhook import sign

ROOT = Path(__file__).parents[4]
GUIDE = (ROOT / "docs" / "slack.md").read_text("utf-8")
VARIABLES: Mapping[str, str] = {
    "SLACK_BOT_TOKEN": "xoxb-a-token",
    "SLACK_APP_TOKEN": "xapp-a-token",
    "SLACK_SIGNING_SECRET": "the-secret",
}


def test_it_lists_just_the_scopes_that_the_manifest_asks_for() -> None:
    listed = re.findall(r"^\| `([a-z_]+:[a-z.]+|commands)` \| (to [^|]+) \|$", GUIDE, re.MULTILINE)

    assert listed == list(SCOPES.items())


def test_its_examples_are_right(tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)

    assert len(examples) == 2
    for text in examples:
        file = tmp_path / "config.yaml"
        file.write_text(text, "utf-8")
        assert load(file, VARIABLES).section(SlackSettings) != load(None, VARIABLES).section(
            SlackSettings
        )


def test_missed_messages_are_read_at_the_pace_that_it_tells() -> None:
    told = re.search(r"([0-9.]+) s apart since Slack allows (\d+) such requests a minute", GUIDE)

    assert told is not None
    assert float(told[1]) == platform.PAUSE_SECONDS >= 60 / int(told[2])


@pytest.mark.parametrize("key", SlackSettings.model_fields)
def test_it_speaks_of_every_setting(key: str) -> None:
    assert re.search(rf"\b{key}\b", GUIDE)


def test_it_names_every_variable_of_the_environment() -> None:
    wanted = {name for key, name in FROM_ENVIRONMENT.items() if key[0] == "slack"}

    assert wanted <= set(re.findall(r"\bSLACK_[A-Z_]+\b", GUIDE))


def test_the_command_for_a_key_makes_one_that_is_taken() -> None:
    command = re.search(r'`python -c "([^"]+)"`', GUIDE)

    assert command is not None
    with pytest.raises(ValueError, match="encryption_key") as refused:
        SlackSettings(encryption_key="too short")
    assert command[1] in str(refused.value)


@pytest.mark.parametrize(
    "path", [web.EVENTS_PATH, oauth.INSTALL_PATH, oauth.REDIRECT_PATH, web.HEALTH_PATH]
)
def test_it_names_every_path_that_the_bot_serves(path: str) -> None:
    assert f"`{path}`" in GUIDE


def test_the_limits_of_a_request_are_those_of_the_server() -> None:
    limits = web_server.WebLimits()

    assert f"{limits.body_bytes // 1024**2} MB and take {limits.body_seconds:g} s" in GUIDE
    assert web.MAX_SKEW_SECONDS == 300
    assert "not more than five\nminutes ago" in GUIDE


@pytest.mark.parametrize(
    "said",
    [
        clients.REFUSED[:31],
        clients.REMOVED[:44],
        sockets.WRONG_TOKEN[:31],
        sockets.SOCKETS_OFF[:27],
    ],
)
def test_what_it_quotes_is_what_is_said(said: str) -> None:
    assert said in GUIDE


def test_what_it_quotes_of_a_wrong_signature_is_what_is_said() -> None:
    signature = "v0=" + "0" * 64

    wrong = web.check_signature(["1"], [signature], b"", secret="one", now=1)
    right = sign("one", "1", b"")
    late = web.check_signature(["1"], [right], b"", secret="one", now=1_000)

    assert wrong is not None
    assert late is not None
    assert wrong.text.partition(":")[0] in GUIDE
    assert "the clock of this computer differs from Slack's" in late.text
    assert "the clock of this computer differs from Slack's" in GUIDE


@pytest.mark.parametrize("name", ["slack-manifest.yaml", "slack-manifest-http.yaml"])
def test_it_leads_to_both_manifests_and_the_tab_that_takes_them(name: str) -> None:
    assert f"(../deploy/{name})" in GUIDE
    assert (ROOT / "deploy" / name).exists()
    assert GUIDE.count("tab **YAML**") == 2


def test_it_begins_without_slack_and_with_the_key_of_the_model() -> None:
    start = GUIDE.partition("## 1.")[0]

    assert "make chat" in start
    assert "export ANTHROPIC_API_KEY" in start


def test_it_says_that_cards_are_public() -> None:
    assert "Cards are public" in GUIDE
