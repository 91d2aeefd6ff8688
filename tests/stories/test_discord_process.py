"""The bot on Discord as a real process that is killed: nothing is lost, nothing is said twice."""

import signal
from functools import partial
from pathlib import Path

import pytest

from bot.values import Json
from tests.fakes.anthropic_server import KEY, FakeAnthropic, Reply
from tests.fakes.discord.things import Channel, Message
from tests.fakes.serving import serving
from tests.stories.on_discord import Server, new_server
from tests.stories.stage import Play, call

pytestmark = pytest.mark.timeout(120)


def models(server: FakeAnthropic) -> Json:
    """Return the section of the configuration that asks the fake model."""
    return {"anthropic": {"api_key": KEY, "base_url": server.url}}


def bots(server: Server, channel: Channel) -> list[Message]:
    """Return what the bot has said in a channel."""
    return server.discord.answers(channel)


async def shown(server: Server, channel: Channel, words: str) -> Message:
    """Wait until a message of the bot holds these words."""
    await server.discord.until(
        lambda: any(words in each.text() for each in bots(server, channel)), words, seconds=40
    )
    return next(each for each in bots(server, channel) if words in each.text())


async def test_a_run_survives_kill_9_in_its_card_and_is_announced_once(
    tmp_path: Path, database_url: str
) -> None:
    play = Play(
        main=[call("sessions_spawn", task="Dig", label="digging"), Reply(text="Started it.")],
        runs={"Dig": [Reply(text="x", fault="hang"), Reply(text="Dug after all.")]},
    )
    async with new_server() as server, FakeAnthropic(play) as model:
        start = partial(
            serving, server.discord, tmp_path, models=models(model), database_url=database_url
        )
        async with start() as bot:
            await bot.wrote("Connected to Discord as")
            asked = await server.discord.say(
                server.alice, server.channel, "Dig, please.", mention=True
            )
            await server.discord.until(lambda: asked.thread, "a thread", seconds=20)
            assert asked.thread is not None
            thread = asked.thread
            await shown(server, thread, "Started it.")
            card = await shown(server, thread, "running")
            await model.received(3)
            bot.signal(signal.SIGKILL)
            await bot.ended()
        async with start():
            result = await shown(server, thread, "Dug after all.")
            await server.discord.until(
                lambda: "completed" in card.text(), "the end on the card", seconds=20
            )
            cards = [each for each in bots(server, thread) if each.buttons()]
            results = [each for each in bots(server, thread) if "Dug after all." in each.text()]

        assert cards == [card]
        assert results == [result]
        assert result.pings == {server.alice.id}


async def test_an_answer_that_kill_9_interrupts_goes_on_in_its_message(
    tmp_path: Path, database_url: str
) -> None:
    slow = Reply(text="Once upon a time there was a sheep. " * 20, gap_seconds=0.2)
    play = Play(main=[slow, Reply(text="The whole story.")])
    async with new_server() as server, FakeAnthropic(play) as model:
        start = partial(
            serving, server.discord, tmp_path, models=models(model), database_url=database_url
        )
        private = server.discord.dm(server.alice)
        async with start() as bot:
            await bot.wrote("Connected to Discord as")
            await server.discord.say(server.alice, private, "A story!")
            first = await shown(server, private, "Once upon")
            bot.signal(signal.SIGKILL)
            await bot.ended()
        async with start():
            whole = await shown(server, private, "The whole story.")

        assert whole is first
        assert bots(server, private) == [first]
