"""The fake Slack as the real Bolt and SDK see it, over Socket Mode and over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_bolt.adapter.asgi.async_handler import AsyncSlackRequestHandler
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import (
    AsyncAck,
    AsyncApp,
    AsyncBoltContext,
    AsyncRespond,
    AsyncSay,
    AsyncSayStream,
    AsyncSetStatus,
)
from slack_bolt.oauth.async_oauth_settings import AsyncOAuthSettings
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
    AsyncServerErrorRetryHandler,
)
from slack_sdk.http_retry.builtin_interval_calculators import FixedValueRetryIntervalCalculator
from slack_sdk.models.messages.chunk import MarkdownTextChunk, TaskUpdateChunk
from slack_sdk.oauth.installation_store.sqlalchemy import AsyncSQLAlchemyInstallationStore
from slack_sdk.oauth.state_store.sqlalchemy import AsyncSQLAlchemyOAuthStateStore
from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy.ext.asyncio import create_async_engine

from bot.values import Json
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.oauth import Consent
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.serving import serve
from tests.fakes.slack.shapes import User

#: How often a client looks whether its connection stands; after four of them it opens another.
PING_SECONDS, OFTEN = 10.0, 0.5
Connect = Callable[[AsyncApp], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def over_sockets(
    slack: FakeSlack, app: AsyncApp, *, ping_seconds: float = PING_SECONDS
) -> AsyncIterator[None]:
    handler = AsyncSocketModeHandler(app, slack.app_token, ping_interval=ping_seconds)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    try:
        await slack.connected()
        yield
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]
        # The client cancels what it runs, and does not wait for it.
        await asyncio.sleep(0)


@asynccontextmanager
async def over_http(slack: FakeSlack, app: AsyncApp) -> AsyncIterator[None]:
    async with serve(AsyncSlackRequestHandler(app)) as url:
        slack.connect_http(f"{url}/slack/events")
        yield


@pytest.fixture(params=["sockets", "http"])
def connect(request: pytest.FixtureRequest, slack: FakeSlack) -> Connect:
    way = over_sockets if request.param == "sockets" else over_http
    return lambda app: way(slack, app)


@pytest.fixture
def alice(slack: FakeSlack) -> User:
    return slack.add_user("alice")


@pytest.fixture
def bob(slack: FakeSlack) -> User:
    return slack.add_user("bob")


@pytest.fixture
def general(slack: FakeSlack, alice: User, bob: User) -> Channel:
    return slack.add_channel("general")


@pytest.fixture
def client(slack: FakeSlack) -> AsyncWebClient:
    return AsyncWebClient(slack.bot_token, base_url=slack.api_url)


@pytest.fixture
def app(slack: FakeSlack, client: AsyncWebClient) -> AsyncApp:
    return AsyncApp(name=__name__, client=client, signing_secret=slack.signing_secret)


def button(label: str, **more: object) -> Json:
    text = {"type": "plain_text", "text": label}
    return {"type": "button", "text": text, "action_id": label.lower(), **more}


def actions(*elements: Json) -> Json:
    return {"type": "actions", "elements": list(elements)}


def section(text: str, **more: object) -> Json:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, **more}


async def error_of(call: Any) -> str:
    with pytest.raises(SlackApiError) as caught:
        await call
    return str(caught.value.response["error"])


async def ignore() -> None:
    """Take an event, so that it is acknowledged."""


class Heard:
    """What a Bolt app hears, in order."""

    def __init__(self, app: AsyncApp) -> None:
        self.bodies: list[Json] = []
        self.headers: list[Json] = []
        app.event("app_mention")(self.take)
        app.event("message")(self.take)

    async def take(self, body: Json, request: Any) -> None:
        self.bodies.append(body)
        self.headers.append(request.headers)

    @property
    def events(self) -> list[Json]:
        return [body["event"] for body in self.bodies]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]


# --- people talk --------------------------------------------------------------------------------


async def test_a_mention_in_a_channel_is_heard_as_a_mention_and_as_a_message(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    heard = Heard(app)

    async with connect(app):
        said = await slack.say(alice, general, "1 < 2 & so on", mention=True)
        await slack.until(lambda: len(heard.bodies) == 2, "both events")

    mention, message = sorted(heard.events, key=lambda event: str(event["type"]))
    assert heard.bodies[0]["event_id"] != heard.bodies[1]["event_id"]
    assert mention["text"] == f"<@{slack.bot_user().id}> 1 &lt; 2 &amp; so on"
    assert (mention["ts"], message["ts"]) == (said.ts, said.ts)
    assert (message["channel_type"], "channel_type" in mention) == ("channel", False)
    assert all(event.acked_after is not None and event.acked_after < 3 for event in said.events)


async def test_a_direct_message_is_heard_once(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User
) -> None:
    heard = Heard(app)

    async with connect(app):
        root = await slack.say(alice, slack.dm(alice), "hello", mention=True)
        await slack.say(alice, slack.dm(alice), "again", thread=root)
        await slack.until(lambda: len(heard.bodies) == 2, "both messages")

    assert heard.types == ["message", "message"]
    assert [event["channel_type"] for event in heard.events] == ["im", "im"]
    assert heard.events[1]["thread_ts"] == root.ts
    assert heard.events[1]["parent_user_id"] == alice.id
    assert heard.events[1]["channel"].startswith("D")


async def test_changes_are_heard_and_a_mention_that_is_added_too(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    heard = Heard(app)

    async with connect(app):
        said = await slack.say(alice, general, "hello")
        await slack.edit(said, "hello you", mention=True)
        await slack.delete(said)
        await slack.until(lambda: len(heard.bodies) == 4, "all events")

    subtypes = [event.get("subtype") for event in heard.events]
    assert subtypes[0] is None
    assert subtypes[-1] == "message_deleted"
    assert set(subtypes[1:3]) == {None, "message_changed"}
    assert heard.events[-1]["deleted_ts"] == said.ts
    assert slack.messages(general) == []


async def test_the_app_hears_itself_and_bolt_does_not_pass_it_on(
    slack: FakeSlack, connect: Connect, app: AsyncApp, client: AsyncWebClient, general: Channel
) -> None:
    heard = Heard(app)
    other = slack.add_user("otherbot", bot=True)

    async with connect(app):
        await client.chat_postMessage(channel=general.id, text="from me")
        await slack.say(other, general, "from a bot", mention=True)
        await slack.until(lambda: len(heard.bodies) == 2, "the other bot")
        await slack.until(lambda: all(each.acked for each in slack.deliveries.all), "every ack")

    own = [each.payload["event"].get("bot_id") for each in slack.deliveries.all]
    assert own == [slack.bot_user().bot_id, other.bot_id, other.bot_id]
    assert [event["bot_id"] for event in heard.events] == [other.bot_id] * 2


async def test_files_come_along_and_are_given_for_a_good_token_only(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    heard = Heard(app)

    async with connect(app), aiohttp.ClientSession() as session:
        await slack.say(alice, general, "look", files=[("notes.txt", "text/plain", b"content")])
        await slack.until(lambda: bool(heard.bodies), "the message")
        url = heard.events[0]["files"][0]["url_private_download"]
        good = {"Authorization": f"Bearer {slack.bot_token}"}
        async with session.get(url, headers=good) as response:
            content = await response.read()
        async with session.get(url) as response:
            refused = (response.status, response.content_type)

    assert heard.events[0]["subtype"] == "file_share"
    assert content == b"content"
    assert refused == (200, "text/html")


# --- the app answers ----------------------------------------------------------------------------


async def test_an_answer_stands_in_the_thread(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    app.event("message")(ignore)

    @app.event("app_mention")
    async def answer(event: Json, say: AsyncSay, set_status: AsyncSetStatus) -> None:
        await set_status("is thinking…")
        seen.append(slack.status(general, event["ts"]))
        text = f"*done*, <@{event['user']}> <https://a.example|here>"
        await say(text, thread_ts=event["ts"])

    seen: list[str] = []
    async with connect(app):
        said = await slack.say(alice, general, "hello", mention=True)
        await slack.until(lambda: slack.said(general), "the answer")

    [reply] = slack.said(general, said)
    assert reply.thread_ts == said.ts
    assert reply.readable() == "*done*, @alice here (https://a.example)"
    assert (reply.pings, reply.masked_links) == (
        [f"<@{alice.id}>"],
        [("here", "https://a.example")],
    )
    assert (seen, slack.status(general, said.ts)) == (["is thinking…"], "")


async def test_a_stream_grows_and_ends(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    app.event("message")(ignore)

    @app.event("app_mention")
    async def answer(say_stream: AsyncSayStream) -> None:
        stream = await say_stream(buffer_size=1)
        await stream.append(markdown_text="**Hello** ")
        growing.append((slack.said(general)[0].readable(), slack.session(general, said_ts())))
        task = TaskUpdateChunk(id="1", title="Searching", status="in_progress")
        await stream.append(chunks=[task, MarkdownTextChunk(text="world")])
        await stream.stop(blocks=[actions(button("Good"))])

    def said_ts() -> str:
        return next(iter(general.messages))

    growing: list[tuple[str, str]] = []
    async with connect(app):
        await slack.say(alice, general, "hello", mention=True)
        await slack.until(
            lambda: slack.said(general) and not slack.said(general)[0].streaming, "the end"
        )

    [reply] = slack.said(general)
    assert growing == [("**Hello** ", "processing")]
    assert reply.readable() == "**Hello** world\n[Good]"
    assert reply.stream is not None
    assert reply.stream.tasks["1"]["title"] == "Searching"
    assert slack.session(general, said_ts()) == "active"


async def test_a_stream_that_is_dead_takes_nothing_and_can_then_be_changed(
    slack: FakeSlack, client: AsyncWebClient, alice: User, general: Channel
) -> None:
    root = await slack.say(alice, general, "hello")
    stream = await client.chat_stream(
        channel=general.id,
        thread_ts=root.ts,
        recipient_user_id=alice.id,
        recipient_team_id=slack.team.id,
        buffer_size=1,
    )
    await stream.append(markdown_text="begun")
    assert stream.ts is not None
    update: Json = {"channel": general.id, "ts": stream.ts, "text": "whole"}

    early = await error_of(client.chat_update(**update))
    slack.end_streams()
    late = [
        await error_of(stream.append(markdown_text="more")),
        await error_of(stream.stop()),
    ]
    await client.chat_update(**update)

    assert early == "streaming_state_conflict"
    assert late == ["message_not_in_streaming_state"] * 2
    assert [reply.readable() for reply in slack.said(general)] == ["whole"]


async def test_streams_need_a_recipient_in_channels_and_can_be_switched_off(
    slack: FakeSlack, client: AsyncWebClient, alice: User, general: Channel
) -> None:
    root = await slack.say(alice, general, "hello")
    private = await slack.say(alice, slack.dm(alice), "hello")
    start: Json = {"channel": general.id, "thread_ts": root.ts}
    whom: Json = {"recipient_user_id": alice.id, "recipient_team_id": slack.team.id}
    direct: Json = {"channel": private.channel.id, "thread_ts": private.ts}

    refused = [
        await error_of(client.chat_startStream(**start)),
        await error_of(client.chat_startStream(**start, recipient_user_id=alice.id)),
        await error_of(client.chat_startStream(**whom, channel=general.id, thread_ts="D0123")),
    ]
    started = await client.chat_startStream(**direct, markdown_text="x")
    mixed = client.chat_appendStream(
        channel=private.channel.id, ts=started["ts"], chunks=[MarkdownTextChunk(text="y")]
    )
    refused.append(await error_of(mixed))
    slack.streaming = False
    refused.append(await error_of(client.chat_startStream(**start, **whom)))

    assert refused == [
        "missing_recipient_user_id",
        "missing_recipient_team_id",
        "invalid_thread_ts",
        "streaming_mode_mismatch",
        "channel_type_not_supported",
    ]


async def test_slacks_own_stop_ends_the_stream_and_is_heard(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    @app.event("agent_session_stopped")
    async def stopped(event: Json, client: AsyncWebClient) -> None:
        channel, thread = event["channel"], event["thread_ts"]
        failed.append(
            await error_of(
                client.chat_appendStream(
                    channel=channel, ts=event["streaming_message_ts"][0], markdown_text="x"
                )
            )
        )
        await client.agents_sessions_setStatus(
            channel_id=channel, thread_ts=thread, status="active"
        )

    failed: list[str] = []
    async with connect(app):
        Heard(app)
        root = await slack.say(alice, general, "hello")
        with pytest.raises(AssertionError, match="shows no Stop"):
            await slack.stop_clicked(alice, general, root.ts)
        await app.client.chat_startStream(
            channel=general.id,
            thread_ts=root.ts,
            recipient_user_id=alice.id,
            recipient_team_id=slack.team.id,
            markdown_text="begun",
        )
        await slack.stop_clicked(alice, general, root.ts)
        await slack.until(lambda: slack.session(general, root.ts) == "active", "the end")

    assert failed == ["stopped_by_user"]


async def test_a_status_is_a_line_and_a_session_one_of_four_words(
    slack: FakeSlack, client: AsyncWebClient, alice: User, general: Channel
) -> None:
    root = await slack.say(alice, general, "hello")
    where: Json = {"channel_id": general.id, "thread_ts": root.ts}

    await client.assistant_threads_setStatus(**where, status="is reading…")
    await client.agents_sessions_setStatus(**where, status="processing")
    slack.events.subscriptions = set()
    warned = await client.agents_sessions_setStatus(**where, status="suspended")
    refused = [
        await error_of(client.agents_sessions_setStatus(**where, status="is reading…")),
        await error_of(
            client.assistant_threads_setStatus(
                channel_id=general.id, thread_ts=general.id, status="x"
            )
        ),
    ]

    assert [(each.kind, each.status) for each in slack.statuses] == [
        ("text", "is reading…"),
        ("session", "processing"),
        ("session", "suspended"),
    ]
    assert slack.status(general, root.ts) == "is reading…"
    assert warned["warning"] == "missing_agent_session_stopped_event_subscription"
    assert refused == ["invalid_arguments", "invalid_thread_ts"]


async def test_an_uploaded_file_stands_in_the_thread_and_the_answer_does_not_say_where(
    slack: FakeSlack, client: AsyncWebClient, alice: User, general: Channel
) -> None:
    root = await slack.say(alice, general, "hello")

    answer = await client.files_upload_v2(
        content="long result",
        filename="result.md",
        title="<!here> result",
        channel=general.id,
        thread_ts=root.ts,
        snippet_type="markdown",
    )
    slack.refuse_files = True
    refused = await error_of(client.files_upload_v2(content="x", channel=general.id))

    [message] = slack.said(general, root)
    assert message.files[0].content == b"long result"
    assert (message.readable(), message.pings) == ("[file <!here> result]", ["<!here>"])
    assert "ts" not in answer
    assert refused == "file_uploads_disabled"


# --- commands, clicks, forms --------------------------------------------------------------------


async def test_a_command_is_acknowledged_and_answered_in_private(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, bob: User, general: Channel
) -> None:
    @app.command("/subagents")
    async def run(ack: AsyncAck, respond: AsyncRespond, command: Json) -> None:
        await ack("At once.")
        await respond(f"You said {command['text']}.")
        await respond("For all.", response_type="in_channel")

    async with connect(app):
        answer = await slack.slash(alice, general, "/subagents", "stop 1a2b")
        await slack.until(lambda: len(answer.posts) == 3, "the whole answer")
        with pytest.raises(AssertionError, match="threads"):
            await slack.slash(alice, general, "/subagents", thread=slack.said(general)[0])

    assert answer.text() == "At once.\nYou said stop 1a2b.\nFor all."
    assert answer.acked_after is not None
    assert answer.acked_after < 3
    assert not answer.ephemeral
    private = {post.text for post in slack.ephemerals(alice)}
    assert private == {"At once.", "You said stop 1a2b."}
    assert slack.ephemerals(bob) == []


async def test_a_command_that_is_not_acknowledged_in_time_has_failed(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    @app.command("/slow")
    async def run(ack: AsyncAck, respond: AsyncRespond) -> None:
        await go.wait()
        await ack()
        await respond("Late.")

    go = asyncio.Event()
    slack.deliveries.ack_seconds = 0.2
    async with connect(app):
        answer = await slack.slash(alice, general, "/slow")
        failure = answer.failure
        go.set()
        await answer.done()

    assert failure == "operation_timeout"
    assert answer.text() == "Late."


async def test_a_response_url_is_good_for_five_answers(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    @app.command("/many")
    async def run(ack: AsyncAck, respond: AsyncRespond) -> None:
        await ack()
        statuses.extend([(await respond(f"{number}")).status_code for number in range(6)])

    statuses: list[int] = []
    async with connect(app):
        answer = await slack.slash(alice, general, "/many")
        await slack.until(lambda: len(statuses) == 6, "all answers")

    assert statuses == [200] * 5 + [404]
    assert answer.text() == "0\n1\n2\n3\n4"
    assert answer.ephemeral


async def test_a_button_is_for_those_who_see_it(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, bob: User, general: Channel
) -> None:
    @app.action("stop")
    async def stop(ack: AsyncAck, action: Json, body: Json, client: AsyncWebClient) -> None:
        await ack()
        clicked.append((body["user"]["id"], action["value"]))
        where = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        await client.chat_update(**where, text="Stopped.")

    clicked: list[tuple[str, str]] = []
    confirm = {
        "title": {"type": "plain_text", "text": "Stop?"},
        "text": {"type": "mrkdwn", "text": "It ends."},
        "confirm": {"type": "plain_text", "text": "Stop"},
        "deny": {"type": "plain_text", "text": "Go on"},
    }
    mine = button("Stop", value="run-1", visible_to_user_ids=[alice.id], confirm=confirm)
    async with connect(app):
        Heard(app)
        await app.client.chat_postMessage(
            channel=general.id, text="card", blocks=[section("Run"), actions(mine, button("Log"))]
        )
        [card] = slack.said(general)
        with pytest.raises(AssertionError, match="bob cannot click 'Stop'"):
            await slack.click(bob, card, "Stop")
        declined = await slack.click(alice, card, "Stop", confirm=False)
        forced = await slack.click(bob, card, "Stop", force=True)
        await slack.until(lambda: card.edits == 1, "the card")

    assert (declined.sent, forced.sent) == (False, True)
    assert clicked == [(bob.id, "run-1")]
    assert (card.readable(), card.blocks) == ("Stopped.", [])
    again = await post(app.client, general, section("Run"), actions(mine, button("Log")))
    assert (again.readable(alice), again.readable(bob)) == ("Run\n[Stop] [Log]", "Run\n[Log]")


async def post(client: AsyncWebClient, channel: Channel, *blocks: Json) -> Message:
    answer = await client.chat_postMessage(channel=channel.id, text="x", blocks=list(blocks))
    return channel.messages[answer["ts"]]


async def test_a_click_can_replace_and_remove_what_was_clicked(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    @app.action("yes")
    async def yes(ack: AsyncAck, respond: AsyncRespond) -> None:
        await ack()
        await respond("Yes it is.", replace_original=True)

    @app.action("no")
    async def no(ack: AsyncAck, respond: AsyncRespond) -> None:
        await ack()
        await respond(delete_original=True)

    async with connect(app):
        Heard(app)
        await app.client.chat_postEphemeral(
            channel=general.id, user=alice.id, text="x", blocks=[actions(button("Yes"))]
        )
        await post(app.client, general, actions(button("No")))
        [question] = slack.ephemerals(alice)
        await (await slack.click(alice, question, "Yes")).done()
        await (await slack.click(alice, slack.said(general)[0], "no")).done()

    assert question.readable() == "Yes it is."
    assert slack.said(general) == []


MODAL: Json = {
    "type": "modal",
    "callback_id": "send",
    "title": {"type": "plain_text", "text": "Send"},
    "submit": {"type": "plain_text", "text": "Send"},
    "private_metadata": "run-1",
    "blocks": [
        {
            "type": "input",
            "block_id": "words",
            "label": {"type": "plain_text", "text": "Message"},
            "element": {"type": "plain_text_input", "action_id": "text"},
        }
    ],
}


async def test_a_form_is_opened_corrected_and_sent(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, bob: User, general: Channel
) -> None:
    @app.action("send")
    async def opens(ack: AsyncAck, body: Json, client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=MODAL)
        repeated.append(
            await error_of(client.views_open(trigger_id=body["trigger_id"], view=MODAL))
        )

    @app.view("send")
    async def takes(ack: AsyncAck, view: Json) -> None:
        text = view["state"]["values"]["words"]["text"]["value"]
        if text == "bad":
            await ack(response_action="errors", errors={"words": "Say it better."})
            return
        await ack()
        taken.append((view["private_metadata"], text))

    repeated: list[str] = []
    taken: list[tuple[str, str]] = []
    async with connect(app):
        Heard(app)
        await post(app.client, general, actions(button("Send")))
        opened = await (await slack.click(alice, slack.said(general)[0], "Send")).done()
        with pytest.raises(AssertionError, match="not bob"):
            await slack.submit(bob, opened, {"text": "x"})
        with pytest.raises(AssertionError, match="must be filled in"):
            await slack.submit(alice, opened)
        wrong = await slack.submit(alice, opened, {"Message": "bad"})
        right = await slack.submit(alice, opened, {"text": "good"})
        await slack.until(lambda: bool(taken), "the form")

    assert wrong.errors == {"words": "Say it better."}
    assert right.errors == {}
    assert taken == [("run-1", "good")]
    assert repeated == ["exchanged_trigger_id"]


async def test_a_form_comes_too_late(slack: FakeSlack, client: AsyncWebClient, alice: User) -> None:
    trigger = slack.surfaces.trigger(alice)
    slack.surfaces.trigger_seconds = 0.0

    late = await error_of(client.views_open(trigger_id=trigger.id, view=MODAL))
    unknown = await error_of(client.views_open(trigger_id="1.2.x", view=MODAL))

    assert (late, unknown) == ("expired_trigger_id", "invalid_trigger_id")


async def test_choices_come_from_the_app(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, general: Channel
) -> None:
    @app.options("run")
    async def suggest(ack: AsyncAck, payload: Json) -> None:
        text = {"type": "plain_text", "text": f"{payload['value']} and more"}
        await ack(options=[{"text": text, "value": "run-1"}])

    @app.action("run")
    async def chosen(ack: AsyncAck, action: Json) -> None:
        await ack()
        values.append(action["selected_option"]["value"])

    values: list[str] = []
    menu = {"type": "external_select", "action_id": "run"}
    async with connect(app):
        Heard(app)
        await post(app.client, general, actions(menu))
        [card] = slack.said(general)
        answer = await slack.options(alice, card, "run", "1a")
        await slack.click(alice, card, "run", choice=answer.options[0][1])
        await slack.until(lambda: bool(values), "the choice")

    assert answer.options == [("1a and more", "run-1")]
    assert values == ["run-1"]


async def test_the_home_tab_shows_what_was_published_last(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User, bob: User
) -> None:
    @app.event("app_home_opened")
    async def opened(event: Json, client: AsyncWebClient) -> None:
        hashes.append(event.get("view", {}).get("hash"))
        blocks = [section(f"Runs {len(hashes)}"), actions(button("Stop", value="run-1"))]
        await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": blocks})

    @app.action("stop")
    async def stop(ack: AsyncAck, body: Json) -> None:
        await ack()
        clicked.append(body["view"]["id"])

    hashes: list[str | None] = []
    clicked: list[str] = []
    async with connect(app):
        await slack.open_home(alice)
        await slack.until(lambda: slack.home(alice), "the home")
        first = slack.home(alice)
        assert first is not None
        old = first.hash
        await slack.open_home(alice)
        await slack.until(lambda: first.versions == 2, "the new home")
        await slack.click(alice, first, "Stop")
        conflict = await error_of(
            app.client.views_publish(
                user_id=alice.id, view={"type": "home", "blocks": []}, hash=old
            )
        )

    assert first.readable() == "Runs 2\n[Stop]"
    assert (hashes, conflict) == ([None, old], "hash_conflict")
    assert clicked == [first.id]
    assert slack.home(bob) is None


# --- what goes wrong ----------------------------------------------------------------------------


async def test_an_event_that_is_not_acknowledged_comes_again(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User
) -> None:
    heard = Heard(app)
    slack.deliveries.ack_seconds = 1.0

    @app.middleware
    async def hold(next: Callable[[], Any]) -> None:  # noqa: A002 - Bolt passes by name
        if not go.is_set():
            await go.wait()
        await next()

    go = asyncio.Event()
    async with connect(app):
        said = await slack.say(alice, slack.dm(alice), "hello")
        lost = [each.type for each in slack.deliveries.unacknowledged]
        go.set()
        await slack.until(lambda: said.events[0].acked, "the retry")
        await slack.redeliver(said, retry=3)
        await slack.until(lambda: len(heard.bodies) >= 2, "the repetition")

    [event] = said.events
    assert (lost, slack.deliveries.unacknowledged) == (["message"], [])
    assert [attempt.number for attempt in event.attempts] == [0, 1, 3]
    assert {body["event_id"] for body in heard.bodies} == {event.event_id}
    assert ["3"] in [headers.get("x-slack-retry-num") for headers in heard.headers]


async def test_bolt_does_not_acknowledge_what_it_has_no_listener_for(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User
) -> None:
    slack.deliveries.ack_seconds = 0.2

    async with connect(app):
        event = await slack.send({"type": "app_context_changed", "user": alice.id})

    assert event is not None
    assert not event.acked
    assert event.attempts[0].failure in {"http_timeout", "http_error"}


async def test_what_is_said_while_there_is_no_app_comes_minutes_later(
    slack: FakeSlack, connect: Connect, app: AsyncApp, alice: User
) -> None:
    heard = Heard(app)

    said = await slack.say(alice, slack.dm(alice), "hello")
    await slack.until(lambda: len(said.events[0].attempts) == 2, "the retry at once")
    async with connect(app):
        await slack.retry_lost()
        await slack.until(lambda: bool(heard.bodies), "the message")

    assert [attempt.number for attempt in said.events[0].attempts] == [0, 1, 2]
    assert heard.events[0]["text"] == "hello"


async def test_the_first_envelope_says_that_it_is_no_retry(
    slack: FakeSlack, app: AsyncApp, alice: User
) -> None:
    heard = Heard(app)

    async with over_sockets(slack, app):
        await slack.say(alice, slack.dm(alice), "hello")
        await slack.until(lambda: bool(heard.bodies), "the message")

    assert heard.headers[0]["x-slack-retry-num"] == ["0"]


async def test_sockets_are_refreshed_and_break(
    slack: FakeSlack, app: AsyncApp, alice: User
) -> None:
    heard = Heard(app)

    async with over_sockets(slack, app, ping_seconds=OFTEN):
        await slack.refresh_socket()
        await slack.say(alice, slack.dm(alice), "after the refresh")
        slack.drop_socket()
        broken = slack.sockets_open
        await slack.connected()
        await slack.say(alice, slack.dm(alice), "after the break")
        await slack.until(lambda: len(heard.bodies) == 2, "both messages")

    assert (broken, slack.sockets.connections) == (0, 3)
    assert [event["text"] for event in heard.events] == ["after the refresh", "after the break"]


async def test_with_two_apps_each_event_goes_to_one_of_them(slack: FakeSlack, alice: User) -> None:
    apps = [
        AsyncApp(client=AsyncWebClient(slack.bot_token, base_url=slack.api_url)) for _ in range(2)
    ]
    heard = [Heard(app) for app in apps]

    async with over_sockets(slack, apps[0]), over_sockets(slack, apps[1]):
        await slack.until(lambda: slack.sockets_open == 2, "two sockets")
        said = [await slack.say(alice, slack.dm(alice), str(number)) for number in range(4)]
        await slack.until(lambda: all(len(each.bodies) == 2 for each in heard), "all messages")
        await slack.redeliver(said[0], everywhere=True)
        await slack.until(lambda: all(len(each.bodies) == 3 for each in heard), "the same one")

    assert heard[0].bodies[2]["event_id"] == heard[1].bodies[2]["event_id"]


async def test_requests_that_are_signed_wrongly_are_refused_by_bolt(
    slack: FakeSlack, app: AsyncApp, alice: User
) -> None:
    heard = Heard(app)
    slack.deliveries.immediate_retry = False

    async with over_http(slack, app):
        challenge = await slack.webhook.verify()
        for knob, value in (("secret", "wrong"), ("skew_seconds", -360.0), ("unsigned", True)):
            good = getattr(slack.webhook, knob)
            setattr(slack.webhook, knob, value)
            await slack.say(alice, slack.dm(alice), "hello")
            setattr(slack.webhook, knob, good)
        await slack.say(alice, slack.dm(alice), "signed")
        await slack.until(lambda: bool(heard.bodies), "the message")

    assert challenge.text == '{"challenge": "a challenge"}'
    assert [response.status for response in slack.webhook.responses] == [200, 401, 401, 401, 200]
    assert [event["text"] for event in heard.events] == ["signed"]


def patient(slack: FakeSlack, **more: object) -> AsyncWebClient:
    interval = FixedValueRetryIntervalCalculator(0.01)
    handlers = [
        AsyncConnectionErrorRetryHandler(max_retry_count=1, interval_calculator=interval),
        AsyncRateLimitErrorRetryHandler(max_retry_count=1),
        AsyncServerErrorRetryHandler(max_retry_count=1, interval_calculator=interval),
    ]
    return AsyncWebClient(slack.bot_token, base_url=slack.api_url, retry_handlers=handlers)


async def test_the_sdk_waits_when_slack_says_so(slack: FakeSlack, general: Channel) -> None:
    fault = slack.fail("chat.postMessage", status=429, retry_after=0)

    await patient(slack).chat_postMessage(channel=general.id, text="hello")

    assert (fault.hits, len(slack.said(general))) == (1, 1)
    assert [call.error for call in slack.called("chat.postMessage")] == ["429", ""]


async def test_failures_come_as_often_as_they_are_asked_for(
    slack: FakeSlack, client: AsyncWebClient, general: Channel
) -> None:
    slack.fail("chat.postMessage", error="internal_error", times=2)
    slack.fail("*", status=503, times=None, when=lambda args: args.get("text") == "doomed")

    async def say(text: str) -> str:
        try:
            await client.chat_postMessage(channel=general.id, text=text)
        except SlackApiError as error:
            # A page instead of JSON leaves nothing that could be read.
            return str(error.response.data.get("error", error.response.status_code))
        return ""

    results = [await say(text) for text in ("a", "b", "c", "doomed", "doomed", "d")]
    slack.heal()

    assert results == ["internal_error", "internal_error", "", "503", "503", ""]
    assert [await say("doomed"), len(slack.said(general))] == ["", 3]


async def test_a_connection_that_breaks_after_the_message_was_stored_doubles_it(
    slack: FakeSlack, general: Channel
) -> None:
    slack.fail("chat.postMessage", cut=True)
    await patient(slack).chat_postMessage(channel=general.id, text="cut")

    slack.fail("chat.postMessage", refuse=True)
    await patient(slack).chat_postMessage(channel=general.id, text="refused")

    assert [message.text for message in slack.said(general)] == ["cut", "cut", "refused"]
    assert [call.args["text"] for call in slack.calls] == ["cut", "cut", "refused", "refused"]


async def test_a_call_can_be_held_before_and_after_it_is_done(
    slack: FakeSlack, client: AsyncWebClient, general: Channel
) -> None:
    before, after = asyncio.Event(), asyncio.Event()
    held = slack.fail("chat.postMessage", hold=before, late=after)

    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(client.chat_postMessage(channel=general.id, text="hello"))
        await held.reached.wait()
        stored = [len(slack.said(general))]
        before.set()
        await slack.until(lambda: slack.said(general), "the message")
        stored += [len(slack.said(general)), call.done()]
        after.set()

    assert stored == [0, 1, False]


async def test_limits_of_rate_are_kept_when_they_are_on(
    slack: FakeSlack, client: AsyncWebClient, general: Channel
) -> None:
    slack.rates.on = True
    slack.rates.per_minute["chat.update"] = 3
    ts = (await client.chat_postMessage(channel=general.id, text="0"))["ts"]

    async def update() -> str:
        try:
            await client.chat_update(channel=general.id, ts=ts, text="1")
        except SlackApiError as error:
            waits.append(int(error.response.headers["Retry-After"]))
            return str(error.response["error"])
        return ""

    waits: list[int] = []
    assert [await update() for _ in range(4)] == ["", "", "", "ratelimited"]
    assert waits == [60]
    assert slack.said(general)[0].edits == 3


# --- limits -------------------------------------------------------------------------------------

HEADER = {"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}
MARKDOWN = {"type": "markdown", "text": "x" * 12_000}
CONTEXT = {"type": "context", "elements": [{"type": "mrkdwn", "text": "x"}] * 11}
CASES: list[tuple[Json, str]] = [
    ({}, "no_text"),
    ({"text": "  "}, "no_text"),
    ({"text": "x", "thread_ts": "D0123456789"}, "invalid_thread_ts"),
    ({"text": "x", "thread_ts": "1700000000.000100"}, "thread_not_found"),
    ({"markdown_text": "x" * 12_001}, "msg_too_long"),
    ({"markdown_text": "x", "text": "x"}, "markdown_text_conflict"),
    ({"markdown_text": "x", "blocks": [section("x")]}, "markdown_text_conflict"),
    ({"text": "x", "blocks": [section("x")] * 51}, "invalid_blocks"),
    ({"text": "x", "blocks": [section("x" * 3001)]}, "invalid_blocks"),
    ({"text": "x", "blocks": [section("")]}, "invalid_blocks"),
    ({"text": "x", "blocks": [HEADER]}, "invalid_blocks"),
    ({"text": "x", "blocks": [CONTEXT]}, "invalid_blocks"),
    ({"text": "x", "blocks": [{"type": "nothing"}]}, "invalid_blocks"),
    ({"text": "x", "blocks": [MARKDOWN, section("x" * 1300)]}, "msg_blocks_too_long"),
    ({"text": "x", "blocks": [{"type": "markdown", "text": "x" * 12_001}]}, "invalid_blocks"),
    ({"text": "x", "blocks": [actions()]}, "invalid_blocks"),
    ({"text": "x", "blocks": [actions(*[button(str(n)) for n in range(26)])]}, "invalid_blocks"),
    ({"text": "x", "blocks": [actions(button("x" * 76))]}, "invalid_blocks"),
    ({"text": "x", "blocks": [actions(button("x", value="x" * 2001))]}, "invalid_blocks"),
    ({"text": "x", "blocks": [actions(button("x", action_id="x" * 256))]}, "invalid_blocks"),
    ({"text": "x", "blocks": [actions(button("x"), button("x"))]}, "invalid_blocks"),
    ({"text": "x", "blocks": [actions(button("x", style="loud"))]}, "invalid_blocks"),
    ({"text": "x", "blocks": [{**section("x"), "block_id": "b"}] * 2}, "invalid_blocks"),
    ({"text": "x", "blocks": "no JSON"}, "invalid_blocks_format"),
]


@pytest.mark.parametrize(("args", "error"), CASES)
async def test_what_slack_does_not_take_has_a_name(
    slack: FakeSlack, client: AsyncWebClient, general: Channel, args: Json, error: str
) -> None:
    call = client.api_call("chat.postMessage", json={"channel": general.id, **args})

    assert await error_of(call) == error
    assert slack.said(general) == []


async def test_a_post_is_cut_at_40_000_characters_and_an_update_refused_at_4_000(
    slack: FakeSlack, client: AsyncWebClient, general: Channel
) -> None:
    ts = (await client.chat_postMessage(channel=general.id, text="x" * 40_001))["ts"]

    refused = await error_of(client.chat_update(channel=general.id, ts=ts, text="x" * 4_001))

    [message] = slack.said(general)
    assert (len(message.text), message.truncated, refused) == (40_000, True, "msg_too_long")


async def test_views_have_limits_of_their_own(
    slack: FakeSlack, client: AsyncWebClient, alice: User
) -> None:
    title = {"type": "plain_text", "text": "x" * 25}
    broken = [
        MODAL | {"title": title},
        {key: value for key, value in MODAL.items() if key != "submit"},
        MODAL | {"blocks": [section("x")] * 101},
        MODAL | {"private_metadata": "x" * 3001},
    ]

    errors = [
        await error_of(client.views_open(trigger_id=slack.surfaces.trigger(alice).id, view=view))
        for view in broken
    ]

    assert errors == ["invalid_arguments"] * 4


async def test_messages_are_changed_and_deleted_by_their_author_only(
    slack: FakeSlack, client: AsyncWebClient, alice: User, general: Channel
) -> None:
    theirs: Json = {"channel": general.id, "ts": (await slack.say(alice, general, "hello")).ts}
    mine: Json = {
        "channel": general.id,
        "ts": (await client.chat_postMessage(channel=general.id, text="x"))["ts"],
    }

    errors = [
        await error_of(client.chat_update(**theirs, text="x")),
        await error_of(client.chat_delete(**theirs)),
        await error_of(client.chat_update(channel=general.id, ts="1.2", text="x")),
    ]
    slack.chat.edit_window = 0.0
    errors.append(await error_of(client.chat_update(**mine, text="y")))
    await client.chat_delete(**mine)
    errors.append(await error_of(client.chat_delete(**mine)))

    assert errors == [
        "cant_update_message",
        "cant_delete_message",
        "message_not_found",
        "edit_window_closed",
        "message_not_found",
    ]


async def test_who_may_write_where(
    slack: FakeSlack, client: AsyncWebClient, alice: User, general: Channel
) -> None:
    async def say(channel: Channel | str) -> str:
        name = channel if isinstance(channel, str) else channel.id
        try:
            await client.chat_postMessage(channel=name, text="x")
        except SlackApiError as error:
            return str(error.response["error"])
        return ""

    secret = slack.add_channel("secret", private=True, members=[alice], bot=False)
    old = slack.add_channel("old")
    old.archived = True
    elsewhere = slack.add_channel("elsewhere", team=slack.add_team("Other", installed=True))
    before = [await say(channel) for channel in (general, secret, old, elsewhere, "C404", alice.id)]
    slack.remove_bot(general)

    assert before == ["", "channel_not_found", "is_archived"] + ["channel_not_found"] * 2 + [""]
    assert await say(general) == "not_in_channel"
    assert len(slack.said(slack.dm(alice))) == 1


async def test_tokens_and_scopes_are_checked(
    slack: FakeSlack, client: AsyncWebClient, alice: User, general: Channel
) -> None:
    async def as_whom(token: str) -> str:
        return await error_of(AsyncWebClient(token, base_url=slack.api_url).auth_test())

    told = await client.auth_test()
    wrong = [await as_whom("xoxb-wrong"), await as_whom(""), await as_whom(slack.app_token)]
    slack.granted_scopes = ["chat:write"]
    missing = await error_of(client.users_info(user=alice.id))
    known = await client.chat_postMessage(channel=general.id, text="x")

    assert "reactions:write" in told.headers["x-oauth-scopes"]
    assert (told["user_id"], told["bot_id"]) == (slack.bot_user().id, slack.bot_user().bot_id)
    assert wrong == ["invalid_auth", "not_authed", "not_allowed_token_type"]
    assert (missing, known.headers["x-oauth-scopes"]) == ("missing_scope", "chat:write")


MANIFEST: Json = {
    "features": {
        "app_home": {"home_tab_enabled": False},
        "slash_commands": [{"command": "/subagents"}],
    },
    "oauth_config": {"scopes": {"bot": ["chat:write"]}},
    "settings": {"event_subscriptions": {"bot_events": ["message.im"]}},
}


async def test_what_the_manifest_leaves_out_does_not_work(
    slack: FakeSlack, client: AsyncWebClient, alice: User, general: Channel
) -> None:
    slack.use_manifest(MANIFEST)

    heard = await slack.say(alice, slack.dm(alice), "hello")
    unheard = await slack.say(alice, general, "hello", mention=True)
    refused = [
        await error_of(client.views_publish(user_id=alice.id, view={"type": "home", "blocks": []})),
        await error_of(client.reactions_add(channel=general.id, timestamp=unheard.ts, name="x")),
        await error_of(
            client.agents_sessions_setStatus(
                channel_id=general.id, thread_ts=unheard.ts, status="active"
            )
        ),
    ]

    assert (len(heard.events), len(unheard.events)) == (1, 0)
    assert refused == ["not_enabled", "missing_scope", "access_denied"]
    with pytest.raises(AssertionError, match="not a valid command"):
        await slack.slash(alice, general, "/retinue")
    card = await post(client, general, actions(button("Stop")))
    with pytest.raises(AssertionError, match="Interactivity is off"):
        await slack.click(alice, card, "Stop")


async def test_small_things_answer_as_they_should(
    slack: FakeSlack, client: AsyncWebClient, alice: User, bob: User, general: Channel
) -> None:
    root = await slack.say(alice, general, "hello")
    item: Json = {"channel": general.id, "timestamp": root.ts, "name": "eyes"}

    await client.reactions_add(**item)
    again = await error_of(client.reactions_add(**item))
    seen = dict(root.reactions)
    opened = await client.conversations_open(users=[alice.id])
    several = await client.conversations_open(users=[alice.id, bob.id])
    replies = await client.conversations_replies(channel=general.id, ts=root.ts)
    user = await client.users_info(user=alice.id)
    bot = await client.bots_info(bot=slack.bot_user().bot_id)
    info = await client.conversations_info(channel=general.id)
    missing = await error_of(client.api_call("chat.nothing"))

    assert (seen, again) == ({"eyes": {slack.bot_user().id}}, "already_reacted")
    assert opened["channel"]["id"] == slack.dm(alice).id
    assert several["channel"]["id"].startswith("G")
    assert [message["ts"] for message in replies["messages"]] == [root.ts]
    assert (user["user"]["name"], bot["bot"]["user_id"]) == ("alice", slack.bot_user().id)
    assert (info["channel"]["is_member"], missing) == (True, "unknown_method")


# --- pings --------------------------------------------------------------------------------------

TASK = {"type": "task_card", "task_id": "1", "title": "<!here>", "status": "complete"}
ATTACHMENT = {"text": "<!subteam^S012|@x>", "fallback": "x"}
PINGS: list[tuple[Json, list[str]]] = [
    ({"text": "<!channel> and <!HERE|x> <!everyone>"}, ["<!channel>", "<!here>", "<!everyone>"]),
    ({"text": "&lt;!channel&gt; @channel <#C1> <!date^1^x|y>"}, []),
    ({"text": "`<@U012>`", "blocks": [section("x")]}, ["<@U012>"]),
    ({"markdown_text": "`<!channel>` <@W012|bob>"}, ["<!channel>", "<@W012>"]),
    ({"text": "x", "blocks": [{"type": "markdown", "text": "<!channel>"}]}, ["<!channel>"]),
    ({"text": "x", "blocks": [section("x", fields=[{"type": "mrkdwn", "text": "<!here>"}])]},
     ["<!here>"]),
    ({"text": "x", "blocks": [section("x", fields=[{"type": "plain_text", "text": "<!here>"}])]},
     []),
    ({"text": "x", "blocks": [actions(button("<!channel>"))]}, []),
    ({"text": "x", "blocks": [TASK]}, ["<!here>"]),
    ({"text": "x", "attachments": [ATTACHMENT]}, ["<!subteam^S012>"]),
    ({"text": "@here @alice @nobody", "link_names": True}, ["<!here>", "<@alice>"]),
    ({"text": "@oncall @Channel", "parse": "full"}, ["<!channel>", "<!subteam^oncall>"]),
]  # fmt: skip


@pytest.mark.parametrize(("args", "expected"), PINGS)
async def test_whom_a_message_would_notify(
    slack: FakeSlack,
    client: AsyncWebClient,
    alice: User,
    general: Channel,
    args: Json,
    expected: list[str],
) -> None:
    group = slack.add_usergroup("oncall")
    ids = {"<@alice>": f"<@{alice.id}>", "<!subteam^oncall>": f"<!subteam^{group}>"}

    await client.api_call("chat.postMessage", json={"channel": general.id, **args})

    [message] = slack.said(general)
    assert sorted(message.pings) == sorted(ids.get(ping, ping) for ping in expected)


# --- many workspaces ----------------------------------------------------------------------------


@asynccontextmanager
async def installable(slack: FakeSlack, folder: Path) -> AsyncIterator[tuple[AsyncApp, str]]:
    """An app for many workspaces, served by HTTP: itself, and where it is."""
    # In memory there is one connection for all, and who gives it back undoes what others began.
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'installs.db'}")
    store = AsyncSQLAlchemyInstallationStore(slack.client_id, engine)
    states = AsyncSQLAlchemyOAuthStateStore(600, engine)
    await store.create_tables()  # type: ignore[no-untyped-call]
    await states.create_tables()  # type: ignore[no-untyped-call]
    app = AsyncApp(
        client=AsyncWebClient(base_url=slack.api_url),
        signing_secret=slack.signing_secret,
        installation_store=store,
        oauth_settings=AsyncOAuthSettings(
            client_id=slack.client_id,
            client_secret=slack.client_secret,
            scopes=["chat:write", "app_mentions:read"],
            authorization_url=slack.authorize_url,
            installation_store=store,
            state_store=states,
        ),
    )
    app.enable_token_revocation_listeners()
    try:
        async with serve(AsyncSlackRequestHandler(app)) as url:
            slack.connect_http(f"{url}/slack/events")
            slack.oauth.redirect_url = f"{url}/slack/oauth_redirect"
            yield app, url
    finally:
        await engine.dispose()


@pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning")
@pytest.mark.parametrize("org_wide", [False, True])
async def test_the_app_is_installed_and_removed_by_people(
    slack: FakeSlack, tmp_path: Path, org_wide: bool
) -> None:
    other = slack.add_team("Other", enterprise="E0ACME")
    sister = slack.add_team("Sister", enterprise="E0ACME")
    carol = slack.add_user("carol", team=sister if org_wide else other)
    contexts: list[AsyncBoltContext] = []

    async with installable(slack, tmp_path) as (app, url):

        @app.event("app_mention")
        async def answer(event: Json, say: AsyncSay, context: AsyncBoltContext) -> None:
            contexts.append(context)
            await say("hello", thread_ts=event["ts"])

        app.event("message")(ignore)
        page = await slack.install(f"{url}/slack/install", other, org_wide=org_wide)
        channel = slack.add_channel("other", team=carol.team)
        await slack.say(carol, channel, "hi", mention=True)
        await slack.until(lambda: slack.said(channel), "the answer")
        grant = carol.team.grant
        assert grant is not None
        await slack.uninstall(carol.team)
        token = grant.token
        after = await error_of(AsyncWebClient(token, base_url=slack.api_url).auth_test())
        store = app.installation_store
        assert store is not None
        team_id = None if org_wide else other.id
        async with asyncio.timeout(10):
            while True:
                found = await store.async_find_bot(
                    enterprise_id="E0ACME", team_id=team_id, is_enterprise_install=org_wide
                )
                if found is None:
                    break
                await asyncio.sleep(0.02)

    assert "Thank you" in page
    assert grant.scopes == ["chat:write", "app_mentions:read"]
    assert contexts[0].enterprise_id == "E0ACME"
    assert contexts[0].team_id == (None if org_wide else other.id)
    assert after == "account_inactive"


async def test_a_token_that_was_revoked_is_good_for_nothing(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    await slack.revoke_tokens(slack.team)

    assert await error_of(client.auth_test()) == "token_revoked"


@pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning")
async def test_a_code_is_exchanged_once_by_the_app_that_it_was_given_to(
    slack: FakeSlack, client: AsyncWebClient, alice: User
) -> None:
    async def exchange(code: str = "", secret: str = "", back: str = "") -> str:
        slack.oauth.codes.setdefault("good", Consent(slack.team, alice, False, ("x",), "https://a"))
        given = {"client_id": slack.client_id, "client_secret": secret or slack.client_secret}
        call = client.oauth_v2_access(
            **given, code=code or "good", redirect_uri=back or "https://a"
        )
        try:
            return str((await call)["access_token"])[:5]
        except SlackApiError as error:
            return str(error.response["error"])

    assert await exchange(secret="wrong") == "bad_client_secret"
    assert await exchange(code="other") == "invalid_code"
    assert await exchange(back="https://b") == "bad_redirect_uri"
    assert await exchange() == "xoxb-"
    assert "good" not in slack.oauth.codes


async def test_sockets_are_opened_with_the_token_of_the_app(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    refused = [
        await error_of(client.apps_connections_open(app_token=token))
        for token in ("xapp-wrong", slack.bot_token)
    ]

    assert refused == ["invalid_auth", "not_allowed_token_type"]


async def test_people_of_another_workspace_are_told_apart_in_a_shared_channel(
    slack: FakeSlack, connect: Connect, app: AsyncApp
) -> None:
    heard = Heard(app)
    other = slack.add_team("Other")
    dave = slack.add_user("dave", team=other)
    shared = slack.add_channel("shared", members=[dave], shared_with=[other])

    async with connect(app):
        await slack.say(dave, shared, "hello")
        await slack.until(lambda: bool(heard.bodies), "the message")

    [body] = heard.bodies
    assert (body["team_id"], body["context_team_id"]) == (other.id, slack.team.id)
    assert body["authorizations"][0]["team_id"] == slack.team.id
    assert (body["event"]["user_team"], body["is_ext_shared_channel"]) == (other.id, True)


async def test_waiting_in_vain_fails_the_test(slack: FakeSlack) -> None:
    slack.pulse.patience = 0.05
    began = time.monotonic()

    with pytest.raises(AssertionError, match="still not: rain"):
        await slack.until(lambda: False, "rain")

    assert time.monotonic() - began < slack.pulse.patience + 5
