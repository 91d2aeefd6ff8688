"""A message that only mentions the bot is answered with what it can do, without a model."""

import pytest

from tests.fakes.anthropic_server import Reply
from tests.stories.on_discord import new_server, on_discord
from tests.stories.on_slack import Way, new_office, on_slack
from tests.stories.stage import Play, said

on_postgres = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)


@on_postgres
async def test_a_bare_mention_on_discord_is_greeted_in_a_thread(database_url: str) -> None:
    play = Play(main=[Reply(text="Four sheep.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        asked = await it.discord.say(server.alice, server.channel, "", mention=True)
        thread = await it.thread_of(asked)
        greeted = await it.reads(thread, "Hello!")
        await it.discord.say(server.alice, thread, "How many sheep?")
        await it.reads(thread, "Four sheep.")

        assert "`/retinue help`" in greeted.text()
        assert it.said(server.channel) == []
        assert len(play.asked) == 1


@on_postgres
async def test_a_mention_in_reply_to_a_message_is_a_turn(database_url: str) -> None:
    play = Play(main=[Reply(text="A fine poem.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        poem = await it.discord.say(server.bob, server.channel, "Roses are red.")
        asked = await it.discord.say(server.alice, server.channel, "", mention=True, reply_to=poem)
        await it.reads(await it.thread_of(asked), "A fine poem.")

        assert "Roses are red." in said(play.asked[0]["messages"][0])


async def test_a_bare_mention_on_slack_is_greeted_in_its_thread(way: Way) -> None:
    play = Play(main=[Reply(text="Four sheep.")])
    async with new_office() as office, on_slack(way, office, play) as it:
        asked = await it.slack.say(office.alice, office.channel, "", mention=True)
        greeted = await it.reads(asked, "Hello!")
        await it.slack.say(office.alice, office.channel, "How many sheep?", thread=asked)
        await it.reads(asked, "Four sheep.")

        assert "!help" in greeted.readable()
        assert "/retinue" not in greeted.readable()
        assert len(play.asked) == 1
