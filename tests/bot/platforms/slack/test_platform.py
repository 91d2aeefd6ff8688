"""Slack as a whole: opened for speaking, or for hearing as well, and closed without a loss."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from bot.errors import BotError, ConfigError, PlatformUnreachableError
from bot.platforms.base import CommandReply
from bot.platforms.messages import Missed
from bot.platforms.slack.live import Tempo
from bot.platforms.slack.platform import Slack, open_platform
from bot.platforms.slack.settings import SlackSettings
from bot.platforms.slack.texts import THINKING
from bot.tasks import Tasks
from bot.values import Identity, Live, Place, RunStatus, utc_now
from tests.bot.platforms.slack import installing
from tests.bot.platforms.slack.hearing import listening, people, settings_for
from tests.bot.platforms.slack.installing import nowhere
from tests.bot.platforms.slack.speaking import AT_ONCE
from tests.bot.platforms.slack.test_home import run_of
from tests.fakes.inbound import FakeInboundHandler, SlowInboundHandler
from tests.fakes.ports import free_port
from tests.fakes.slack.agents import Status
from tests.fakes.slack.delivery import Delivery
from tests.fakes.slack.server import FakeSlack

OPEN = "apps.connections.open"


@asynccontextmanager
async def opened(
    settings: Live[SlackSettings], *, receives: bool, tempo: Tempo = AT_ONCE, **more: Any
) -> AsyncIterator[Slack]:
    """Open Slack; one workspace needs no database."""
    async with (
        nowhere() as database,
        open_platform(settings, database, receives=receives, tempo=tempo, **more) as platform,
    ):
        yield platform


# --- for speaking ---------------------------------------------------------------------------------


async def test_for_speaking_it_needs_its_own_token_and_opens_no_connection(
    slack: FakeSlack,
) -> None:
    settings = settings_for(slack, app_token=SecretStr("xapp-1-wrong"))

    async with opened(settings, receives=False) as platform:
        assert platform.outlet.platform == platform.intake.platform == "slack"

    assert [call.method for call in slack.calls] == ["auth.test"]
    assert slack.sockets.connections == 0


async def test_for_speaking_by_http_nothing_listens(slack: FakeSlack) -> None:
    settings = settings_for(slack, mode="http", app_token=None, port=0)

    async with opened(settings, receives=False):
        assert [call.method for call in slack.calls] == ["auth.test"]


async def test_what_was_to_be_shown_last_is_shown_before_it_closes(slack: FakeSlack) -> None:
    channel, alice, _ = people(slack)
    owner = Identity("slack", slack.team.id, alice.id)
    async with opened(settings_for(slack), receives=False) as platform:
        place = Place("slack", slack.team.id, channel.id)
        platform.outlet.show_card(replace(run_of(owner, RunStatus.COMPLETED), place=place))

    (message,) = slack.said(channel)
    assert "completed" in message.readable()


async def test_blanks_around_a_token_do_no_harm(slack: FakeSlack) -> None:
    settings = settings_for(slack, bot_token=SecretStr(f"{slack.bot_token}\n"))

    async with opened(settings, receives=False):
        assert slack.calls[0].error == ""


# --- tokens that are refused ----------------------------------------------------------------------


async def refused(settings: SlackSettings, *, receives: bool = True) -> str:
    """Return why it does not open."""
    with pytest.raises(ConfigError) as raised:
        async with opened(settings, receives=receives):
            pass
    return str(raised.value)


async def test_a_wrong_bot_token_says_where_the_right_one_is(slack: FakeSlack) -> None:
    text = await refused(settings_for(slack, bot_token=SecretStr("xoxb-wrong")))

    assert "`slack.bot_token` (or SLACK_BOT_TOKEN): invalid_auth" in text
    assert "page OAuth & Permissions" in text
    assert "xoxb-wrong" not in text
    assert not slack.called(OPEN)


@pytest.mark.parametrize("code", ["token_revoked", "account_inactive", "token_expired"])
async def test_a_revoked_bot_token_is_named_as_such(slack: FakeSlack, code: str) -> None:
    assert slack.team.grant is not None
    slack.team.grant.revoked = code

    assert f": {code}." in await refused(settings_for(slack), receives=False)


async def test_a_wrong_app_token_is_found_out_before_anything_runs(slack: FakeSlack) -> None:
    text = await refused(settings_for(slack, app_token=SecretStr("xapp-1-wrong")))

    assert "`slack.app_token` (or SLACK_APP_TOKEN)" in text
    assert slack.sockets.connections == 0


@pytest.mark.parametrize("method", ["auth.test", OPEN])
async def test_a_slack_that_is_out_of_order_is_told_apart_from_a_wrong_token(
    slack: FakeSlack, method: str
) -> None:
    slack.fail(method, error="internal_error", times=None)

    with pytest.raises(PlatformUnreachableError, match="out of order"):
        async with opened(settings_for(slack), receives=True):
            pass


async def test_a_slack_that_is_not_there_is_out_of_reach(slack: FakeSlack) -> None:
    settings = settings_for(slack, api_url="http://127.0.0.1:9/api/")

    with pytest.raises(PlatformUnreachableError, match="cannot be reached"):
        async with opened(settings, receives=True):
            pass


# --- for hearing ----------------------------------------------------------------------------------


async def test_for_hearing_it_listens_until_it_is_stopped(slack: FakeSlack) -> None:
    async with listening(slack) as here:
        here.answers("/subagents usage", "2 of 5")
        asked = await (await slack.slash(here.alice, here.general, "/subagents", "usage")).done()
        assert slack.sockets_open == 1
    await slack.until(lambda: not slack.sockets_open, "a closed connection")

    assert asked.text() == "2 of 5"


async def test_by_http_it_listens_with_the_secret_of_the_moment(slack: FakeSlack) -> None:
    secrets = [SecretStr("an old secret")]
    port = free_port()
    made = settings_for(slack, mode="http", port=port, signing_secret=secrets[0])
    inbound, tasks = FakeInboundHandler(), Tasks()
    channel, alice, _ = people(slack)
    inbound.commands["/subagents usage"] = CommandReply(text="2 of 5")
    slack.connect_http(f"http://127.0.0.1:{port}/slack/events")

    def current() -> SlackSettings:
        return made.model_copy(update={"signing_secret": secrets[-1]})

    async with opened(current, receives=True) as platform:
        tasks.start(platform.intake.run(inbound), name="listen")
        try:
            await reachable(port)
            before = await slack.slash(alice, channel, "/subagents", "usage")
            secrets.append(SecretStr(f" {slack.signing_secret}\n"))
            after = await (await slack.slash(alice, channel, "/subagents", "usage")).done()
        finally:
            await tasks.close()

    assert (before.failure, after.text()) == ("dispatch_failed", "2 of 5")
    assert not slack.called(OPEN)


async def reachable(port: int) -> None:
    """Wait until somebody listens."""
    async with asyncio.timeout(5):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return


async def test_threads_that_a_dead_process_left_are_cleared_at_the_start(slack: FakeSlack) -> None:
    channel, alice, _ = people(slack)
    left = await slack.say(alice, channel, "hello", mention=True)
    busy = await slack.say(alice, channel, "and you?", mention=True)
    for message in (left, busy):
        where = (channel.id, message.ts)
        slack.agents.sessions[where] = "processing"
        slack.agents.texts[where] = Status("text", *where, THINKING, 1e12)
    inbound = FakeInboundHandler()
    inbound.idle = [
        Place("slack", slack.team.id, channel.id, left.ts, left.ts),
        Place("discord", "", "1", "2"),
    ]
    async with listening(slack, inbound):
        await slack.until(
            lambda: (
                slack.session(channel, left.ts) == "active" and not slack.status(channel, left.ts)
            ),
            "a thread at rest",
        )

        assert slack.session(channel, busy.ts) == "processing"
        assert slack.status(channel, busy.ts) == THINKING


async def test_when_it_is_not_known_where_it_was_at_work_it_listens_all_the_same(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(FakeInboundHandler):
        async def idle_places(self, platform: str) -> list[Place]:
            raise BotError("My memory is away.")

    async with listening(slack, Forgetful()) as here:
        await slack.until(lambda: "My memory is away." in caplog.text, "a line in the log")
        here.answers("/subagents usage", "2 of 5")

        asked = await (await slack.slash(here.alice, here.general, "/subagents", "usage")).done()

        assert asked.text() == "2 of 5"


async def test_an_organisations_token_serves_all_of_its_workspaces(slack: FakeSlack) -> None:
    one = slack.add_team("One", enterprise="E0000001")
    two = slack.add_team("Two", enterprise="E0000001")
    slack.team.grant = slack.world.grant(one, org_wide=True)
    async with listening(slack) as here:
        here.answers("/subagents usage", "2 of 5")
        for team in (one, two):
            carol = slack.add_user("carol", team=team)
            channel = slack.add_channel("barn", team=team)
            asked = await (await slack.slash(carol, channel, "/subagents", "usage")).done()
            assert asked.text() == "2 of 5"

        workspaces = [each.place.workspace for each in here.inbound.heard]
        assert workspaces == [f"E0000001.{one.id}", f"E0000001.{two.id}"]
        assert {each.user.workspace for each in here.inbound.heard} == {"E0000001"}


async def test_a_token_of_one_workspace_names_it_whatever_else_a_payload_names(
    slack: FakeSlack,
) -> None:
    other = slack.add_team("Other")
    guest = slack.add_user("guest", team=other)
    payload = {
        "type": "block_actions",
        "user": guest.brief(),
        "team": other.to_json(),
        "trigger_id": "1",
        "actions": [{"action_id": "run:stop", "value": "1a2b"}],
    }
    async with listening(slack) as here:
        await slack.deliveries.send(Delivery("interactive", "block_actions", payload))
        await here.heard()

        assert here.inbound.heard[0].user == Identity("slack", other.id, guest.id)
        assert here.inbound.heard[0].place == Place("slack", slack.team.id)


async def test_a_removed_bot_of_one_workspace_says_so(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(slack):
        await slack.send({"type": "app_uninstalled"})

    assert "install it again on the page OAuth & Permissions" in caplog.text


async def test_after_a_gap_places_are_read_at_the_pace_of_slack(slack: FakeSlack) -> None:
    channel, alice, _ = people(slack)
    channels = [channel, slack.add_channel("other")]
    for each in channels:
        await slack.say(alice, each, "hello", mention=True)
    inbound, tasks, since = FakeInboundHandler(), Tasks(), utc_now() - timedelta(minutes=5)
    places = tuple(Place("slack", slack.team.id, each.id) for each in channels)
    inbound.gap = Missed(
        since=since, heard_at=since, places=places, most_places=100, most_messages=50
    )
    inbound.commands["/subagents usage"] = CommandReply(text="2 of 5")
    async with opened(settings_for(slack), receives=True, pause_seconds=3600) as platform:
        tasks.start(platform.intake.run(inbound), name="listen")
        await inbound.until(lambda: bool(inbound.heard), "the message in the first place")
        await (await slack.slash(alice, channel, "/subagents", "usage")).done()
        read = [call.args["channel"] for call in slack.called("conversations.history")]
        await tasks.close()

    assert read == [channel.id]


# --- closing --------------------------------------------------------------------------------------


async def test_what_was_heard_before_it_stops_is_answered(slack: FakeSlack) -> None:
    inbound, tasks = SlowInboundHandler(), Tasks()
    channel, alice, _ = people(slack)
    async with opened(settings_for(slack), receives=True) as platform:
        running = tasks.start(platform.intake.run(inbound), name="listen")
        await slack.connected()
        typing = asyncio.ensure_future(slack.slash(alice, channel, "/subagents", "usage"))
        await inbound.until(lambda: bool(inbound.heard), "the command")
        running.cancel()
        await slack.until(lambda: not slack.sockets_open, "a closed connection")
        early, _ = await asyncio.wait({running}, timeout=0.2)
        inbound.go_on.set()
        await asyncio.wait({running}, timeout=5)
        asked = await (await typing).done()

    assert (early, running.cancelled()) == (set(), True)
    assert asked.text() == "2 of 5"


async def test_what_is_not_due_for_long_does_not_keep_it_from_closing(slack: FakeSlack) -> None:
    channel, alice, _ = people(slack)
    place = Place("slack", slack.team.id, channel.id)
    card = replace(run_of(Identity("slack", slack.team.id, alice.id)), place=place)
    async with (
        asyncio.timeout(12),
        opened(
            settings_for(slack), receives=False, tempo=replace(AT_ONCE, edit_seconds=60.0)
        ) as platform,
    ):
        platform.outlet.show_card(card)
        await slack.until(lambda: slack.said(channel), "a card")
        platform.outlet.show_card(replace(card, line="half of it"))

    assert "half of it" not in slack.said(channel)[0].readable()
    assert "update a run card" not in {task.get_name() for task in asyncio.all_tasks()}


# --- many workspaces ------------------------------------------------------------------------------


async def test_for_many_workspaces_nothing_is_asked_at_the_start(slack: FakeSlack) -> None:
    async with opened(installing.settings_for(slack), receives=True) as platform:
        assert platform.outlet.platform == "slack"

    assert not slack.calls
