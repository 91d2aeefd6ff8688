"""Events besides messages: Slack's own Stop, the bot's removal, and what nobody waits for."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bot.errors import BotError, DeliveryError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.messaging.intake import TROUBLE
from bot.platforms.slack.clients import OneClient, open_session
from bot.values import Json, Place
from tests.bot.platforms.slack.hearing import (
    Counter,
    Here,
    connected,
    counter,
    installed_in,
    listening,
    new_client_of,
    people,
)
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.slack.delivery import Delivery
from tests.fakes.slack.messages import Message
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import User


@pytest.fixture(autouse=True)
def log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="bot")


@pytest.fixture
async def here(slack: FakeSlack) -> AsyncIterator[Here]:
    async with listening(slack) as opened:
        yield opened


class Removals:
    """Remembers where the bot was removed."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.failure: Exception | None = None

    async def note(self, workspace: str) -> None:
        self.places.append(workspace)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure


class NotingClients(OneClient):
    """Notes where the bot was removed."""

    removals: Removals

    async def remove(self, workspace: str) -> None:
        await self.removals.note(workspace)


@asynccontextmanager
async def told(
    slack: FakeSlack, removals: Removals, inbound: FakeInboundHandler | None = None
) -> AsyncIterator[Counter]:
    async with open_session() as session:
        client = new_client_of(slack, session)
        clients = NotingClients(installed_in(slack, client), slack.team.id)
        clients.removals = removals
        async with (
            counter(slack, inbound, clients=clients, ack_seconds=0.2) as at,
            connected(at),
        ):
            yield at


async def stop(here: Here | Counter, user: User, thread: Message) -> Delivery:
    """Let somebody click Slack's own Stop."""
    delivery = await here.fake.stop_clicked(user, here.general, thread.ts, force=True)
    assert delivery is not None
    return delivery


# --- Slack's own Stop -----------------------------------------------------------------------------


async def test_slacks_stop_stops_what_is_under_way_in_its_thread(here: Here) -> None:
    asked = await here.fake.say(here.alice, here.general, "count sheep", mention=True)

    delivery = await stop(here, here.alice, asked)
    (told,) = await here.whispered(here.alice)

    place = Place("slack", here.fake.team.id, here.general.id, asked.ts)
    assert here.inbound.stopped == [(here.who(here.alice), place)]
    assert told.readable() == "Stopped."
    assert here.fake.called("chat.postEphemeral")[-1].args["thread_ts"] == asked.ts
    assert delivery.acked


async def test_a_strangers_stop_is_asked_as_theirs(here: Here) -> None:
    asked = await here.fake.say(here.alice, here.general, "count sheep", mention=True)

    await stop(here, here.bob, asked)
    (told,) = await here.whispered(here.bob)

    assert [who for who, _ in here.inbound.stopped] == [here.who(here.bob)]
    assert told.channel is here.general
    assert not here.fake.ephemerals(here.alice)


async def test_a_stop_without_a_thread_is_for_the_channel(here: Here) -> None:
    event = {"type": "agent_session_stopped", "channel": here.general.id, "user": here.alice.id}

    await here.fake.send(event)
    await here.whispered(here.alice)

    assert here.inbound.stopped == [
        (here.who(here.alice), Place("slack", here.fake.team.id, here.general.id))
    ]


async def test_a_stop_of_nobody_stops_nothing(here: Here) -> None:
    delivery = await here.fake.send({"type": "agent_session_stopped", "channel": here.general.id})

    assert delivery is not None
    assert delivery.acked
    assert not here.inbound.stopped


async def test_the_same_stop_told_again_stops_once(here: Here) -> None:
    asked = await here.fake.say(here.alice, here.general, "count sheep", mention=True)
    delivery = await stop(here, here.alice, asked)
    await here.whispered(here.alice)
    await here.fake.redeliver(delivery)
    await stop(here, here.alice, asked)
    await here.whispered(here.alice, 2)

    assert len(here.inbound.stopped) == 2


async def test_who_may_not_stops_nothing(slack: FakeSlack) -> None:
    _, _, bob = people(slack)
    async with listening(slack, users=(bob.id,)) as here:
        asked = await slack.say(here.alice, here.general, "count sheep")
        await stop(here, here.alice, asked)
        await stop(here, bob, asked)
        await here.whispered(bob)

        assert [who for who, _ in here.inbound.stopped] == [here.who(bob)]


@pytest.mark.parametrize(
    ("error", "words"), [(BotError("My memory is away."), None), (ValueError("a bug"), TROUBLE)]
)
async def test_a_stop_that_fails_is_told(here: Here, error: Exception, words: str | None) -> None:
    asked = await here.fake.say(here.alice, here.general, "count sheep", mention=True)
    here.inbound.failure = error

    await stop(here, here.alice, asked)
    (told,) = await here.whispered(here.alice)

    assert told.readable() == (words or str(error))


async def test_a_slow_stop_is_acknowledged_in_time(slack: FakeSlack) -> None:
    go_on = asyncio.Event()

    class Slow(FakeInboundHandler):
        async def receive(self, incoming: Incoming) -> CommandReply | None:
            await go_on.wait()
            return await super().receive(incoming)

    async with told(slack, Removals(), Slow()) as at:
        asked = await slack.say(at.alice, at.general, "count sheep")
        delivery = await stop(at, at.alice, asked)
        acked, before = delivery.acked, list(at.inbound.stopped)
        go_on.set()
        await at.whispered(at.alice)

        assert (acked, before, len(at.inbound.stopped)) == (True, [], 1)


# --- the bot's removal ----------------------------------------------------------------------------


async def test_a_workspace_that_removes_the_bot_is_forgotten(slack: FakeSlack) -> None:
    removals = Removals()
    async with told(slack, removals):
        delivery = await slack.send({"type": "app_uninstalled"})

        assert removals.places == [slack.team.id]
        assert delivery is not None
        assert delivery.acked


@pytest.mark.parametrize(
    ("tokens", "removed"),
    [
        ({"bot": ["{bot}"]}, True),
        ({"bot": ["U0000000X", "{bot}"], "oauth": ["U0000000Y"]}, True),
        ({"bot": ["U0000000X"]}, False),
        ({"oauth": ["{bot}"]}, False),
        ({"oauth": ["U0000000Y"], "bot": []}, False),
        ({"bot": None}, False),
        ({}, False),
        (None, False),
    ],
)
async def test_only_the_bots_own_token_counts(
    slack: FakeSlack, tokens: Json | None, removed: bool
) -> None:
    me, removals = slack.bot_user().id, Removals()
    if tokens:
        tokens = {kind: [u.format(bot=me) for u in ids or ()] for kind, ids in tokens.items()}
    async with told(slack, removals):
        delivery = await slack.send({"type": "tokens_revoked", "tokens": tokens})

        assert removals.places == ([slack.team.id] if removed else [])
        assert delivery is not None
        assert delivery.acked


async def test_a_removal_that_cannot_be_noted_yet_is_told_again(slack: FakeSlack) -> None:
    removals = Removals()
    removals.failure = DeliveryError("The database is away.")
    async with told(slack, removals):
        slack.deliveries.ack_seconds = 0.3
        delivery = await slack.send({"type": "app_uninstalled"})
        assert delivery is not None
        assert delivery.attempts[0].failure == "http_timeout"
        await slack.until(lambda: delivery.acked, "the second attempt")

        assert removals.places == [slack.team.id] * 2


async def test_a_bot_of_one_workspace_that_is_removed_says_so_in_the_log(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    here.fake.deliveries.immediate_retry = False
    await here.fake.send({"type": "app_uninstalled"})

    assert "The bot was removed from its Slack workspace" in caplog.text


# --- what nobody waits for ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        {"type": "app_context_changed"},
        {"type": "agent_session_title_changed", "title": "x"},
        {"type": "reaction_added", "user": "U1", "item": {"type": "message"}},
        {"type": "never_heard_of"},
        {"type": "message", "subtype": "channel_join", "channel": "C1", "ts": "1.2"},
        {"type": "app_home_opened", "tab": "home"},
        {"type": "app_home_opened"},
    ],
)
async def test_what_nobody_is_interested_in_is_taken(
    here: Here, event: Json, caplog: pytest.LogCaptureFixture
) -> None:
    delivery = await here.fake.send(event)

    assert delivery is not None
    assert (delivery.acked, len(delivery.attempts)) == (True, 1)
    assert not here.inbound.heard
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message", "user": "U1", "text": "no channel", "ts": "1.2"},
        {"type": "message", "user": "U1", "channel": "D1", "text": "no ts"},
        {"type": "app_mention", "user": "U1"},
        {"type": "message", "user": "U1", "channel": "D1", "ts": "1.2", "files": 7},
        {"type": "tokens_revoked", "tokens": "all"},
        {"type": "tokens_revoked", "tokens": {"bot": 7}},
        {"type": "app_uninstalled", "broken": True},
    ],
)
async def test_a_malformed_event_is_taken_and_logged_and_the_next_one_is_heard(
    slack: FakeSlack, event: Json, caplog: pytest.LogCaptureFixture
) -> None:
    removals = Removals()
    if event.get("broken"):
        removals.failure = ValueError("a bug")
    async with told(slack, removals) as at:
        delivery = await slack.send(event)
        said = await slack.say(at.alice, at.general, "hello", mention=True)
        await at.heard()

        assert delivery is not None
        assert (delivery.acked, len(delivery.attempts)) == (True, 1)
        assert [each for each in caplog.records if each.levelno >= logging.ERROR]
        assert at.inbound.heard[-1].place.message == said.ts
