"""The reaction that says "heard" goes when the answer is there, however the turn ended."""

import pytest

from tests.fakes.anthropic_server import Reply
from tests.stories.on_discord import new_server, on_discord
from tests.stories.on_slack import Way, new_office, on_slack
from tests.stories.stage import Play

HANGS = Reply(text="Four sheep.", fault="hang")
ENDINGS = pytest.mark.parametrize(
    ("reply", "words"),
    [
        (HANGS, "Four sheep."),
        (Reply(text="Which sheep?", fault="hang"), "Which sheep?"),
        (Reply(status=400, text="Gone.", fault="hang"), "did not accept"),
        (HANGS, "(stopped)"),
    ],
    ids=["answered", "asked back", "failed", "stopped"],
)


@ENDINGS
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_eyes_go_on_discord_when_the_answer_is_there(
    reply: Reply, words: str, database_url: str
) -> None:
    play = Play(main=[reply])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        asked = await it.discord.say(server.alice, server.channel, "How many?", mention=True)
        await it.discord.until(lambda: "👀" in asked.reactions, "a sign")
        thread = await it.thread_of(asked)
        if words == "(stopped)":
            await it.model.received(1)
            await it.discord.say(server.alice, thread, "!stop")
        else:
            it.model.go.set()
        await it.reads(thread, words)

        await it.discord.until(lambda: not asked.reactions, "no sign any more")


@ENDINGS
async def test_eyes_go_on_slack_when_the_answer_is_there(
    reply: Reply, words: str, way: Way
) -> None:
    play = Play(main=[reply])
    async with new_office() as office, on_slack(way, office, play) as it:
        it.slack.fail("assistant.threads.setStatus", error="missing_scope", times=None)
        asked = await it.slack.say(office.alice, office.channel, "How many?", mention=True)
        await it.slack.until(lambda: "eyes" in asked.reactions, "a sign")
        if words == "(stopped)":
            await it.model.received(1)
            await it.slack.say(office.alice, office.channel, "!stop", thread=asked)
        else:
            it.model.go.set()
        await it.reads(asked, words)

        await it.slack.until(lambda: not asked.reactions.get("eyes"), "no sign any more")


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_eyes_from_before_a_restart_go_on_discord(database_url: str) -> None:
    async with new_server() as server:
        async with on_discord(database_url, server, Play(main=[HANGS])) as it:
            asked = await it.discord.say(server.alice, server.channel, "How many?", mention=True)
            await it.discord.until(lambda: "👀" in asked.reactions, "a sign")
            await it.model.received(1)
        assert asked.reactions
        async with on_discord(database_url, server, Play(main=[Reply(text="Four.")])) as it:
            await it.reads(await it.thread_of(asked), "Four.")

            await it.discord.until(lambda: not asked.reactions, "no sign any more")


async def test_eyes_from_before_a_restart_go_on_slack(way: Way) -> None:
    async with new_office() as office:
        office.slack.fail("assistant.threads.setStatus", error="missing_scope", times=None)
        async with on_slack(way, office, Play(main=[HANGS])) as it:
            asked = await it.slack.say(office.alice, office.channel, "How many?", mention=True)
            await it.slack.until(lambda: "eyes" in asked.reactions, "a sign")
            await it.model.received(1)
        assert asked.reactions.get("eyes")
        async with on_slack(way, office, Play(main=[Reply(text="Four.")])) as it:
            await it.reads(asked, "Four.")

            await it.slack.until(lambda: not asked.reactions.get("eyes"), "no sign any more")


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_channel_without_reactions_is_answered_all_the_same(database_url: str) -> None:
    async with new_server() as server, on_discord(database_url, server, Play([HANGS])) as it:
        server.guild.deny(server.channel, "add_reactions")
        asked = await it.discord.say(server.alice, server.channel, "How many?", mention=True)
        it.model.go.set()
        await it.reads(await it.thread_of(asked), "Four sheep.")

        assert asked.reactions == {}
