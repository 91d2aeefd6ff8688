"""Socket Mode: connections that Slack refuses, renews, breaks and limits."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import aiohttp
import pytest
from pydantic import SecretStr, ValidationError
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.authorization import AuthorizeResult

from bot.errors import ConfigError, PlatformUnreachableError
from bot.platforms.slack import sockets
from bot.platforms.slack.clients import open_session
from bot.platforms.slack.settings import SlackSettings
from bot.tasks import Tasks
from bot.values import Json
from tests.bot.platforms.slack.hearing import settings_for
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import User
from tests.fakes.slack.sockets import MAX_SOCKETS

OPEN = "apps.connections.open"
#: A connection counts as dead after four of them without a sign: a machine may well halt for one.
OFTEN = 0.5


@dataclass
class Listener:
    """A real app of Bolt's that keeps the commands it hears."""

    heard: list[str] = field(default_factory=list)
    app: AsyncApp = field(init=False)

    def __post_init__(self) -> None:
        self.app = AsyncApp(
            authorize=authorize, request_verification_enabled=False, process_before_response=True
        )
        self.app.command("/retinue")(self._command)

    async def _command(self, body: Json, ack: AsyncAck) -> None:
        self.heard.append(str(body["text"]))
        await ack()


async def authorize() -> AuthorizeResult:
    return AuthorizeResult(
        enterprise_id=None, team_id="T1", bot_token="xoxb-1", bot_user_id="UB", bot_id="B1"
    )


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as opened:
        yield opened


@pytest.fixture
def alice(slack: FakeSlack) -> User:
    user = slack.add_user("alice")
    slack.add_channel("general")
    return user


async def reaches(slack: FakeSlack, user: User, text: str) -> bool:
    """Type a command, and say whether it was acknowledged."""
    channel = next(iter(slack.world.channels.values()))
    return (await slack.slash(user, channel, "/retinue", text)).acked_after is not None


def asked(slack: FakeSlack) -> int:
    return len(slack.called(OPEN))


# --- whether Slack would open a connection --------------------------------------------------------


async def test_a_good_token_is_good(slack: FakeSlack, session: aiohttp.ClientSession) -> None:
    await sockets.ask_for_connection(settings_for(slack), session)

    assert (asked(slack), slack.sockets.connections) == (1, 0)


async def test_blanks_around_the_token_do_no_harm(
    slack: FakeSlack, session: aiohttp.ClientSession, alice: User
) -> None:
    settings = settings_for(slack, app_token=SecretStr(f"  {slack.app_token}\n"))
    listener = Listener()

    await sockets.ask_for_connection(settings, session)
    async with sockets.connected(listener.app, settings, session):
        await slack.connected()

        assert await reaches(slack, alice, "hello")


async def test_a_wrong_token_says_where_to_make_a_new_one(
    slack: FakeSlack, session: aiohttp.ClientSession
) -> None:
    settings = settings_for(slack, app_token=SecretStr("xapp-1-wrong"))

    with pytest.raises(ConfigError, match="under App-Level Tokens") as raised:
        await sockets.ask_for_connection(settings, session)

    assert "`slack.app_token` (or SLACK_APP_TOKEN)" in str(raised.value)
    assert "xapp-1-wrong" not in str(raised.value)


def test_a_bot_token_is_no_app_token(slack: FakeSlack) -> None:
    with pytest.raises(ValidationError, match="must begin with xapp-"):
        settings_for(slack, app_token=SecretStr(slack.bot_token))


async def test_a_bot_token_that_came_through_is_refused_in_words(
    slack: FakeSlack, session: aiohttp.ClientSession
) -> None:
    settings = settings_for(slack).model_copy(update={"app_token": SecretStr(slack.bot_token)})

    with pytest.raises(ConfigError, match="make a new one"):
        await sockets.ask_for_connection(settings, session)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("invalid_auth", "Slack refuses `slack.app_token`"),
        ("not_authed", "Slack refuses `slack.app_token`"),
        ("account_inactive", "Slack refuses `slack.app_token`"),
        ("token_revoked", "Slack refuses `slack.app_token`"),
        ("not_allowed_token_type", "Slack refuses `slack.app_token`"),
        ("missing_scope", "may not open connections.*connections:write"),
        ("forbidden_for_socket_mode", r"\(forbidden_for_socket_mode\).*switch on Socket Mode"),
        ("no_permission", "or set `slack.mode: http`"),
    ],
)
async def test_what_slack_refuses_for_good_says_what_to_do(
    slack: FakeSlack, session: aiohttp.ClientSession, code: str, words: str
) -> None:
    slack.fail(OPEN, error=code)

    with pytest.raises(ConfigError, match=words):
        await sockets.ask_for_connection(settings_for(slack), session)


@pytest.mark.parametrize(
    "trouble",
    [
        {"error": "ratelimited", "status": 429, "retry_after": 1},
        {"error": "internal_error"},
        {"status": 503},
        {"body": "<html>a captive portal</html>"},
        {"refuse": True},
    ],
)
async def test_what_may_pass_is_told_apart_from_what_will_not(
    slack: FakeSlack, session: aiohttp.ClientSession, trouble: Json
) -> None:
    slack.fail(OPEN, **trouble)

    with pytest.raises(PlatformUnreachableError, match=r"Slack"):
        await sockets.ask_for_connection(settings_for(slack), session)


async def test_a_slack_that_is_not_there_is_out_of_reach(session: aiohttp.ClientSession) -> None:
    settings = SlackSettings(
        bot_token=SecretStr("xoxb-1"),
        app_token=SecretStr("xapp-1"),
        api_url="http://127.0.0.1:9/api/",
    )

    with pytest.raises(PlatformUnreachableError, match="cannot be reached"):
        await sockets.ask_for_connection(settings, session)


# --- a connection that stands ---------------------------------------------------------------------


async def test_what_is_done_is_heard_while_the_block_lasts_and_not_after(
    slack: FakeSlack, session: aiohttp.ClientSession, alice: User
) -> None:
    listener = Listener()
    async with sockets.connected(listener.app, settings_for(slack), session):
        await slack.connected()
        during = await reaches(slack, alice, "during")
    await slack.until(lambda: not slack.sockets_open, "a closed connection")
    after = await reaches(slack, alice, "after")

    assert (during, after, listener.heard) == (True, False, ["during"])
    assert not session.closed


async def test_it_is_closed_when_the_block_fails(
    slack: FakeSlack, session: aiohttp.ClientSession
) -> None:
    async def fail() -> None:
        async with sockets.connected(Listener().app, settings_for(slack), session):
            await slack.connected()
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await fail()

    await slack.until(lambda: not slack.sockets_open, "a closed connection")


@pytest.mark.parametrize("reason", ["refresh_requested", "warning", "link_disabled"])
async def test_a_connection_that_slack_renews_loses_nothing(
    slack: FakeSlack, session: aiohttp.ClientSession, alice: User, reason: str
) -> None:
    listener = Listener()
    async with sockets.connected(listener.app, settings_for(slack), session):
        await slack.connected()
        for number in range(2):
            await slack.refresh_socket(reason)
            await slack.until(lambda: slack.sockets_open == 1, "one connection")
            assert await reaches(slack, alice, str(number))

    assert listener.heard == ["0", "1"]


async def test_a_connection_that_breaks_without_a_word_is_opened_again(
    slack: FakeSlack, session: aiohttp.ClientSession, alice: User
) -> None:
    listener = Listener()
    async with sockets.connected(listener.app, settings_for(slack), session, ping_seconds=OFTEN):
        await slack.connected()
        slack.drop_socket()
        assert not await reaches(slack, alice, "lost")
        await slack.connected()
        assert await reaches(slack, alice, "back")

    assert listener.heard == ["back"]


async def test_while_slack_opens_none_it_is_asked_again_and_again(
    slack: FakeSlack, session: aiohttp.ClientSession, alice: User
) -> None:
    slack.fail(OPEN, refuse=True)
    slack.fail(OPEN, status=503)
    slack.fail(OPEN, error="internal_error")
    listener = Listener()
    async with sockets.connected(listener.app, settings_for(slack), session, ping_seconds=OFTEN):
        await slack.connected()

        assert asked(slack) >= 4
        assert await reaches(slack, alice, "at last")


async def test_an_outage_in_the_middle_is_survived(
    slack: FakeSlack, session: aiohttp.ClientSession, alice: User
) -> None:
    listener = Listener()
    async with sockets.connected(listener.app, settings_for(slack), session, ping_seconds=OFTEN):
        await slack.connected()
        outage = slack.fail(OPEN, status=503, times=3)
        slack.drop_socket()
        await slack.until(lambda: outage.hits == 3, "three vain attempts")
        await slack.connected()

        assert await reaches(slack, alice, "back")


@pytest.mark.parametrize("first", [True, False])
async def test_an_address_that_has_expired_meanwhile_is_asked_for_anew(
    slack: FakeSlack, session: aiohttp.ClientSession, alice: User, first: bool
) -> None:
    listener, answer, tasks = Listener(), asyncio.Event(), Tasks()
    settings = settings_for(slack)

    async def listen() -> None:
        async with sockets.connected(listener.app, settings, session, ping_seconds=OFTEN):
            await asyncio.Event().wait()

    if first:
        late = slack.fail(OPEN, late=answer)
    tasks.start(listen(), name="listen")
    try:
        if not first:
            await slack.connected()
            late = slack.fail(OPEN, late=answer)
            slack.drop_socket()
        await asyncio.wait_for(late.reached.wait(), 5)
        slack.sockets._tickets.clear()
        answer.set()
        await slack.connected()

        assert await reaches(slack, alice, "at last")
    finally:
        await tasks.close()


async def test_when_it_is_to_stop_while_it_connects_it_stops_at_once(
    slack: FakeSlack, session: aiohttp.ClientSession
) -> None:
    never, tasks = asyncio.Event(), Tasks()
    held = slack.fail(OPEN, hold=never)

    async def listen() -> None:
        async with sockets.connected(Listener().app, settings_for(slack), session):
            raise AssertionError("It is connected.")

    listening = tasks.start(listen(), name="listen")
    await asyncio.wait_for(held.reached.wait(), 5)
    listening.cancel()
    await asyncio.wait({listening}, timeout=5)
    never.set()

    assert listening.cancelled()
    assert slack.sockets_open == 0


# --- several connections --------------------------------------------------------------------------


async def test_what_goes_over_either_of_two_connections_is_heard_once(
    slack: FakeSlack, session: aiohttp.ClientSession, alice: User
) -> None:
    one, other = Listener(), Listener()
    async with AsyncExitStack() as stack:
        for listener in (one, other):
            bot = sockets.connected(listener.app, settings_for(slack), session)
            await stack.enter_async_context(bot)
        await slack.until(lambda: slack.sockets_open == 2, "two connections")
        for text in "abcd":
            assert await reaches(slack, alice, text)

    assert sorted(one.heard + other.heard) == ["a", "b", "c", "d"]
    assert len(one.heard) == len(other.heard) == 2


async def test_one_connection_too_many_waits_for_its_turn(
    slack: FakeSlack, session: aiohttp.ClientSession
) -> None:
    settings = settings_for(slack)
    async with AsyncExitStack() as others, AsyncExitStack() as stack:
        for _ in range(MAX_SOCKETS):
            bot = sockets.connected(Listener().app, settings, session)
            await others.enter_async_context(bot)
        await slack.until(lambda: slack.sockets_open == MAX_SOCKETS, "as many as there may be")
        late = sockets.connected(Listener().app, settings, session, ping_seconds=OFTEN)
        await stack.enter_async_context(late)
        await slack.until(lambda: asked(slack) >= MAX_SOCKETS + 2, "a second attempt")
        await others.aclose()

        await slack.until(lambda: slack.sockets_open == 1, "its own connection")


async def test_what_slack_says_that_is_no_envelope_is_passed_over(
    slack: FakeSlack, session: aiohttp.ClientSession, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    listener = Listener()
    async with sockets.connected(listener.app, settings_for(slack), session):
        await slack.connected()
        (socket,) = slack.sockets.open
        for odd in ("Ping from applink-1", "[]", '{"type": "news"}', "{"):
            await socket.link.send_str(odd)

        assert await reaches(slack, alice, "still here")


# --- a bot that hears nothing any more ----------------------------------------------------------


async def test_a_token_that_is_revoked_meanwhile_ends_it_with_the_reason(
    slack: FakeSlack, session: aiohttp.ClientSession
) -> None:
    settings = settings_for(slack)
    async with sockets.connected(
        Listener().app, settings, session, ping_seconds=OFTEN
    ) as connection:
        await slack.connected()
        slack.fail(OPEN, error="token_revoked", times=None)
        slack.drop_socket()

        async with asyncio.timeout(10):
            with pytest.raises(ConfigError, match="under App-Level Tokens"):
                await sockets.watch(connection, settings, session, seconds=OFTEN)


async def test_an_outage_is_no_reason_to_end_and_each_change_is_one_line(
    slack: FakeSlack,
    session: aiohttp.ClientSession,
    alice: User,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every attempt to connect was a traceback."""
    caplog.set_level(logging.INFO)
    settings, listener = settings_for(slack), Listener()
    async with sockets.connected(listener.app, settings, session, ping_seconds=OFTEN) as connection:
        await slack.connected()
        fault = slack.fail(OPEN, status=503, times=None)
        watching = asyncio.ensure_future(
            sockets.watch(connection, settings, session, seconds=OFTEN)
        )
        slack.drop_socket()
        await slack.until(lambda: fault.hits >= 6, "attempts")
        slack.heal()
        await slack.connected()

        assert await reaches(slack, alice, "hello")
        assert not watching.done()
        await slack.until(lambda: "The connection to Slack is back" in caplog.text, "the line")
        assert caplog.text.count("There is no connection to Slack") == 1
        assert caplog.text.count("Failed to retrieve WSS URL") == 1
        assert caplog.text.count("Failed to check the current session") <= 1
        assert "Traceback" not in caplog.text
        watching.cancel()
