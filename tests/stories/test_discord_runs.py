"""Runs in Discord, beside what is the same in every chat: roles, choices, notes in channels."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bot.platforms.discord.answers import SENT_PRIVATELY
from tests.fakes.anthropic_server import Reply
from tests.fakes.discord.things import Channel, Message
from tests.stories.on_discord import Scene, new_server, on_discord
from tests.stories.stage import call, newest_run
from tests.stories.test_chat_runs import digging

#: Discord knows of no database: one kind is enough here, and `test_discord_talk` has the other.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


async def spawned(it: Scene) -> tuple[Channel, Message]:
    """Have Alice start the run in a thread; return the thread and the card once it is at work."""
    server = it.server
    asked = await it.discord.say(server.alice, server.channel, "Dig, please.", mention=True)
    thread = await it.thread_of(asked)
    await it.gate.held(1)
    await it.reads(thread, "Started it.")
    return thread, await it.card(thread, "digging")


@asynccontextmanager
async def administered(database_url: str) -> AsyncIterator[Scene]:
    """Open a bot in a server in which a role makes `root` an admin."""
    async with new_server() as server:
        role = server.discord.add_role(server.guild, "farmers")
        server.guild.members[server.root.id].roles.append(role)
        settings = {"admin_roles": (str(role.id),)}
        async with on_discord(database_url, server, digging(), settings=settings) as it:
            yield it


async def test_an_admin_by_role_stops_the_run_of_another_user(database_url: str) -> None:
    async with administered(database_url) as it:
        server = it.server
        thread, card = await spawned(it)
        answer = await it.discord.click(server.root, card, "Stop")
        await answer.done()
        result = await it.reads(thread, "was stopped")
        await it.card(thread, "digging", "stopped by @")

        assert "Stopping" in answer.text()
        assert f"Stopped by {server.root.mention}." in result.text()
        assert result.pings == {server.alice.id}


async def test_a_command_that_is_typed_in_a_channel_is_answered_in_private(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, _ = await spawned(it)
        run, private = await newest_run(it.bot, "Dig"), it.discord.dm(server.alice)
        for typed, answer in (
            ("subagents list", "digging"),
            ("/subagents usage", "Your usage"),
            ("!subagents info last", "Status: running"),
            ("subagents stop nothing", "You have no run"),
            (f"/subagents stop {run.id}", "Stopping"),
        ):
            await it.discord.say(server.alice, server.channel, typed, mention=True)
            await it.reads(private, answer)

        await it.discord.until(lambda: len(it.said(server.channel)) == 5, "five notes")
        assert {each.text() for each in it.said(server.channel)} == {SENT_PRIVATELY}
        await it.reads(thread, "was stopped")


async def test_the_text_of_a_run_can_do_nothing_to_the_room(database_url: str) -> None:
    evil = (
        "@everyone @here <@&1> <@2> [sheep.example](https://evil.example) </subagents stop:1> "
        "```\n@everyone\n``` " + "https://evil.example/ " * 3 + "\u202e gnirts"
    )
    play = digging(result=evil)
    play.main[0] = call("sessions_spawn", task="Dig", label="digging @everyone <@2> ```")
    play.main[1] = Reply(text=f"Started it. {evil}")
    async with new_server() as server, on_discord(database_url, server, play) as it:
        asked = await it.discord.say(server.alice, server.channel, "Dig.", mention=True)
        thread = await it.thread_of(asked)
        await it.gate.held(1)
        await it.reads(thread, "Started it.")
        await it.card(thread, "digging")
        it.gate.opened.set()
        await it.card(thread, "digging", "completed")
        await it.discord.until(it.pings, "the announcement")

        assert it.pings() == [server.alice.id]
        texts = "\n".join(each.text() for each in it.said(thread))
        assert "](" not in texts
        assert "[sheep.example] (<https://evil.example>)" in texts
        sent = [each for each in it.discord.sent if each.path.endswith("/messages")]
        assert all(each.json.get("flags", 0) & 4 for each in sent if each.json.get("content"))


async def test_only_the_own_runs_are_offered_as_choices(database_url: str) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, _ = await spawned(it)
        run = await newest_run(it.bot, "Dig")
        choices = await it.discord.autocomplete(server.bob, thread, "subagents stop", run="")
        own = await it.discord.autocomplete(server.alice, thread, "subagents stop", run="")
        it.gate.opened.set()
        await it.reads(thread, "Dug.")

        assert choices == []
        assert [value for _, value in own] == [run.id]


async def test_commands_of_admins_are_slash_commands_of_which_the_bot_decides(
    database_url: str,
) -> None:
    async with administered(database_url) as it:
        server = it.server
        answers = [
            await (
                await it.discord.slash(
                    user, server.channel, f"retinue-admin {name}", scope="server"
                )
            ).done()
            for user, name in (
                (server.alice, "pause"),
                (server.root, "pause"),
                (server.root, "resume"),
            )
        ]
    refused, paused, resumed = (each.text() for each in answers)
    assert all(each.ephemeral for each in answers)
    assert refused.startswith("There is no command")
    assert "Paused: " in paused
    assert "Resumed: " in resumed
