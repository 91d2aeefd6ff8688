"""What `doctor` asks Slack: every problem is named with what to click."""

import asyncio
import base64
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from bot.checks import Check
from bot.platforms.slack.checkup import look
from bot.platforms.slack.oauth import BOT_SCOPES
from bot.platforms.slack.settings import SlackSettings
from bot.values import Place
from tests.fakes.slack.server import FakeSlack

MANIFEST = Path(__file__).parents[4] / "deploy" / "slack-manifest.yaml"
KEY = base64.urlsafe_b64encode(b"k" * 32).decode()


def settings_for(slack: FakeSlack, **more: Any) -> SlackSettings:
    return SlackSettings(
        **{
            "bot_token": SecretStr(slack.bot_token),
            "app_token": SecretStr(slack.app_token),
            "api_url": slack.api_url,
            **more,
        }
    )


def for_many(slack: FakeSlack, **more: Any) -> SlackSettings:
    return SlackSettings(
        **{
            "mode": "http",
            "signing_secret": SecretStr(slack.signing_secret),
            "client_id": slack.client_id,
            "client_secret": SecretStr(slack.client_secret),
            "encryption_key": SecretStr(KEY),
            "public_url": "https://bot.example",
            "api_url": slack.api_url,
            **more,
        }
    )


def about(found: list[Check], words: str) -> Check:
    """Return the one remark with these words."""
    (remark,) = [each for each in found if words in each.text]
    return remark


async def test_a_bot_that_is_set_up_with_the_manifest_is_found_good_in_all(
    slack: FakeSlack,
) -> None:
    slack.use_manifest(yaml.safe_load(MANIFEST.read_text("utf-8")))

    found = await look(settings_for(slack, workspaces=[slack.team.id]))

    assert [remark.good for remark in found] == [True, True, None, True]
    bot, team = slack.team.bot.name, slack.team.name
    assert found[0].text == f"the token is {bot}'s, in the workspace “{team}”."
    assert found[1].text == "it was granted every scope that it needs."
    assert "Socket Mode" in found[3].text
    assert slack.sockets.connections == 0


async def test_scopes_that_are_missing_are_named_with_what_to_click(slack: FakeSlack) -> None:
    slack.granted_scopes = [each for each in BOT_SCOPES if each not in {"files:read", "im:write"}]

    remark = about(await look(settings_for(slack)), "it lacks")

    assert remark.good is False
    assert "the scopes files:read (to read attached files), im:write (" in remark.text
    assert "OAuth & Permissions" in remark.text
    assert "Add an OAuth Scope" in remark.text
    assert "Reinstall" in remark.text
    assert "chat:write" not in remark.text


@pytest.mark.parametrize(
    ("limit", "said", "good", "told"),
    [
        (1_000, 16, True, "Slack returns 16 messages of a channel at once."),
        (15, 16, None, "one history of 15 messages a minute"),
        (1_000, 15, None, "was not measured: the bot is in no channel with more than 15 messages"),
    ],
)
async def test_the_limit_of_histories_is_measured(
    slack: FakeSlack, limit: int, said: int, good: bool | None, told: str
) -> None:
    slack.world.most_history = limit
    channel = slack.add_channel("general", members=[slack.add_user("alice")])
    for number in range(said):
        await slack.say(slack.world.users[max(channel.members)], channel, f"message {number}")

    check = about(await look(settings_for(slack)), told)

    assert check.good is good


async def test_a_second_history_that_is_refused_shows_the_limit(slack: FakeSlack) -> None:
    slack.fail("conversations.history", status=429, retry_after=60)
    slack.add_channel("general", members=[slack.add_user("alice")])

    assert about(await look(settings_for(slack)), "one history of 15 messages").good is None


async def test_scopes_beyond_what_is_needed_are_no_problem(slack: FakeSlack) -> None:
    slack.granted_scopes = [*BOT_SCOPES, "channels:manage"]

    found = await look(settings_for(slack))

    assert about(found, "every scope").good


@pytest.mark.parametrize("revoked", ["", "token_revoked", "account_inactive"])
async def test_a_bot_token_that_is_refused_hides_nothing_else(
    slack: FakeSlack, revoked: str
) -> None:
    settings = settings_for(slack)
    if revoked:
        assert slack.team.grant is not None
        slack.team.grant.revoked = revoked
    else:
        settings = settings_for(slack, bot_token=SecretStr("xoxb-not-the-token"))

    refused, connection = await look(settings)

    assert refused.good is False
    assert "Slack refuses `slack.bot_token` (or SLACK_BOT_TOKEN)" in refused.text
    assert (revoked or "invalid_auth") in refused.text
    assert "OAuth & Permissions" in refused.text
    assert "not-the-token" not in refused.text
    assert connection.good


async def test_an_app_token_that_is_wrong_is_told_with_where_to_make_one(
    slack: FakeSlack,
) -> None:
    found = await look(settings_for(slack, app_token=SecretStr("xapp-not-the-token")))

    remark = about(found, "SLACK_APP_TOKEN")
    assert remark.good is False
    assert "under App-Level Tokens, with the scope connections:write" in remark.text
    assert "not-the-token" not in remark.text
    assert found[0].good


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("missing_scope", "may not open connections: make a new one"),
        ("forbidden", "switch on Socket Mode on the page Socket Mode"),
    ],
)
async def test_connections_that_slack_does_not_open_are_bad(
    slack: FakeSlack, code: str, advice: str
) -> None:
    slack.fail("apps.connections.open", error=code)

    remark = about(await look(settings_for(slack)), advice)

    assert remark.good is False


async def test_a_workspace_that_the_configuration_leaves_out_is_bad(slack: FakeSlack) -> None:
    found = await look(settings_for(slack, workspaces=["T0ELSEWHERE"]))

    remark = about(found, "`slack.workspaces`")
    assert remark.good is False
    assert f"does not name {slack.team.id}" in remark.text


async def test_a_workspace_may_be_named_by_its_organisation(slack: FakeSlack) -> None:
    branch = slack.add_team("Branch", enterprise="E0FIRM", installed=True)
    assert branch.grant is not None
    token = SecretStr(branch.grant.token)

    found = await look(settings_for(slack, bot_token=token, workspaces=["E0FIRM"]))

    assert [remark.good for remark in found] == [True, True, None, True]
    assert "in the workspace “Branch”" in found[0].text


async def test_a_token_for_an_organisation_is_told_as_such(slack: FakeSlack) -> None:
    grant = slack.world.grant(slack.add_team("Branch", enterprise="E0FIRM"), org_wide=True)
    token = SecretStr(grant.token)

    found = await look(settings_for(slack, bot_token=token, workspaces=["T0ELSEWHERE"]))

    assert "in the organisation “The organisation”" in found[0].text
    assert all(remark.good for remark in found)


async def test_with_http_it_says_what_slack_has_to_reach_and_asks_for_no_connection(
    slack: FakeSlack,
) -> None:
    secret = SecretStr("the-secret-of-signatures")
    http = {"mode": "http", "signing_secret": secret, "app_token": None, "port": 3456}

    named = await look(settings_for(slack, **http, public_url="https://bot.example/deep"))
    unnamed = await look(settings_for(slack, **http))

    address = about(named, "Slack has to reach")
    assert address.good is None
    assert "127.0.0.1:3456 as https://bot.example/deep/slack/events" in address.text
    assert "as https://your-address.example/slack/events" in about(unnamed, "has to reach").text
    assert about(named, "the signing secret is set").good is None
    assert not slack.called("apps.connections.open")
    assert "the-secret-of-signatures" not in str(named)


async def test_for_many_workspaces_it_says_where_they_install_the_bot(slack: FakeSlack) -> None:
    found = await look(for_many(slack))

    page = about(found, "from https://bot.example/slack/install")
    assert page.good
    assert not slack.called("auth.test")
    assert about(found, "Slack has to reach").good is None


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"client_id": "9.9"}, "`slack.client_id`"),
        ({"client_secret": SecretStr("not-the-secret")}, "`slack.client_secret`"),
    ],
)
async def test_an_app_that_slack_does_not_know_is_bad(
    slack: FakeSlack, more: dict[str, Any], key: str
) -> None:
    remark = about(await look(for_many(slack, **more)), "Slack refuses")

    assert remark.good is False
    assert f"Slack refuses {key}" in remark.text
    assert "page Basic Information" in remark.text
    assert "not-the-secret" not in remark.text


async def test_a_proxy_that_drops_the_scopes_is_no_fault(slack: FakeSlack) -> None:
    async def me(_: web.Request) -> web.Response:
        return web.json_response({"ok": True, "user": "retinue", "team": "Farm"})

    proxy = web.Application()
    proxy.router.add_post("/api/auth.test", me)
    async with TestServer(proxy) as server:
        found = await look(settings_for(slack, api_url=str(server.make_url("/api/"))))

    assert about(found, "does not say which scopes").good is None


@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open", "oauth.v2.access"])
async def test_slack_that_is_out_of_order_is_told_apart_from_a_wrong_token(
    slack: FakeSlack, method: str
) -> None:
    slack.fail(method, status=503, times=None)
    settings = for_many(slack) if method.startswith("oauth") else settings_for(slack)

    last = (await look(settings))[-1]

    assert last.good is False
    assert "out of order" in last.text
    assert "https://slack-status.com" in last.text


async def test_slack_that_cannot_be_reached_is_all_there_is_to_say(slack: FakeSlack) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/api/"
        (found,) = await look(settings_for(slack, api_url=nobody))

    assert found.good is False
    assert f"{nobody} cannot be reached" in found.text
    assert "`slack.api_url`" in found.text


async def test_slack_that_does_not_answer_is_left_after_a_while(slack: FakeSlack) -> None:
    answering = asyncio.Event()
    fault = slack.fail("auth.test", hold=answering)

    (found,) = await look(settings_for(slack), patience_seconds=1.5)
    answering.set()

    assert fault.hits == 1
    assert found.good is False
    assert "did not answer within 1.5 s" in found.text
    assert "`slack.api_url`" in found.text


async def test_an_admin_channel_that_cannot_be_written_is_named(slack: FakeSlack) -> None:
    slack.use_manifest(yaml.safe_load(MANIFEST.read_text("utf-8")))
    inside = slack.add_channel("ops")
    outside = slack.add_channel("elsewhere", bot=False)
    places = [Place("slack", slack.team.id, each) for each in (inside.id, outside.id, "C0GONE")]

    found = await look(settings_for(slack), admin_channels=places)

    lines = [each for each in found if "admin_channel" in each.text or "admin channel" in each.text]
    assert [each.good for each in lines] == [True, False, False]
    assert "invite it there" in lines[1].text
    assert "channel_not_found" in lines[2].text
