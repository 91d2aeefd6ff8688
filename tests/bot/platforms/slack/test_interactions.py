"""Whoever reaches the bot: let in, heard once, and answered, however long it takes."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from slack_bolt.async_app import AsyncAck

from bot.errors import BotError, DatabaseUnreachableError, DeliveryError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.messaging.intake import NOT_YOU, TROUBLE
from bot.platforms.slack.clients import Clients, Installed
from bot.platforms.slack.interactions import ACK_SECONDS, AdmittedInteraction
from bot.platforms.slack.people import NO_DIRECT_MESSAGES, NOT_THIS_CHANNEL, NOT_THIS_WORKSPACE
from bot.platforms.slack.problems import NOT_INSTALLED, RefusedError
from bot.values import Identity, Json, Place
from tests.bot.platforms.slack.hearing import (
    Counter,
    Here,
    connected,
    counter,
    listening,
    people,
)
from tests.bot.platforms.slack.speaking import RUN
from tests.bot.platforms.slack.test_home import opened, run_of, seen
from tests.fakes.inbound import FakeInboundHandler, SlowInboundHandler
from tests.fakes.slack.answers import Answer
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import Team, User

QUICK = 0.05


class Elsewhere(Clients):
    """Knows nothing of any workspace, or cannot say."""

    def __init__(self, error: DeliveryError | None = None) -> None:
        self.error = error

    async def find(self, *workspaces: str) -> tuple[str, Installed]:
        raise self.error or RefusedError(NOT_INSTALLED)

    async def fresh(self, workspace: str, refused: Installed) -> Installed | None:
        return None

    async def remove(self, workspace: str) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="bot")


@pytest.fixture
async def here(slack: FakeSlack) -> AsyncIterator[Here]:
    async with listening(slack) as opened:
        opened.answers("/subagents usage", "2 of 5")
        yield opened


@asynccontextmanager
async def at_the_counter(
    slack: FakeSlack, inbound: FakeInboundHandler | None = None, clients: Clients | None = None
) -> AsyncIterator[Counter]:
    """Let the bot listen that waits for little."""
    async with AsyncExitStack() as stack:
        opened = counter(slack, inbound, clients=clients, ack_seconds=QUICK)
        at = await stack.enter_async_context(opened)
        await stack.enter_async_context(connected(at))
        yield at


async def usage(here: Here | Counter, user: User | None = None) -> Answer:
    """Let somebody, Alice unless it is said, ask for their usage; it is acknowledged then."""
    return await here.fake.slash(user or here.alice, here.general, "/subagents", "usage")


def click(at: Counter, **more: object) -> Json:
    """Return what Slack tells of a click of Alice's."""
    return {
        "type": "block_actions",
        "user": at.alice.brief(),
        "team": at.fake.team.to_json(),
        "trigger_id": "7.7.trigger",
        **more,
    }


async def visited(at: Counter, body: Json) -> list[AdmittedInteraction]:
    """Let somebody in, and return their visit if they were let in."""
    found: list[AdmittedInteraction] = []

    async def handle(admitted: AdmittedInteraction) -> None:
        found.append(admitted)

    await at.tasks.start(at.receiver.admit(body, handle), name="attend")
    return found


# --- in time --------------------------------------------------------------------------------------


async def test_what_is_quick_is_answered_before_it_is_acknowledged(slack: FakeSlack) -> None:
    async with listening(slack) as here:
        here.answers("/subagents usage", "2 of 5")

        asked = await usage(here)

        assert asked.text() == "2 of 5"
        assert asked.acked_after is not None


async def test_what_takes_long_is_acknowledged_in_time_and_answered_when_it_is_done(
    slack: FakeSlack,
) -> None:
    inbound = SlowInboundHandler()
    async with at_the_counter(slack, inbound) as at:
        asked = await usage(at)
        shown_before = list(asked.posts)
        inbound.go_on.set()
        await asked.done()

        assert asked.acked_after is not None
        assert QUICK <= asked.acked_after < 3
        assert not shown_before
        assert (asked.text(), asked.ephemeral) == ("2 of 5", True)


def test_slack_is_told_well_within_its_three_seconds() -> None:
    assert ACK_SECONDS <= 2.5


def new_ack() -> AsyncAck:
    return AsyncAck()  # type: ignore[no-untyped-call]


async def test_what_a_handler_says_is_the_acknowledgement_unless_it_takes_too_long(
    slack: FakeSlack,
) -> None:
    go_on, done = asyncio.Event(), asyncio.Event()

    async def quick(body: Json, ack: AsyncAck) -> None:
        await ack(text="done")

    async def slow(body: Json, ack: AsyncAck) -> None:
        await go_on.wait()
        done.set()

    async with counter(slack, ack_seconds=QUICK) as at:
        said, silent = new_ack(), new_ack()
        await at.receiver.in_time(quick)({}, said)
        await at.receiver.in_time(slow)({}, silent)
        assert said.response is not None
        assert "done" in said.response.body
        assert silent.response is not None
        assert not silent.response.body
        go_on.set()
        await asyncio.wait_for(done.wait(), 5)


async def test_what_goes_wrong_at_once_is_told_and_later_is_logged(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = asyncio.Event()

    async def quick(body: Json, ack: AsyncAck) -> None:
        raise ValueError("a bug")

    async def slow(body: Json, ack: AsyncAck) -> None:
        await go_on.wait()
        raise ValueError("a bug")

    async with counter(slack, ack_seconds=QUICK) as at:
        with pytest.raises(ValueError, match="a bug"):
            await at.receiver.in_time(quick)({}, new_ack())
        await at.receiver.in_time(slow)({}, new_ack())
        go_on.set()
        await at.tasks.wait_idle(5)

        assert "The task slow failed" in caplog.text


async def test_what_is_being_seen_to_is_waited_for_at_the_end(slack: FakeSlack) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(_: AdmittedInteraction) -> None:
        begun.set()
        await go_on.wait()

    async with counter(slack) as at:
        attended = at.tasks.start(at.receiver.admit(click(at), handle), name="attend")
        await asyncio.wait_for(begun.wait(), 5)
        idle = at.tasks.start(at.receiver.reception.wait_idle(5), name="wait")
        early, _ = await asyncio.wait({attended, idle}, timeout=QUICK)
        go_on.set()
        await idle

        assert not early
        assert attended.done()


# --- once -----------------------------------------------------------------------------------------


async def test_the_same_thing_told_twice_at_once_is_done_once(slack: FakeSlack) -> None:
    inbound = SlowInboundHandler()
    async with at_the_counter(slack, inbound) as at:
        asked = await usage(at)
        assert asked.delivery is not None
        await slack.redeliver(asked.delivery)
        await slack.redeliver(asked.delivery)
        inbound.go_on.set()
        await asked.done()
        await (await usage(at, at.bob)).done()

        assert [each.user for each in inbound.heard] == [at.who(at.alice), at.who(at.bob)]
        assert asked.text() == "2 of 5"
        assert asked.delivery.acked


async def test_a_form_told_twice_at_once_is_heard_once(here: Here) -> None:
    here.inbound.runs[here.who(here.alice)] = [(RUN, "news")]
    asked = await here.fake.slash(here.alice, here.general, "/subagents", f"send {RUN}")
    sent = await here.fake.submit(here.alice, await asked.done(), {"text": "hello"})
    assert sent.delivery is not None
    await here.fake.redeliver(sent.delivery)

    assert here.inbound.texts() == [f"/subagents send {RUN} hello"]


# --- where, and who -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("around", "channel", "thread"),
    [
        ({}, "", ""),
        ({"channel_id": "C1"}, "C1", ""),
        ({"container": {"channel_id": "C1", "thread_ts": "1.2"}}, "C1", "1.2"),
        ({"channel": {"id": "C1"}, "message": {"thread_ts": "1.2"}}, "C1", "1.2"),
        ({"channel": {"id": "C1"}, "message": {"ts": "1.2"}}, "C1", ""),
        (
            {"container": {"channel_id": "C1", "thread_ts": "1.2"}, "channel": {"id": "C2"}},
            "C1",
            "1.2",
        ),
        ({"container": None, "message": None, "channel": None}, "", ""),
        ({"container": {"type": "view", "view_id": "V1"}}, "", ""),
    ],
)
async def test_a_visit_is_where_it_was_clicked(
    slack: FakeSlack, around: Json, channel: str, thread: str
) -> None:
    async with counter(slack) as at:
        (admitted,) = await visited(at, click(at, response_url="https://x.example", **around))

        assert admitted.place == Place("slack", slack.team.id, channel, thread)
        assert admitted.event_id == "interaction:7.7.trigger"
        assert admitted.user.account == at.alice.id
        assert admitted.response_url == "https://x.example"


async def test_an_organisations_installation_is_told_from_the_workspace(slack: FakeSlack) -> None:
    org = slack.add_team("Org", enterprise="E0000001")
    slack.team.grant = slack.world.grant(org, org_wide=True)
    carol = slack.add_user("carol", team=org)
    channel = slack.add_channel("barn", team=org)
    async with listening(slack) as here:
        here.answers("/subagents usage", "2 of 5")
        here.answers(f"/subagents stop {RUN}", "Stopping it.")
        owner = Identity("slack", "E0000001", carol.id)
        here.inbound.overviews[owner] = seen(run_of(owner))

        asked = await (await slack.slash(carol, channel, "/subagents", "usage")).done()
        # Slack names no team with what was clicked there.
        clicked = await (await slack.click(carol, await opened(here, carol), "Stop")).done()

        workspace = f"E0000001.{org.id}"
        assert asked.text() == "2 of 5"
        assert clicked.view is not None
        assert [each.user for each in here.inbound.heard] == [owner, owner]
        assert [each.place for each in here.inbound.heard] == [
            Place("slack", workspace, channel.id),
            Place("slack", workspace),
        ]


async def test_in_a_workspace_where_the_bot_is_not_nothing_is_done_and_it_is_logged(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    async with counter(slack, clients=Elsewhere()) as at:
        assert await visited(at, click(at)) == []
        assert "The bot is not installed in that Slack workspace" in caplog.text
        assert not at.inbound.heard


async def test_what_cannot_be_told_now_is_logged(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    async with counter(slack, clients=Elsewhere(DeliveryError("The database is away."))) as at:
        assert await visited(at, click(at)) == []
        assert "is not heard: The database is away." in caplog.text


# --- who may --------------------------------------------------------------------------------------


async def test_who_may_not_is_told_alone_each_time(slack: FakeSlack) -> None:
    _, _, bob = people(slack)
    async with listening(slack, users=(bob.id,)) as here:
        here.answers("/subagents usage", "2 of 5")
        refused = [await (await usage(here)).done() for _ in range(2)]
        let_in = await (await usage(here, bob)).done()

        assert [(each.text(), each.ephemeral) for each in refused] == [(NOT_YOU, True)] * 2
        assert let_in.text() == "2 of 5"
        assert [each.user for each in here.inbound.heard] == [here.who(bob)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"channels": ("C99999999",)}, NOT_THIS_CHANNEL),
        ({"workspaces": ("T99999999",)}, NOT_THIS_WORKSPACE),
    ],
)
async def test_where_the_bot_does_not_serve_it_says_so_to_the_asker(
    slack: FakeSlack, settings: Json, words: str
) -> None:
    async with listening(slack, None, **settings) as here:
        asked = await (await usage(here)).done()

        assert (asked.text(), asked.ephemeral) == (words, True)
        assert not here.inbound.heard


async def test_where_direct_messages_are_off_a_command_there_says_so(slack: FakeSlack) -> None:
    async with listening(slack, direct_messages=False) as here:
        private = slack.dm(here.alice)

        asked = await (await slack.slash(here.alice, private, "/subagents", "usage")).done()

        assert asked.text() == NO_DIRECT_MESSAGES


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (BotError("Ask Alice."), "Ask Alice."),
        (DatabaseUnreachableError("My memory is away."), "My memory is away."),
        (ValueError("a bug"), TROUBLE),
        (DeliveryError("Not now."), "Not now."),
    ],
)
async def test_whatever_the_core_raises_is_a_sentence(
    here: Here, error: Exception, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    here.inbound.failure = error

    asked = await (await usage(here)).done()
    again = await (await usage(here)).done()

    assert (asked.text(), again.text()) == (words, "2 of 5")
    assert ("a bug" in caplog.text) == (words == TROUBLE)


async def test_a_mistake_of_ours_is_said_and_logged(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(FakeInboundHandler):
        async def receive(self, incoming: Incoming) -> CommandReply | None:
            return "no reply at all"  # type: ignore[return-value]

    async with listening(slack, Odd()) as here:
        asked = await (await usage(here)).done()

        assert (asked.text(), asked.ephemeral) == (TROUBLE, True)
        assert "AttributeError" in caplog.text


async def test_where_even_that_cannot_be_said_the_log_has_it(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(slack) as here:
        here.inbound.failure = ValueError("a bug")
        for method in ("response_url", "chat.postEphemeral"):
            slack.fail(method, error="internal_error", status=500, times=None)

        await usage(here)
        await slack.until(lambda: "An answer in" in caplog.text, "a line in the log")
        slack.heal()
        here.answers("/subagents usage", "2 of 5")

        assert (await (await usage(here)).done()).text() == "2 of 5"


async def test_an_answer_that_slack_takes_no_more_that_way_comes_another_way(here: Here) -> None:
    here.fake.fail("response_url", error="expired_url", status=404)

    asked = await (await usage(here)).done()

    assert (asked.text(), asked.ephemeral) == ("2 of 5", True)
    assert len(here.fake.called("chat.postEphemeral")) == 1


async def test_the_name_of_somebody_unknown_is_no_reason_to_wait_or_fail(here: Here) -> None:
    here.fake.fail("users.info", error="user_not_found")

    assert (await (await usage(here)).done()).text() == "2 of 5"
    assert here.inbound.heard[0].user_name == here.alice.id


def other_team(slack: FakeSlack) -> Team:
    """Return a workspace where the bot is not."""
    return slack.add_team("Other")


async def test_a_guest_from_another_organisation_is_somebody_else_here(slack: FakeSlack) -> None:
    async with counter(slack) as at:
        team = other_team(slack)
        guest = at.fake.add_user("guest", team=team)
        body = click(at, user=guest.brief(), channel={"id": at.general.id})

        (admitted,) = await visited(at, body)

        assert admitted.user.identity == Identity("slack", team.id, guest.id)
        assert admitted.place.workspace == slack.team.id
