"""The manifests (deploy/slack-manifest*.yaml) ask for what the code needs, in Slack's terms."""

import re
from pathlib import Path

import pytest
import yaml

from bot.conversations.command_lines import CommandGroup
from bot.conversations.command_table import COMMANDS
from bot.platforms.slack import oauth, web
from bot.platforms.slack.oauth import BOT_SCOPES
from bot.platforms.slack.settings import SlackSettings
from bot.values import Json
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.web import scopes_for

ROOT = Path(__file__).parents[4]
ADDRESS = "https://your-address.example"
TEXTS = {
    http: (ROOT / "deploy" / name).read_text("utf-8")
    for http, name in ((False, "slack-manifest.yaml"), (True, "slack-manifest-http.yaml"))
}
#: Messages, mentions, the Home tab, Slack's own Stop button, and what takes the bot away.
BOT_EVENTS = (
    "agent_session_stopped",
    "app_home_opened",
    "app_mention",
    "app_uninstalled",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "tokens_revoked",
)
#: Called through the client's own function for uploads.
UPLOADS = {"files.getUploadURLExternal", "files.completeUploadExternal"}


def manifest(*, http: bool = False) -> Json:
    """Return the manifest for Socket Mode, or the one for HTTP."""
    read: Json = yaml.safe_load(TEXTS[http])
    return read


def without_addresses(part: object) -> object:
    if isinstance(part, dict):
        kept = {name: without_addresses(value) for name, value in part.items()}
        return {name: value for name, value in kept.items() if ADDRESS not in str(value)}
    return [without_addresses(each) for each in part] if isinstance(part, list) else part


def test_it_asks_for_just_the_scopes_and_events_that_the_code_names() -> None:
    found = manifest()

    assert tuple(found["oauth_config"]["scopes"]["bot"]) == BOT_SCOPES
    assert tuple(found["settings"]["event_subscriptions"]["bot_events"]) == BOT_EVENTS


async def test_every_method_that_the_code_calls_is_allowed_by_its_scopes(
    slack: FakeSlack,
) -> None:
    known = {name.replace(".", "_"): name for name in slack.api.methods}
    code = "".join(path.read_text("utf-8") for path in (ROOT / "bot/platforms/slack").glob("*.py"))
    names = re.findall(r"[cC]lient\.(\w+)\b", code)
    called = {known[name] for name in names if name in known}

    needs = {name: scopes_for(name) for name in called | UPLOADS}

    assert {"auth.test", "chat.postMessage", "conversations.open", "files.info"} <= called
    assert not [
        name for name, any_of in needs.items() if any_of and not set(any_of) & {*BOT_SCOPES}
    ]


def test_every_event_comes_with_the_scope_that_slack_wants_for_it() -> None:
    needed = {
        "app_mention": "app_mentions:read",
        "message.channels": "channels:history",
        "message.groups": "groups:history",
        "message.im": "im:history",
        "message.mpim": "mpim:history",
    }

    assert {scope for event, scope in needed.items() if event in BOT_EVENTS} <= set(BOT_SCOPES)
    histories = {scope for scope in BOT_SCOPES if scope.endswith(":history")}
    assert histories == {scope for scope in needed.values() if scope.endswith(":history")}


def test_it_has_the_commands_that_the_bot_listens_to() -> None:
    commands = {each["command"]: each for each in manifest()["features"]["slash_commands"]}

    settings = SlackSettings()
    assert set(commands) == {settings.command, settings.subagents_command}
    assert not any(each["should_escape"] for each in commands.values())
    groups = {settings.command: CommandGroup.CHAT, settings.subagents_command: CommandGroup.RUNS}
    for name, group in groups.items():
        hinted = commands[name]["usage_hint"].split(" | ")
        assert not [word for word in hinted if COMMANDS.get(group, word) is None]


def test_everything_is_as_long_as_slack_allows() -> None:
    shown, features = manifest()["display_information"], manifest()["features"]

    assert len(shown["name"]) <= 35
    assert len(shown["description"]) <= 140
    assert 175 <= len(shown["long_description"]) <= 4_000
    assert len(features["bot_user"]["display_name"]) <= 80
    assert len(features["agent_view"]["agent_description"]) <= 300
    assert 3 <= len(features["agent_view"]["suggested_prompts"]) <= 4
    for command in features["slash_commands"]:
        assert len(command["command"]) <= 32
        assert len(command["description"]) <= 2_000
        assert len(command["usage_hint"]) <= 1_000


def test_it_is_for_socket_mode_and_names_no_address() -> None:
    found = manifest()

    settings = found["settings"]
    assert settings["socket_mode_enabled"] is True
    assert settings["interactivity"] == {"is_enabled": True}
    assert settings["org_deploy_enabled"] is settings["token_rotation_enabled"] is False
    assert "://" not in str(found)


def test_the_one_for_http_names_the_paths_at_which_the_bot_listens() -> None:
    found = manifest(http=True)

    features, settings = found["features"], found["settings"]
    events = [each["url"] for each in features["slash_commands"]]
    events += [settings[part]["request_url"] for part in ("event_subscriptions", "interactivity")]
    assert events == [ADDRESS + web.EVENTS_PATH] * 4
    assert found["oauth_config"]["redirect_urls"] == [ADDRESS + oauth.REDIRECT_PATH]
    assert settings["socket_mode_enabled"] is False
    assert str(found).count(ADDRESS) == 5
    assert "all five lines" in TEXTS[True]


def test_the_two_are_the_same_app_but_for_addresses_and_the_mode() -> None:
    socket, http = manifest(), without_addresses(manifest(http=True))
    assert isinstance(http, dict)

    assert http["settings"].pop("socket_mode_enabled") is not socket["settings"].pop(
        "socket_mode_enabled"
    )
    assert http == socket


@pytest.mark.parametrize("http", [False, True])
async def test_slack_takes_it(slack: FakeSlack, *, http: bool) -> None:
    slack.use_manifest(manifest(http=http))

    assert slack.granted_scopes == list(BOT_SCOPES)
    assert slack.hands.interactive
    assert slack.agents.agent
    assert slack.surfaces.home_enabled
