"""Outages of Discord, beside what is the same in every chat: row 77 of `faults.md`."""

import pytest

from bot.conversations.settings import CatchUpSettings
from tests.stories.on_discord import new_server, on_discord
from tests.stories.test_chat_talk import echo

#: Discord knows of no database: one kind is enough here.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


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
