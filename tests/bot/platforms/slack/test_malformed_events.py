"""Malformed envelopes, events, commands and clicks from Slack end nothing: the next is heard."""

import json
import logging
from urllib.parse import urlencode

import pytest

from bot.platforms.slack.bolt import bolt_app
from bot.platforms.slack.clients import open_session
from bot.platforms.slack.web import EVENTS_PATH
from bot.platforms.slack.web import listening as listening_over_http
from bot.values import Json
from tests.bot.platforms.slack.hearing import Town, counter, listening, settings_for
from tests.bot.platforms.slack.posting import FORM
from tests.fakes.slack.server import FakeSlack

ODD: list[object] = [None, 7, "x", "9" * 5_000, [], [None], {}, {"id": None}, True, -1.5]


def whole_event(town: Town) -> Json:
    """Return an event as Slack sends it."""
    return {
        "type": "event_callback",
        "team_id": town.fake.team.id,
        "api_app_id": "A1",
        "event_id": "Ev1",
        "event_time": 1,
        "authorizations": [{"team_id": town.fake.team.id, "user_id": "UB", "is_bot": True}],
        "event": {
            "type": "app_mention",
            "channel": town.general.id,
            "channel_type": "channel",
            "user": town.alice.id,
            "text": "hello",
            "ts": "1.2",
            "thread_ts": "1.1",
            "files": [],
            "blocks": [],
        },
    }


def whole_click(town: Town) -> Json:
    """Return a click as Slack sends it."""
    return {
        "type": "block_actions",
        "trigger_id": "t",
        "team": {"id": town.fake.team.id},
        "user": {"id": town.alice.id, "team_id": town.fake.team.id},
        "channel": {"id": town.general.id},
        "container": {"type": "message", "channel_id": town.general.id, "message_ts": "1.2"},
        "message": {"ts": "1.2", "text": "x"},
        "actions": [{"type": "button", "action_id": "run:stop", "block_id": "b", "value": "7"}],
    }


def whole_form(town: Town) -> Json:
    """Return a form as Slack sends it."""
    return {
        "type": "view_submission",
        "trigger_id": "t",
        "team": {"id": town.fake.team.id},
        "user": {"id": town.alice.id, "team_id": town.fake.team.id},
        "view": {"callback_id": "send", "private_metadata": "{", "state": {"values": {}}},
    }


def malformed(whole: Json) -> list[object]:
    """Return documents with one field missing or of another type, in it or one level below."""
    found: list[object] = [{key: whole[key] for key in whole if key != gone} for gone in whole]
    found += [{**whole, key: value} for key in whole for value in ODD]
    for key, inner in whole.items():
        if isinstance(inner, dict):
            found += [{**whole, key: below} for below in malformed(inner)]
    return found


def malformed_payloads(town: Town) -> list[tuple[str, object]]:
    """Return (kind of envelope, payload)."""
    kinds = {"message", "app_home_opened", "agent_session_stopped", "app_uninstalled"}
    event = whole_event(town)
    events = [event, *({**event, "event": {**event["event"], "type": kind}} for kind in kinds)]
    return [
        *(("events_api", each) for whole in events for each in malformed(whole)),
        *(("interactive", each) for each in malformed(whole_click(town))),
        *(("interactive", each) for each in malformed(whole_form(town))),
        *(("slash_commands", each) for each in ODD),
        *((kind, each) for kind in ("events_api", "unheard_of") for each in ODD),
        ("events_api", {**event, "event": {**event["event"], "text": "x" * 2_000_000}}),
    ]


TEXTS = [
    "this is not JSON",
    "{",
    "null",
    "[]",
    '"text"',
    '{"type": ' + "[" * 100_000,
    "{}",
    '{"type": null, "envelope_id": null, "payload": null}',
    '{"type": [], "envelope_id": {}, "payload": []}',
    '{"type": "events_api", "envelope_id": "1"}',
    '{"type": "hello", "num_connections": "x"}',
    '{"type": "warning"}',
]


async def still_hears(town: Town, text: str) -> None:
    await town.fake.say(town.alice, town.general, text, mention=True)
    await town.inbound.until(
        lambda: any(each.text == text for each in town.inbound.heard), f"{text} to be heard"
    )


async def test_malformed_envelopes_end_no_socket(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with listening(slack) as here:
        (socket,) = slack.sockets.open
        for text in TEXTS:
            await socket.link.send_str(text)
        for number, (kind, payload) in enumerate(malformed_payloads(here)):
            envelope = {"type": kind, "envelope_id": f"e{number}", "payload": payload}
            await socket.link.send_str(json.dumps(envelope))
        await still_hears(here, "still there?")

    assert slack.sockets.connections == 1


async def test_malformed_requests_end_no_web_server(slack: FakeSlack) -> None:
    async with counter(slack) as at, open_session() as session:
        made = settings_for(slack, mode="http", port=0)
        app = bolt_app(at.receiver, at.listener, made, session)
        secret = slack.signing_secret
        async with listening_over_http(app, made, secret=lambda: secret) as url:
            slack.webhook.url = f"{url}{EVENTS_PATH}"
            for text in TEXTS:
                await slack.webhook.post(text.encode())
            for kind, payload in malformed_payloads(at)[:-1]:
                await slack.webhook.post(*_request(kind, payload))
            slack.deliveries.transport = slack.webhook
            await still_hears(at, "still there?")

    assert {each.status for each in slack.webhook.responses} <= {200, 400, 404, 503}


def _request(kind: str, payload: object) -> tuple[bytes, str]:
    if kind == "interactive":
        return urlencode({"payload": json.dumps(payload)}).encode(), FORM
    if kind == "slash_commands":
        return urlencode(
            payload if isinstance(payload, dict) else {"command": payload}
        ).encode(), FORM
    return json.dumps(payload).encode(), "application/json"
