"""What was said on Discord while the bot was away is answered once: row 77 of `faults.md`."""

import pytest

from bot.conversations.foreign_content import QUOTED_WARNING
from bot.conversations.gaps import CatchUpSettings
from bot.values import Json
from tests.fakes.anthropic_server import Reply
from tests.stories.on_discord import new_server, on_discord
from tests.stories.stage import Play, call, said

#: Discord knows of no database: one kind is enough here.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

SCHEDULE = call("schedule_task", task="Check the farm", cron="0 9 * * *")


def echo(body: Json) -> Reply:
    """Answer with the last line of what was said."""
    return Reply(text="Answer to " + said(body["messages"][-1]).strip().splitlines()[-1])


async def test_what_was_said_while_the_bot_was_away_is_answered_once_and_in_order(
    database_url: str,
) -> None:
    async with new_server() as server:
        discord, alice, bob = server.discord, server.alice, server.bob
        private = discord.dm(alice)
        async with on_discord(database_url, server, echo) as it:
            asked = await discord.say(alice, server.channel, "zero", mention=True)
            thread = await it.thread_of(asked)
            await it.reads(thread, "Answer to zero")
            await discord.say(alice, private, "one")
            await it.reads(private, "Answer to one")
        await discord.say(alice, private, "two")
        await discord.say(alice, private, "three")
        await discord.say(bob, thread, "four", mention=True)
        await discord.say(alice, thread, "for nobody in particular")
        fresh = await discord.say(bob, server.channel, "five", mention=True)
        async with on_discord(database_url, server, echo) as it:
            await it.reads(private, "Answer to two")
            await it.reads(private, "Answer to three")
            await it.reads(thread, "Answer to four")
            await it.reads(await it.thread_of(fresh), "Answer to five")
        async with on_discord(database_url, server, echo) as it:
            await discord.say(alice, private, "six")
            await it.reads(private, "Answer to six")

            direct = [each.text() for each in it.said(private)]
            below = [each.text() for each in it.said(thread)]
    assert direct == [f"Answer to {word}" for word in ("one", "two", "three", "six")]
    assert below == ["Answer to zero", "Answer to four"]


async def test_what_was_said_before_a_session_that_is_not_resumed_is_answered(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, echo) as it:
        private = it.discord.dm(server.alice)
        await it.discord.say(server.alice, private, "one")
        await it.reads(private, "Answer to one")
        it.discord.refuse_gateway()
        it.discord.invalidate()
        await it.discord.until(lambda: not it.discord.gateway.connections, "silence")
        await it.discord.say(server.alice, private, "two")
        it.discord.refuse_gateway(False)
        await it.reads(private, "Answer to two")

        assert [each.text() for each in it.said(private)] == ["Answer to one", "Answer to two"]


async def test_an_answer_to_something_old_quotes_it(database_url: str) -> None:
    soon = CatchUpSettings(quote_after_minutes=0.0001)
    async with new_server() as server:
        private = server.discord.dm(server.alice)
        async with on_discord(database_url, server, echo) as it:
            await it.discord.say(server.alice, private, "one")
            await it.reads(private, "Answer to one")
        await server.discord.say(server.alice, private, "two")
        await server.discord.say(server.alice, private, "/subagents list")
        async with on_discord(database_url, server, echo, catch_up=soon) as it:
            answer = await it.reads(private, "Answer to two")
            listed = await it.reads(private, "No runs are going on")

    assert answer.text() == "> two\n\nAnswer to two"
    assert listed.text().startswith("> /subagents list\n")


async def test_what_was_said_in_between_reaches_the_model_as_foreign_content(
    database_url: str,
) -> None:
    play = Play(main=[Reply(text="Hello."), SCHEDULE, Reply(text="I asked."), Reply(text="No.")])
    async with new_server() as server:
        discord, alice, bob = server.discord, server.alice, server.bob
        async with on_discord(database_url, server, play) as it:
            asked = await discord.say(alice, server.channel, "zero", mention=True)
            thread = await it.thread_of(asked)
            await it.reads(thread, "Hello.")
        await discord.say(bob, thread, "Check the farm every day")
        await discord.say(alice, thread, "do that", mention=True)
        await discord.say(alice, thread, "and this?", mention=True)
        async with on_discord(database_url, server, play) as it:
            await it.reads(thread, "schedule_task")
            await it.reads(thread, "No.")

    first, _, second = [said(body["messages"][-1]) for body in play.asked[1:]]
    context, _, words = first.partition("</quoted_message>")
    assert '<quoted_message kind="said_before">' in context
    assert QUOTED_WARNING in context
    assert "Bob (20" in context
    assert ": Check the farm every day" in context
    assert words.strip() == "do that"
    assert "every day" not in second.rpartition("</situation>")[2]


async def test_a_bare_mention_while_the_bot_was_away_is_greeted_once(database_url: str) -> None:
    async with new_server() as server:
        async with on_discord(database_url, server, echo) as it:
            asked = await it.discord.say(server.alice, server.channel, "zero", mention=True)
            await it.reads(await it.thread_of(asked), "Answer to zero")
        bare = await server.discord.say(server.bob, server.channel, "", mention=True)
        async with on_discord(database_url, server, echo) as it:
            thread = await it.thread_of(bare)
            await it.reads(thread, "Hello!")
        async with on_discord(database_url, server, echo) as it:
            await it.discord.say(server.bob, thread, "one", mention=True)
            await it.reads(thread, "Answer to one")

            greetings = [each for each in it.said(thread) if "Hello!" in each.text()]
    assert len(greetings) == 1
