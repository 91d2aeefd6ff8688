"""The gateway of the fake Discord as discord.py sees it: what is lost and what comes back."""

import asyncio

import aiohttp
import discord
import pytest

from tests.fakes.discord.listener import (
    Listener,
    ShardedListener,
    addresses,
    listening,
    logged_in,
)
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import User

CONTENT, CONTENT_OF_SMALL_ONES = 1 << 18, 1 << 19


@pytest.fixture
def alice(fake: FakeDiscord) -> User:
    return fake.add_user("alice")


async def say(fake: FakeDiscord, user: User, text: str) -> None:
    await fake.say(user, fake.dm(user), text)


def texts(listener: Listener) -> list[str]:
    return [message.content for message in listener.messages]


def reading() -> discord.Intents:
    intents = discord.Intents.default()
    intents.message_content = True
    return intents


@pytest.mark.parametrize("code", [4000, 1001, 1000, None])
async def test_a_session_goes_on_where_its_connection_was_lost(
    fake: FakeDiscord, alice: User, listener: Listener, code: int | None
) -> None:
    await say(fake, alice, "one")
    await fake.until(lambda: texts(listener) == ["one"], "the first message")

    await fake.drop_gateway(code)
    await say(fake, alice, "two")
    await fake.until(lambda: fake.resumes == 1, "a resumed session")
    await say(fake, alice, "three")
    await fake.until(lambda: len(texts(listener)) == 3, "all messages")

    assert texts(listener) == ["one", "two", "three"]
    assert fake.identifies == 1


async def test_a_client_asked_to_reconnect_resumes(
    fake: FakeDiscord, alice: User, listener: Listener
) -> None:
    fake.reconnect()
    await say(fake, alice, "meanwhile")
    await fake.until(lambda: texts(listener), "the message")

    assert (fake.identifies, fake.resumes) == (1, 1)


async def test_a_session_that_is_invalid_begins_anew(
    fake: FakeDiscord, alice: User, listener: Listener
) -> None:
    fake.invalidate()
    await say(fake, alice, "lost")
    await fake.until(lambda: fake.identifies == 2, "a new session")
    await say(fake, alice, "heard")
    await fake.until(lambda: texts(listener), "the message")

    assert texts(listener) == ["heard"]
    assert fake.resumes == 0


async def test_an_invalid_session_that_may_go_on_is_resumed(
    fake: FakeDiscord, listener: Listener
) -> None:
    fake.invalidate(resumable=True)
    await fake.until(lambda: fake.resumes == 1, "a resumed session")

    assert fake.identifies == 1


async def test_what_happens_while_the_gateway_is_down_is_told_afterwards(
    fake: FakeDiscord, alice: User, listener: Listener
) -> None:
    with fake.gateway_down():
        await fake.until(lambda: listener.events("disconnect"), "the loss")
        await say(fake, alice, "are you there?")
        assert texts(listener) == []
    await fake.until(lambda: texts(listener), "the message")

    assert (fake.identifies, fake.resumes) == (1, 1)


async def test_a_client_that_leaves_in_peace_ends_its_session(fake: FakeDiscord) -> None:
    identify = {"token": fake.token, "intents": 0}

    for code, sessions in ((1000, 0), (4000, 1)):
        async with aiohttp.ClientSession() as http:
            socket = await http.ws_connect(f"{fake.gateway_url}?v=10")
            await socket.send_json({"op": 2, "d": identify})
            assert [(await socket.receive_json())["op"] for _ in range(2)] == [10, 0]
            await socket.close(code=code)
        await fake.until(lambda: not fake.gateway.connections, "the end of the connection")
        assert len(fake.gateway.sessions) == sessions


@pytest.mark.parametrize("code", [4004, 4010, 4011, 4012, 4013])
async def test_some_codes_are_for_good(fake: FakeDiscord, code: int) -> None:
    async with logged_in(fake) as client:
        task = asyncio.ensure_future(client.connect())
        await fake.ready()
        fake.gateway.drop(code)
        with pytest.raises(discord.ConnectionClosed) as closed:
            await task

    assert closed.value.code == code


async def test_reading_must_be_allowed(fake: FakeDiscord) -> None:
    async with logged_in(fake, intents=reading()) as client:
        with pytest.raises(discord.PrivilegedIntentsRequired):
            await client.connect()
    fake.application_flags = CONTENT_OF_SMALL_ONES

    async with listening(fake, intents=reading()):
        assert fake.intents & 1 << 15


async def test_a_token_that_was_reset_meanwhile_is_refused(fake: FakeDiscord) -> None:
    async with logged_in(fake) as client:
        fake.gateway.token = "another"
        with pytest.raises(discord.ConnectionClosed) as closed:
            await client.connect()

    assert closed.value.code == 4004


async def test_only_what_was_asked_for_is_told(fake: FakeDiscord, alice: User) -> None:
    guild = fake.add_guild("Town")
    channel = fake.add_channel(guild, "general")
    fake.join(guild, alice)
    intents = discord.Intents(guilds=True, guild_messages=True)

    async with listening(fake, intents=intents) as listener:
        await say(fake, alice, "psst")
        message = await fake.say(alice, channel, "hello", mention=True)
        await fake.react(alice, message, "👍")
        await fake.say(alice, channel, "bye", mention=True)
        await fake.until(lambda: len(listener.messages) == 2, "the messages")

    assert [message.guild for message in listener.messages] == [listener.get_guild(guild.id)] * 2
    assert listener.events("raw_reaction_add") == []


async def test_every_client_hears_everything(fake: FakeDiscord, alice: User) -> None:
    async with listening(fake) as one, logged_in(fake) as two, asyncio.TaskGroup() as tasks:
        tasks.create_task(two.connect())
        await fake.ready(2)
        await say(fake, alice, "hello")
        await fake.until(lambda: texts(one) == texts(two) == ["hello"], "the same")
        await two.close()


async def test_a_shard_hears_its_servers(fake: FakeDiscord, alice: User) -> None:
    channels = []
    for number in range(2):
        guild = fake.add_guild(f"Town {number}", shard=(number, 2))
        channels.append(fake.add_channel(guild, "general"))
        fake.join(guild, alice)

    async with listening(fake, ShardedListener, shard_count=2, shard_ids=[1]) as listener:
        assert [guild.name for guild in listener.guilds] == ["Town 1"]
        await fake.say(alice, channels[0], "zero", mention=True)
        await say(fake, alice, "direct messages go to the first shard")
        await fake.say(alice, channels[1], "one", mention=True)
        await fake.until(lambda: listener.messages, "a message")

    assert [message.channel.id for message in listener.messages] == [channels[1].id]


async def test_a_client_may_ask_how_many_shards_there_should_be(fake: FakeDiscord) -> None:
    fake.gateway.shards = 2

    async with logged_in(fake, ShardedListener) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(client.connect())
        await fake.ready(2)
        assert client.shard_count == 2
        await client.close()


async def test_without_acknowledgements_a_client_connects_anew(
    fake: FakeDiscord, alice: User
) -> None:
    fake.gateway.heartbeat_seconds = 0.3

    async with listening(fake, heartbeat_timeout=2.0) as listener:
        await fake.until(lambda: fake.gateway.heartbeats > 1, "heartbeats")
        assert fake.resumes == 0
        fake.stop_acks()
        await fake.until(lambda: fake.resumes, "a resumed session")
        fake.stop_acks(stop=False)
        await say(fake, alice, "hello")
        await fake.until(lambda: texts(listener), "the message")


async def test_addresses_are_given_back(fake: FakeDiscord) -> None:
    before = discord.http.Route.BASE

    with addresses(fake):
        assert fake.url in discord.http.Route.BASE

    assert before == discord.http.Route.BASE
