"""`python -m bot serve` as an operator meets it: a process, signals, exit codes, the log."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, Message, User
from tests.fakes.serving import serving


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        yield opened


def new_room(fake: FakeDiscord) -> tuple[Channel, User]:
    guild, alice = fake.add_guild("Farm"), fake.add_user("alice")
    fake.join(guild, alice)
    return fake.add_channel(guild, "general"), alice


async def begins(fake: FakeDiscord, message: Message) -> Message:
    """Wait until the answer to a message begins."""
    await fake.until(
        lambda: message.thread and fake.messages(message.thread), "an answer", seconds=20
    )
    assert message.thread is not None
    return fake.messages(message.thread)[-1]


async def test_it_answers_a_mention_and_at_sigterm_finishes_that_and_ends_in_good_order(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    channel, alice = new_room(fake)

    async with serving(fake, tmp_path, pace=3, fresh=True) as bot:
        await bot.wrote("Connected to Discord as")
        message = await fake.say(alice, channel, f"<@{fake.bot.id}> hello")
        begun = await begins(fake, message)
        bot.signal()
        await bot.wrote("Waiting up to")
        await fake.until(lambda: not fake.gateway.connections, "a client that hears no more")
        assert await bot.ended() == 0

    assert begun.text().endswith("no language model is connected)_")
    assert "Traceback" not in "".join(bot.log)
    assert fake.token not in "".join(bot.log)


async def test_at_sigterm_it_hears_no_more_before_its_answers_are_done(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    channel, alice = new_room(fake)

    async with serving(fake, tmp_path, pace=30, fresh=True) as bot:
        await bot.wrote("Connected to Discord as")
        message = await fake.say(alice, channel, f"<@{fake.bot.id}> hello")
        await begins(fake, message)
        bot.signal()
        await fake.until(lambda: not fake.gateway.connections, "a client that hears no more")
        before = "".join(bot.log)
        await bot.wrote("goes on with the next start")

    assert "goes on with the next start" not in before


async def test_drained_by_an_operator_it_finishes_its_answer_and_ends_with_0(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    channel, alice = new_room(fake)
    root = fake.add_user("root")
    access = {"access": {"admins": [f"discord:{root.id}"]}}

    async with serving(fake, tmp_path, pace=1, fresh=True, sections=access) as bot:
        await bot.wrote("Connected to Discord as")
        message = await fake.say(alice, channel, f"<@{fake.bot.id}> hello")
        begun = await begins(fake, message)
        await fake.say(root, fake.dm(root), "!retinue drain")
        assert await bot.ended() == 0

    assert begun.text().endswith("no language model is connected)_")
    assert any("finishes its work" in each.text() for each in fake.messages(fake.dm(root)))
    assert "goes on with the next start" not in "".join(bot.log)


async def test_it_measures_how_long_its_event_loop_is_blocked(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    root = fake.add_user("root")
    new_room(fake)
    access = {"access": {"admins": [f"discord:{root.id}"]}}

    async with serving(fake, tmp_path, sections=access) as bot:
        await bot.wrote("Connected to Discord as")
        await fake.say(root, fake.dm(root), "!health")
        await fake.until(
            lambda: any(
                "Event loop: blocked for" in m.text() for m in fake.messages(fake.dm(root))
            ),
            "the longest block",
            seconds=20,
        )


async def test_a_second_signal_ends_it_at_once(fake: FakeDiscord, tmp_path: Path) -> None:
    channel, alice = new_room(fake)

    async with serving(fake, tmp_path, pace=30) as bot:
        await bot.wrote("Connected to Discord as")
        message = await fake.say(alice, channel, f"<@{fake.bot.id}> hello")
        await fake.until(lambda: message.reactions, "👀")
        bot.signal(signal.SIGINT)
        await bot.wrote("once more ends it at once")
        bot.signal(signal.SIGTERM)

        assert await bot.ended() == -signal.SIGTERM


async def test_a_token_that_is_refused_ends_it_with_a_sentence_and_exit_code_2(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    async with serving(fake, tmp_path, DISCORD_TOKEN="this-is-not-it") as bot:
        assert await bot.ended() == 2

    said = "".join(bot.log)
    assert "press Reset Token" in said
    assert "Traceback" not in said
    assert "this-is-not-it" not in said
    assert [sent.path for sent in fake.sent] == ["/users/@me"]


async def test_a_gateway_that_will_not_have_it_ends_it_the_same_way(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    fake.gateway.shards = 2

    async with serving(fake, tmp_path) as bot:
        assert await bot.ended() == 2

    assert "set `discord.shard_count`" in "".join(bot.log)
    assert fake.gateway.identifies == 1


async def test_discord_that_is_away_is_waited_for_and_sigterm_ends_that(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    fake.fail("GET", "/users/@me", status=503, times=None)

    async with serving(fake, tmp_path) as bot:
        await bot.wrote("Discord is unavailable; retrying")
        bot.signal()
        assert await bot.ended() == 0


async def test_a_database_server_that_is_away_is_waited_for_with_what_to_do(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    async with serving(fake, tmp_path, database_url="postgresql://bot@127.0.0.1:1/bot") as bot:
        await bot.wrote("retrying: connection refused. Check host and port in `database.url`")


@pytest.mark.parametrize("started_before", [False, True])
async def test_a_full_disk_at_the_start_is_said_and_waited_for(
    fake: FakeDiscord, tmp_path: Path, *, started_before: bool
) -> None:
    channel, alice = new_room(fake)
    if started_before:
        async with serving(fake, tmp_path) as bot:
            await bot.wrote("Connected to Discord as")

    async with serving(fake, tmp_path, disk_full=True) as bot:
        await bot.wrote("it is tried again")
        bot.make_room()
        await bot.wrote("Connected to Discord as")
        begun = await begins(fake, await fake.say(alice, channel, "hello", mention=True))

    assert begun.text()
    assert "retinue.db is unavailable; retrying" in "".join(bot.log)
    assert "Traceback" not in "".join(bot.log)
