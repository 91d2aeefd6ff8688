"""What goes wrong in Discord: nothing is lost, nothing is said twice, nothing goes elsewhere."""

import asyncio

import pytest

from db import outbox, tables
from db.outbox import OutboxEntry
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.stories.on_discord import Scene, new_server, on_discord
from tests.stories.stage import Play, change, newest_run
from tests.stories.test_chat_runs import digging
from tests.stories.test_discord_runs import spawned

#: Discord knows of no database: one kind is enough here, and `test_discord_runs` has the other.
pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)


async def item_of(it: Scene, word: str) -> OutboxEntry | None:
    """Return the announcement of a run, once there is one."""
    run = await newest_run(it.bot, word)
    async with it.bot.database.snapshot() as tx:
        return await outbox.get(tx, run.id)


async def test_a_run_that_ends_while_the_gateway_is_down_is_announced_all_the_same(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, _ = await spawned(it)
        with it.discord.gateway_down():
            it.gate.opened.set()
            result = await it.reads(thread, "Dug.")
            await it.card(thread, "digging", "completed")

        assert result.pings == {server.alice.id}


async def test_what_is_said_while_the_gateway_is_down_is_heard_after_the_resume(
    database_url: str,
) -> None:
    play = Play(main=[Reply(text="Heard it.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        private = it.discord.dm(server.alice)
        with it.discord.gateway_down():
            await it.discord.say(server.alice, private, "Are you there?")
        await it.reads(private, "Heard it.")

        assert it.discord.gateway.resumes >= 1
        assert len(it.said(private)) == 1


async def test_a_result_that_discord_does_not_take_is_tried_again_and_said_once(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, _ = await spawned(it)
        fault = it.discord.fail("POST", "/channels/{id}/messages", refuse=True, times=None)
        it.gate.opened.set()

        async def kept() -> bool:
            found = await item_of(it, "Dig")
            return found is not None and found.status == "pending" and found.attempts > 0

        await eventually(kept, "the result to be kept")
        fault.take_back()
        await change(it.bot, tables.outbox, due_at=it.bot.upkeep.now())
        await it.bot.announcements.sweep()
        await it.reads(thread, "Dug.")

        assert len([each for each in it.said(thread) if "Dug." in each.text()]) == 1
        assert it.pings() == [server.alice.id]


async def test_a_result_whose_thread_is_gone_goes_to_its_owner_alone(database_url: str) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, _ = await spawned(it)
        it.discord.delete_channel(thread)
        it.gate.opened.set()
        await it.reads(it.discord.dm(server.alice), "Dug.")

        assert it.said(server.channel) == []


async def test_a_result_whose_channel_is_gone_goes_to_its_owner_alone(database_url: str) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, _ = await spawned(it)
        elsewhere = it.discord.add_channel(server.guild, "elsewhere")
        it.discord.delete_channel(thread)
        it.discord.delete_channel(server.channel)
        it.gate.opened.set()
        await it.reads(it.discord.dm(server.alice), "Dug.")

        assert it.said(elsewhere) == []


async def test_a_result_with_no_place_left_is_kept_and_can_be_read_and_retried(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        thread, _ = await spawned(it)
        elsewhere = it.discord.add_channel(server.guild, "elsewhere")
        it.discord.delete_channel(thread)
        it.discord.delete_channel(server.channel)
        it.discord.close_dm(server.alice)
        it.gate.opened.set()

        async def blocked() -> bool:
            found = await item_of(it, "Dig")
            return found is not None and found.status == "blocked"

        await eventually(blocked, "the result to be kept")
        listed = await it.discord.slash(server.alice, elsewhere, "subagents list")
        await listed.done()
        info = await it.discord.slash(server.alice, elsewhere, "subagents info", run="last")
        await info.done()

        assert "Could not be delivered" in listed.text()
        assert "Dug." in info.text()
        assert it.said(elsewhere) == []


async def test_a_busy_discord_slows_answers_down_and_loses_none(database_url: str) -> None:
    play = Play(main=[Reply(text="Here."), Reply(text="There.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        private = it.discord.dm(server.alice)
        it.discord.fail("POST", "/channels/{id}/messages", retry_after=0.1, times=2)
        await it.discord.say(server.alice, private, "Where?")
        await it.reads(private, "Here.")
        it.discord.fail("POST", "/channels/{id}/messages", status=503, times=1)
        await it.discord.say(server.alice, private, "And now?")
        await it.reads(private, "There.")

        assert [each.text() for each in it.said(private)] == ["Here.", "There."]


async def test_an_answer_survives_the_deletion_of_its_question_and_of_its_message(
    database_url: str,
) -> None:
    slow = Reply(text="Word by word by word. " * 12, gap_seconds=0.1)
    async with new_server() as server, on_discord(database_url, server, Play(main=[slow])) as it:
        private = it.discord.dm(server.alice)
        asked = await it.discord.say(server.alice, private, "Talk slowly.")
        await it.discord.until(lambda: it.said(private), "the first words")
        await it.discord.edit(asked, "Talk fast.")
        await it.discord.delete(asked)
        await it.discord.delete(it.said(private)[0])
        await it.reads(private, ("Word by word by word. " * 12).strip())


async def test_the_answer_to_an_interaction_that_has_expired_reaches_its_user(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, Play()) as it:
        hold = asyncio.Event()
        it.discord.fail("POST", "/interactions/{id}/{token}/callback", hold=hold)
        answer = await it.discord.slash(server.alice, server.channel, "retinue usage")
        it.discord.expire(answer)
        hold.set()
        await it.discord.until(
            lambda: any(
                "Your usage" in each.text()
                for channel in (server.channel, it.discord.dm(server.alice))
                for each in it.said(channel)
            ),
            "the answer as a message",
        )


async def test_other_bots_and_the_bot_itself_are_not_answered(database_url: str) -> None:
    play = Play(main=[Reply(text="Hello, it is me.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        robot = it.discord.add_user("robot", bot=True)
        it.discord.join(server.guild, robot)
        await it.discord.say(robot, server.channel, "Talk to me!", mention=True)
        await it.discord.say(it.discord.bot, server.channel, "Talk to me!", mention=True)
        asked = await it.discord.say(server.alice, server.channel, "Hi", mention=True)
        await it.reads(await it.thread_of(asked), "Hello, it is me.")

        assert len(play.asked) == 1


async def test_when_discord_opens_no_threads_for_minutes_the_channel_has_everything_in_order(
    database_url: str,
) -> None:
    async with new_server() as server, on_discord(database_url, server, digging()) as it:
        it.discord.limit("POST", "/channels/{id}/messages/{id}/threads", limit=0, seconds=300)

        asked = await it.discord.say(server.alice, server.channel, "Dig, please.", mention=True)
        card = await it.card(server.channel, "digging")
        answer = await it.reads(server.channel, "Started")
        it.gate.opened.set()
        result = await it.reads(server.channel, "Dug.")
        await it.card(server.channel, "digging", "completed")

        assert answer.reference == asked.id
        assert [each.id for each in it.said(server.channel)][-1] == result.id
        assert len(it.said(server.channel)) == len({card.id, answer.id, result.id}) == 3
        assert result.pings == {server.alice.id}


async def test_a_talk_that_was_answered_in_the_channel_goes_on_in_its_thread(
    database_url: str,
) -> None:
    play = Play(main=[Reply(text="Heard it."), Reply(text="Heard that, too.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        it.discord.limit("POST", "/channels/{id}/messages/{id}/threads", limit=0, seconds=300)
        asked = await it.discord.say(server.alice, server.channel, "The first.", mention=True)
        await it.reads(server.channel, "Heard it.")

        thread = await it.discord.open_thread(server.alice, server.channel, start=asked)
        await it.discord.say(server.alice, thread, "The second.", mention=True)
        await it.reads(thread, "Heard that, too.")

        last = str(play.asked[-1]["messages"])
        assert "The first." in last
        assert "The second." in last
