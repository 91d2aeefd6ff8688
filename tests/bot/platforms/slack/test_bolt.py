"""The Bolt app: everything is acknowledged in time, and only what is not stored comes again."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import DatabaseUnreachableError, DeliveryError
from bot.platforms.base import CommandReply, Incoming, Overview
from bot.platforms.slack import blocks, web
from bot.platforms.slack.bolt import bolt_app
from bot.platforms.slack.clients import Clients, Installed, open_session
from bot.platforms.slack.problems import NOT_INSTALLED, RefusedError
from bot.values import Identity, Json, Place
from tests.bot.platforms.slack.hearing import (
    Counter,
    connected,
    counter,
    installed_in,
    new_client_of,
    settings_for,
)
from tests.bot.platforms.slack.speaking import RUN
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.slack.delivery import Delivery
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.surfaces import View

QUICK = 0.05
WAYS = ["socket", "http"]


class Hanging(FakeInboundHandler):
    """Never answers before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def receive(self, incoming: Incoming) -> CommandReply | None:
        await super().receive(incoming)
        await self.go_on.wait()
        return None

    async def overview(self, user: Identity) -> Overview:
        await self.go_on.wait()
        return await super().overview(user)

    async def answer(
        self,
        user: Identity,
        confirmation_id: str,
        *,
        choice: str,
        place: Place | None = None,
        admin: bool = False,
    ) -> CommandReply:
        await self.go_on.wait()
        return await super().answer(user, confirmation_id, choice=choice, admin=admin)


class Moody(Clients):
    """Knows the first workspace only, or cannot say where the bot is.

    Attributes:
        away: Whether it cannot.
        asked: How often it was asked.
    """

    def __init__(self, fake: FakeSlack, client: AsyncWebClient) -> None:
        self._fake = fake
        self._installed = installed_in(fake, client)
        self.away = False
        self.asked = 0

    async def fresh(self, workspace: str, refused: Installed) -> Installed | None:
        return None

    async def find(self, *workspaces: str) -> tuple[str, Installed]:
        self.asked += 1
        if self.away:
            raise DeliveryError("The database is away.")
        if self._fake.team.id not in workspaces:
            raise RefusedError(NOT_INSTALLED)
        return self._fake.team.id, self._installed

    async def remove(self, workspace: str) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="bot")


@asynccontextmanager
async def over_http(at: Counter) -> AsyncIterator[None]:
    """Let what stands at a counter hear by HTTP."""
    made = settings_for(at.fake, mode="http", port=0)
    async with open_session() as session:
        app = bolt_app(at.receiver, at.listener, made, session)
        async with web.listening(app, made, secret=lambda: at.fake.signing_secret) as url:
            at.fake.connect_http(url + web.EVENTS_PATH)
            yield


@asynccontextmanager
async def hearing(
    way: str,
    slack: FakeSlack,
    inbound: FakeInboundHandler | None = None,
    *,
    clients: Clients | None = None,
    stored_seconds: float = QUICK,
    pauses: tuple[float, ...] = (30.0,),
) -> AsyncIterator[Counter]:
    """Let the bot hear over either transport, waiting for little."""
    async with AsyncExitStack() as stack:
        opened = counter(
            slack,
            inbound,
            clients=clients,
            ack_seconds=QUICK,
            stored_seconds=stored_seconds,
            pauses=pauses,
        )
        at = await stack.enter_async_context(opened)
        await stack.enter_async_context(connected(at) if way == "socket" else over_http(at))
        yield at


@asynccontextmanager
async def moody(way: str, slack: FakeSlack) -> AsyncIterator[tuple[Counter, Moody]]:
    async with open_session() as session:
        clients = Moody(slack, new_client_of(slack, session))
        async with hearing(way, slack, clients=clients) as at:
            yield at, clients


@contextmanager
def unacknowledged(slack: FakeSlack, way: str) -> Iterator[None]:
    """Let Slack wait in vain: briefly at a socket, where it is told nothing; by HTTP it is told."""
    before = slack.deliveries.ack_seconds
    slack.deliveries.ack_seconds = 0.3 if way == "socket" else before
    try:
        yield
    finally:
        slack.deliveries.ack_seconds = before


def form_for(at: Counter) -> View:
    """Return the form for a message to a run, as Alice has it before her."""
    remembered = {"run": RUN, "channel": at.general.id, "thread": ""}
    assert at.fake.team.grant is not None
    content = blocks.send_form(RUN, remembered=json.dumps(remembered))
    return at.fake.surfaces.show(content, at.alice, at.fake.team.grant)


def interaction(at: Counter, kind: str, **more: object) -> Delivery:
    """Return something that Alice does with what we offer nowhere."""
    payload: Json = {
        "type": kind,
        "user": at.alice.brief(),
        "team": at.fake.team.to_json(),
        "trigger_id": at.fake.world.new_id("t"),
        **more,
    }
    return Delivery("interactive", kind, payload)


async def test_the_token_that_the_guide_puts_into_the_environment_is_not_warned_of(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", slack.bot_token)

    async with hearing("http", slack):
        pass

    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# --- in time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_a_core_that_hangs_keeps_slack_waiting_for_nothing(
    slack: FakeSlack, way: str
) -> None:
    inbound = Hanging()
    async with hearing(way, slack, inbound) as at:
        said = await slack.say(at.alice, at.general, "hello", mention=True)
        clicks = [
            {"action_id": "run:stop", "value": RUN},
            {"action_id": "ask:yes", "value": "question"},
        ]
        for click in clicks:
            around = {"container": {"channel_id": at.general.id}}
            await slack.deliveries.send(interaction(at, "block_actions", actions=[click], **around))
        await slack.slash(at.alice, at.general, "/subagents", "usage")
        await slack.slash(at.alice, at.general, "/retinue", "help")
        form = await slack.submit(at.alice, form_for(at), {"text": "hello"})
        await slack.open_home(at.alice)
        await slack.stop_clicked(at.alice, at.general, said.ts, force=True)

        told = slack.deliveries.all
        assert len(told) == 9
        assert [each.type for each in told if not each.acked] == []
        assert max(each.acked_after or 0 for each in told) < 3
        assert all(len(each.attempts) == 1 for each in told)
        assert not form.errors
        inbound.go_on.set()


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_wrong_with_a_form_comes_along_with_the_acknowledgement(
    slack: FakeSlack, way: str
) -> None:
    async with hearing(way, slack) as at:
        at.answers(f"/subagents send {RUN} hello", CommandReply(text="It is over.", failed=True))
        await at.knows(at.alice)

        sent = await slack.submit(at.alice, form_for(at), {"text": "hello"})

        assert sent.errors == {blocks.SEND_BLOCK: "It is over."}


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_is_shown_with_other_acknowledgements(slack: FakeSlack, way: str) -> None:
    async with hearing(way, slack) as at:
        at.answers("/subagents usage", "2 of 5")

        asked = await (await slack.slash(at.alice, at.general, "/subagents", "usage")).done()

        assert (asked.text(), asked.payload) == ("2 of 5", {})


@pytest.mark.parametrize("way", WAYS)
async def test_what_we_offer_nowhere_is_acknowledged(slack: FakeSlack, way: str) -> None:
    async with hearing(way, slack) as at:
        odd = [
            interaction(at, "shortcut", callback_id="x"),
            interaction(at, "message_action", callback_id="x", message={}, channel={"id": "C1"}),
            interaction(at, "block_suggestion", action_id="x", block_id="y", value=""),
            interaction(at, "view_submission", view={"callback_id": "x", "type": "modal"}),
        ]
        for each in odd:
            await slack.deliveries.send(each)

        assert [each.type for each in odd if not each.acked] == []
        assert not at.inbound.heard


async def test_slack_is_not_asked_who_we_are_each_time(slack: FakeSlack) -> None:
    async with hearing("socket", slack) as at:
        at.answers("/subagents usage", "2 of 5")
        for _ in range(2):
            await (await slack.slash(at.alice, at.general, "/subagents", "usage")).done()

        assert not slack.called("auth.test")


# --- what is not stored ---------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_a_message_that_is_not_stored_is_told_again_until_it_is(
    slack: FakeSlack, way: str
) -> None:
    slack.deliveries.immediate_retry = False
    async with hearing(way, slack, pauses=(0.2,)) as at:
        await at.knows(at.alice)
        at.inbound.failure = DatabaseUnreachableError("My memory is away.")
        with unacknowledged(slack, way):
            said = await slack.say(at.alice, slack.dm(at.alice), "hello")
        first = [attempt for each in said.events for attempt in each.attempts]
        await at.heard(2)
        await slack.retry_lost()

        failure = "http_error" if way == "http" else "http_timeout"
        assert [(each.failure, each.acked_after) for each in first] == [(failure, None)]
        assert all(each.acked for each in said.events)
        assert at.inbound.texts() == ["hello"] * 2
        if way == "http":
            assert first[0].status == 503


@pytest.mark.parametrize("way", WAYS)
async def test_a_message_over_which_the_core_stumbles_is_not_told_again(
    slack: FakeSlack, way: str
) -> None:
    async with hearing(way, slack) as at:
        at.inbound.failure = ValueError("a bug")

        said = await slack.say(at.alice, slack.dm(at.alice), "hello")

        assert [len(each.attempts) for each in said.events] == [1]
        assert all(each.acked for each in said.events)


@pytest.mark.parametrize("way", WAYS)
async def test_an_event_over_which_we_stumble_is_taken_and_logged(
    slack: FakeSlack, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hearing(way, slack):
        delivery = await slack.send({"type": "tokens_revoked", "tokens": "all"})

        assert delivery is not None
        assert (delivery.acked, len(delivery.attempts)) == (True, 1)
        assert "Something from Slack could not be taken" in caplog.text
        assert "AttributeError" in caplog.text


@pytest.mark.parametrize("way", WAYS)
async def test_a_click_over_which_we_stumble_is_told_to_whoever_clicked(
    slack: FakeSlack, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hearing(way, slack) as at:
        click = interaction(at, "block_actions", actions=[{"action_id": "run:stop"}], container=7)

        with unacknowledged(slack, way):
            attempt = await slack.deliveries.send(click)
        await slack.until(lambda: "could not be taken" in caplog.text, "a line in the log")

        assert not click.acked
        assert attempt.failure == ("http_error" if way == "http" else "http_timeout")
        assert "Something from Slack could not be taken" in caplog.text


# --- where the bot is -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_what_comes_from_a_workspace_where_the_bot_is_not_is_taken_and_passed_over(
    slack: FakeSlack, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = slack.add_team("Other", installed=True)
    carol = slack.add_user("carol", team=other)
    barn = slack.add_channel("barn", team=other)
    async with moody(way, slack) as (at, _):
        said = await slack.say(carol, barn, "hello", mention=True)
        asked = await slack.slash(carol, barn, "/subagents", "usage")
        await slack.open_home(carol)

        assert all(each.acked and len(each.attempts) == 1 for each in slack.deliveries.all)
        assert len(said.events) == 2
        assert (asked.posts, at.inbound.heard) == ([], [])
        assert slack.home(carol) is None
        assert "a Slack workspace where the bot is not" in caplog.text


@pytest.mark.parametrize("way", WAYS)
async def test_while_it_cannot_be_told_where_the_bot_is_events_are_not_taken(
    slack: FakeSlack, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    slack.deliveries.immediate_retry = False
    async with moody(way, slack) as (at, clients):
        clients.away = True
        with unacknowledged(slack, way):
            said = await slack.say(at.alice, slack.dm(at.alice), "hello")
            asked = await slack.slash(at.alice, at.general, "/subagents", "usage")
        before = [each.acked for each in slack.deliveries.all]
        clients.away = False
        await slack.retry_lost()
        await at.heard()

        assert before == [False, False]
        assert "Something from Slack is not taken yet: The database is away." in caplog.text
        assert asked.failure in {"dispatch_failed", "operation_timeout"}
        assert all(each.acked for each in said.events)
        assert at.inbound.texts() == ["hello"]


async def test_the_address_is_verified_wherever_the_bot_is(slack: FakeSlack) -> None:
    async with moody("http", slack) as (_, clients):
        clients.away = True

        response = await slack.webhook.verify()

        assert (response.status, json.loads(response.text)) == (200, {"challenge": "a challenge"})
        assert clients.asked == 0


async def test_signatures_are_left_to_the_transport(slack: FakeSlack) -> None:
    async with hearing("http", slack) as at:
        slack.webhook.secret = "not the secret"
        refused = await slack.slash(at.alice, at.general, "/subagents", "usage")

        assert refused.failure == "dispatch_failed"
        assert not at.inbound.heard


async def test_what_cannot_be_placed_in_time_is_not_taken_and_not_done(slack: FakeSlack) -> None:
    go_on = asyncio.Event()

    class Slow(Moody):
        async def find(self, *workspaces: str) -> tuple[str, Installed]:
            await go_on.wait()
            return await super().find(*workspaces)

    async with open_session() as session:
        clients = Slow(slack, new_client_of(slack, session))
        async with hearing("http", slack, clients=clients) as at:
            typed = await slack.slash(at.alice, at.general, "/subagents", "spawn Dig")

            assert typed.failure == "dispatch_failed"
            assert at.inbound.heard == []
            go_on.set()
