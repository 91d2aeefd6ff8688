"""The connection to Discord: login, intents, what breaks and comes back, and what ends it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import discord
import pytest
from discord.gateway import DiscordWebSocket
from discord.http import Route
from pydantic import SecretStr

from bot import logs
from bot.errors import ConfigError, DeliveryError, PlatformUnreachableError
from bot.platforms.discord.client import RetinueClient, ShardedClient, addresses, open_client
from bot.platforms.discord.limits import OPENS_AT
from bot.platforms.discord.settings import DiscordSettings
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.inbound import FakeInboundHandler

CONTENT = 1 << 15
ALLOWED, ALLOWED_TO_SMALL = 1 << 18, 1 << 19


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        opened.application_flags = ALLOWED
        yield opened


def settings_for(fake: FakeDiscord, **more: Any) -> DiscordSettings:
    return DiscordSettings(
        **{
            "token": SecretStr(fake.token),
            "api_url": fake.api_url,
            "gateway_url": fake.gateway_url,
            **more,
        }
    )


class Quick(ShardedClient):
    """Shards that need not wait for one another."""

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Wait for nothing."""


@asynccontextmanager
async def logged_in(
    fake: FakeDiscord, kind: type[RetinueClient] = RetinueClient, **more: Any
) -> AsyncIterator[RetinueClient]:
    """Log in with a client of this kind, which has two shards if it has shards."""
    sharded = issubclass(kind, ShardedClient)
    settings = settings_for(fake, shard_count=2 if sharded else None)
    with addresses(settings):
        async with kind(settings, **more) as client:
            await client.log_in()
            yield client


@asynccontextmanager
async def listening(fake: FakeDiscord, client: RetinueClient) -> AsyncIterator[asyncio.Task[None]]:
    """Let a client that is logged in listen while the block lasts."""
    task = asyncio.ensure_future(client.listen(FakeInboundHandler()))
    chosen = len(client.settings.shard_ids) or client.settings.shard_count or 1
    try:
        await fake.until(
            lambda: task.done() or len(fake.gateway.connected) == chosen, "a connection"
        )
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


# --- login ----------------------------------------------------------------------------------------


async def test_it_speaks_without_a_gateway_and_pings_nobody(fake: FakeDiscord) -> None:
    guild = fake.add_guild("Farm")
    channel = fake.add_channel(guild, "general")

    async with open_client(settings_for(fake)) as client:
        await client.get_partial_messageable(channel.id).send("hello @everyone")

    assert fake.sent[-1].json["allowed_mentions"] == {"parse": []}
    assert fake.gateway.identifies == 0


async def test_a_token_that_is_refused_says_where_to_get_one(fake: FakeDiscord) -> None:
    wrong = settings_for(fake, token=SecretStr("not-the-token"))

    with pytest.raises(ConfigError, match="press Reset Token on its page Bot") as caught:
        async with open_client(wrong):
            pass

    assert "not-the-token" not in str(caught.value)


@pytest.mark.parametrize("status", [408, 425, 503])
async def test_discord_that_is_out_of_order_may_come_back(fake: FakeDiscord, status: int) -> None:
    fake.fail("GET", "/users/@me", status=status)

    with pytest.raises(PlatformUnreachableError, match=f"status {status}"):
        async with open_client(settings_for(fake)):
            pass


async def test_discord_that_is_not_there_may_come_back(fake: FakeDiscord) -> None:
    with pytest.raises(
        PlatformUnreachableError, match=r"cannot be reached at http://127\.0\.0\.1:1"
    ):
        async with open_client(settings_for(fake, api_url="http://127.0.0.1:1/api/v10")):
            pass


async def test_another_refusal_is_told_with_its_status(fake: FakeDiscord) -> None:
    fake.fail("GET", "/oauth2/applications/@me", status=403, text="Not for you")

    with pytest.raises(ConfigError, match=r"status 403 \(Not for you\)"):
        async with open_client(settings_for(fake)):
            pass


async def test_addresses_are_put_back_whoever_closes_first(fake: FakeDiscord) -> None:
    usual = (Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY)
    first, second = addresses(settings_for(fake)), addresses(settings_for(fake))

    with addresses(DiscordSettings()):
        assert usual == (Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (Route.BASE, str(DiscordWebSocket.DEFAULT_GATEWAY)) == (fake.api_url, fake.gateway_url)
    second.__exit__(None, None, None)
    assert usual == (Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY)


# --- intents --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [ALLOWED, ALLOWED_TO_SMALL])
async def test_it_asks_for_the_text_of_messages_where_that_is_allowed(
    fake: FakeDiscord, flags: int, caplog: pytest.LogCaptureFixture
) -> None:
    fake.application_flags = ALLOWED | flags

    async with open_client(settings_for(fake)) as client, listening(fake, client):
        assert client.intents.message_content

    wanted = discord.Intents(
        guilds=True, guild_messages=True, dm_messages=True, message_content=True
    )
    assert fake.gateway.intents == wanted.value
    assert lines(caplog) == []


async def test_without_the_text_of_messages_it_goes_on_and_says_what_to_click(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    fake.application_flags = 0

    async with open_client(settings_for(fake)) as client, listening(fake, client):
        assert not client.intents.message_content
        assert not fake.gateway.intents & CONTENT

    (line,) = lines(caplog)
    assert "does not receive messages without a mention" in line
    assert f"/developers/applications/{fake.application_id}/bot" in line
    assert "Message Content Intent" in line


@pytest.mark.parametrize("kind", [RetinueClient, Quick])
async def test_when_it_is_refused_against_the_flags_it_goes_on_without(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture, kind: type[RetinueClient]
) -> None:
    async with logged_in(fake, kind) as client:
        fake.application_flags = 0
        async with listening(fake, client):
            assert not fake.gateway.intents & CONTENT
            assert (await client.fetch_user(client.application_id or 0)).id == fake.bot.id

    assert len([line for line in lines(caplog) if "Message Content Intent" in line]) == 1


# --- what comes back ------------------------------------------------------------------------------


async def test_it_resumes_after_being_asked_to_reconnect_or_losing_the_connection(
    fake: FakeDiscord,
) -> None:
    async with open_client(settings_for(fake)) as client, listening(fake, client):
        fake.gateway.reconnect()
        await fake.until(lambda: fake.gateway.resumes == 1, "the first resume")
        fake.gateway.drop(None)
        await fake.until(lambda: fake.gateway.resumes == 2, "the second resume")
        fake.gateway.invalidate(resumable=True)
        await fake.until(lambda: fake.gateway.resumes == 3, "the third resume")

    assert fake.gateway.identifies == 1


async def test_an_ended_session_begins_anew_after_the_time_that_discord_wants(
    fake: FakeDiscord,
) -> None:
    async with open_client(settings_for(fake)) as client, listening(fake, client):
        began = asyncio.get_running_loop().time()
        fake.gateway.invalidate()
        await fake.until(lambda: fake.gateway.identifies == 2, "a new session")

    assert asyncio.get_running_loop().time() - began >= 4.5


async def test_a_gateway_that_answers_no_heartbeat_is_left(fake: FakeDiscord) -> None:
    fake.gateway.acks = False

    async with logged_in(fake, heartbeat_timeout=0.3) as client, listening(fake, client):
        await fake.until(lambda: fake.gateway.resumes >= 1, "a resume")


async def test_a_gateway_that_is_away_from_the_start_is_waited_for_without_tracebacks(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_client(settings_for(fake)) as client:
        with fake.gateway.down():
            task = asyncio.ensure_future(client.listen(FakeInboundHandler()))
            await fake.until(lambda: "econnect" in caplog.text, "a try")
        await fake.until(lambda: fake.gateway.connected, "a connection", seconds=20)
        task.cancel()
        await asyncio.wait({task})

    assert "Traceback" not in caplog.text
    assert "503" in caplog.text


async def test_however_often_the_library_tries_each_trouble_is_one_line(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    async with logged_in(fake):
        library = logging.getLogger("discord.client")
        trouble = OSError("no route")
        for seconds in range(1_000):
            library.error("Attempting a reconnect in %.2fs", seconds, exc_info=trouble)
        first = caplog.text
        logs.connected_again("discord.client")
        library.error("Attempting a reconnect in %.2fs", 1, exc_info=trouble)

    assert first.count("no route") == 1
    assert caplog.text.count("no route") == 2
    assert "Traceback" not in caplog.text


async def test_a_shard_that_cannot_connect_is_told_without_a_traceback(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    async with logged_in(fake, Quick) as client:
        with fake.gateway.down():
            task = asyncio.ensure_future(client.listen(FakeInboundHandler()))
            await fake.until(lambda: "Failed to connect for shard_id: 0" in caplog.text, "a try")
            task.cancel()
            await asyncio.wait({task})

    assert "Traceback" not in caplog.text
    assert "503" in caplog.text


async def test_a_connection_that_is_lost_is_told_once_and_so_is_its_return(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="bot")
    async with open_client(settings_for(fake)) as client, listening(fake, client):
        await fake.until(lambda: "Connected" in caplog.text, "the line")
        fake.gateway.drop(None)
        await fake.until(lambda: "nothing was missed" in caplog.text, "the line of its return")

    ours = [record.getMessage() for record in caplog.records if record.name.startswith("bot.")]
    assert ours == [
        f"Connected to Discord as {client.user}.",
        "The connection to Discord is lost; trying again.",
        "Connected to Discord again; nothing was missed.",
    ]


# --- what ends it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shard_count", [None, 1])
@pytest.mark.parametrize(
    ("code", "advice"),
    [(4004, "Reset Token"), (4011, "`discord.shard_count`"), (4013, "its intents")],
)
async def test_what_discord_will_not_have_ends_it_with_what_to_do_and_speech_goes_on(
    fake: FakeDiscord, code: int, advice: str, shard_count: int | None
) -> None:
    async with open_client(settings_for(fake, shard_count=shard_count)) as client:
        async with listening(fake, client) as task:
            fake.gateway.drop(code)
            with pytest.raises(ConfigError, match=advice):
                await asyncio.wait_for(task, 5)

        assert (await client.fetch_user(fake.bot.id)).id == fake.bot.id
        assert fake.gateway.identifies == 1


async def test_intents_that_are_refused_altogether_end_it(fake: FakeDiscord) -> None:
    fake.application_flags = 0
    async with open_client(settings_for(fake)) as client, listening(fake, client) as task:
        fake.gateway.drop(4014)

        with pytest.raises(ConfigError, match="refuses what this bot wants to receive"):
            await asyncio.wait_for(task, 5)


@pytest.mark.parametrize("kind", [RetinueClient, Quick])
async def test_whoever_stops_listening_leaves_the_gateway_and_may_still_speak(
    fake: FakeDiscord, kind: type[RetinueClient]
) -> None:
    async with logged_in(fake, kind) as client:
        async with listening(fake, client):
            assert client.inbound is not None
        await fake.until(lambda: not fake.gateway.connections, "the end of all connections")

        assert client.inbound is None
        assert (await client.fetch_user(fake.bot.id)).id == fake.bot.id

    assert set(fake.gateway.close_codes) == {1000}


# --- the rest -------------------------------------------------------------------------------------


async def test_a_process_serves_the_shards_that_are_its_own(fake: FakeDiscord) -> None:
    settings = settings_for(fake, shard_count=4, shard_ids=(1, 3))

    with addresses(settings):
        async with Quick(settings) as client:
            await client.log_in()
            async with listening(fake, client):
                shards = sorted(session.shard for session in fake.gateway.connected)

    assert shards == [(1, 4), (3, 4)]


async def test_one_event_that_goes_wrong_is_logged_and_the_next_is_heard(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    channel = fake.add_channel(fake.add_guild("Farm"), "general")
    heard: list[str] = []

    async def on_message(message: discord.Message) -> None:
        heard.append(message.content)
        if len(heard) == 1:
            raise RuntimeError("this one")

    async with open_client(settings_for(fake)) as client:
        client.event(on_message)
        async with listening(fake, client):
            await client.get_partial_messageable(channel.id).send("one")
            await client.get_partial_messageable(channel.id).send("two")
            await fake.until(lambda: len(heard) == 2, "both")

    assert lines(caplog, logging.ERROR) == ["Discord's event on_message could not be handled"]
    assert "this one" in caplog.text


async def test_too_many_refusals_stop_its_requests_and_not_its_ears(fake: FakeDiscord) -> None:
    fault = fake.fail("GET", "/users/1", status=403, times=None)

    async with open_client(settings_for(fake)) as client, listening(fake, client) as task:
        for _ in range(OPENS_AT - 1):
            client.breaker.count(403)
        with pytest.raises(discord.Forbidden):
            await client.fetch_user(1)
        with pytest.raises(DeliveryError):
            await client.fetch_user(1)
        fake.gateway.reconnect()
        await fake.until(lambda: fake.gateway.resumes == 1, "a resume")
        assert not task.done()

    assert fault.hits == 1
