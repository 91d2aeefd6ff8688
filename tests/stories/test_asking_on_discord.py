"""Runs that ask their user in Discord, beside what is the same in every chat: replies."""

import pytest

from bot.values import RunStatus
from tests.fakes.anthropic_server import Reply
from tests.fakes.discord.things import Channel, Message
from tests.stories.asking import (
    baking,
    told_to_runs,
)
from tests.stories.on_discord import Scene, new_server, on_discord
from tests.stories.stage import call, newest_run

BUTTONS = ["Allow once", "Allow for this run", "Always, for 30 days", "Deny"]


async def asked(it: Scene, words: str = "asks:") -> tuple[Channel, Message]:
    """Have Alice ask for something; return the thread and what a run asks her there."""
    server = it.server
    told = await it.discord.say(server.alice, server.channel, "Please do it.", mention=True)
    thread = await it.thread_of(told)
    question = await it.reads(thread, words)
    await it.discord.until(question.buttons, "the buttons")
    return thread, question


async def settled(it: Scene, question: Message, note: str) -> None:
    """Wait until a question has no buttons any more and shows what became of it."""
    await it.discord.until(
        lambda: not question.buttons() and note in question.text(), f"{note!r} below the question"
    )


async def test_a_reply_answers_a_question_in_a_thread(sqlite_url: str) -> None:
    play = baking()
    async with new_server() as server, on_discord(sqlite_url, server, play) as it:
        thread, question = await asked(it, "Which cake?")
        await it.discord.say(server.alice, thread, "Cherry, please", reply_to=question)
        await it.reads(thread, "Baked.")
        await settled(it, question, "Cherry, please")

        assert "answered:\nCherry, please" in told_to_runs(play)


@pytest.mark.parametrize("way", ["reply", "mention"])
async def test_a_question_in_the_channel_itself_is_answered_there(
    sqlite_url: str, way: str
) -> None:
    play = baking()
    async with new_server() as server, on_discord(sqlite_url, server, play) as it:
        channel, alice = server.channel, server.alice
        await it.discord.slash(
            alice, channel, "subagents spawn", task="Bake a cake", label="baking"
        )
        question = await it.reads(channel, "Which cake?")
        if way == "reply":
            await it.discord.say(alice, channel, "Cherry", reply_to=question)
        else:
            await it.discord.say(alice, channel, "Cherry", mention=True)
        await it.reads(channel, "Baked.")
        await settled(it, question, "Cherry")

        assert "answered:\nCherry" in told_to_runs(play)


async def test_a_reply_answers_the_one_question_that_it_is_a_reply_to(sqlite_url: str) -> None:
    play = baking()
    play.runs["Brew"] = [call("ask_user", question="Which tea?"), Reply(text="Brewed.")]
    async with new_server() as server, on_discord(sqlite_url, server, play) as it:
        thread, cake = await asked(it, "Which cake?")
        await it.discord.slash(
            server.alice, thread, "subagents spawn", task="Brew tea", label="brewing"
        )
        tea = await it.reads(thread, "Which tea?")
        await it.discord.say(server.alice, thread, "Green", reply_to=tea)
        await it.reads(thread, "Brewed.")
        await settled(it, tea, "Green")

        assert cake.buttons() == ["Apple", "Plum", "Skip"]
        assert (await newest_run(it.bot, "Bake")).status is RunStatus.WAITING_INPUT


async def test_in_a_direct_message_a_bare_answer_is_enough(sqlite_url: str) -> None:
    play = baking()
    async with new_server() as server, on_discord(sqlite_url, server, play) as it:
        direct = it.discord.dm(server.alice)
        await it.discord.say(server.alice, direct, "Bake a cake.")
        question = await it.reads(direct, "Which cake?")
        await it.discord.say(server.alice, direct, "2")
        await it.reads(direct, "Baked.")
        await settled(it, question, "Plum")

        assert "answered:\nPlum" in told_to_runs(play)
