"""Runs that ask their person in Discord: by buttons, in words, across restarts, and nobody else."""

from pathlib import Path
from typing import Any

import pytest

from bot.conversations.approvals import GONE
from bot.values import RunStatus, short
from tests.fakes.anthropic_server import Reply
from tests.fakes.discord.things import Channel, Message
from tests.stories.asking import (
    ASKS_AS_TOOL,
    PAINT,
    QUESTIONS,
    World,
    baking,
    painter,
    painting,
    painting_in_a_turn,
    told_to_runs,
    waits_again,
)
from tests.stories.on_discord import Scene, new_server, on_discord
from tests.stories.stage import call, change, newest_run

BUTTONS = ["Allow once", "Allow for this run", "Deny"]


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


@pytest.mark.parametrize(
    ("by", "answer", "done", "note"),
    [
        ("button", "Allow once", ["fence"], "Allow once"),
        ("button", "Allow for this run", ["fence", "gate"], "Allow for this run"),
        ("button", "Deny", [], "Deny"),
        ("words", "yes", ["fence"], ""),
        ("words", "all", ["fence", "gate"], ""),
        ("words", "no", [], ""),
    ],
)
async def test_the_owner_allows_or_denies_a_call_by_button_or_in_words(
    sqlite_url: str, tmp_path: Path, by: str, answer: str, done: list[str], note: str
) -> None:
    world, gate = World(), call("paint", what="gate")
    further = [gate] if len(done) == 2 else []
    play = painting(PAINT, *further, Reply(text="That is all."))
    async with (
        new_server() as server,
        on_discord(sqlite_url, server, play, **painter(tmp_path, world)) as it,
    ):
        thread, question = await asked(it)
        run = await newest_run(it.bot, "Paint")
        await it.card(thread, "painting", "waiting for you")
        before, text, buttons = list(world.done), question.text(), question.buttons()
        if by == "button":
            answered = await (await it.discord.click(server.alice, question, answer)).done()
            assert answered.ephemeral
        else:
            await it.discord.say(server.alice, thread, answer)
        await it.reads(thread, "That is all.")
        await settled(it, question, note or f"<@{server.alice.id}>")

        assert before == []
        assert buttons == BUTTONS
        assert all(part in text for part in (short(run.id), "painter", 'paint(what="fence")'))
        assert world.done == done
        assert sum("asks: may it" in each.text() for each in it.said(thread)) == 1
        assert set(it.pings()) == {server.alice.id}
        if not done:
            assert "The user said no: paint was not called" in told_to_runs(play)


async def test_nobody_else_answers_by_button_or_in_words_and_learns_nothing(
    sqlite_url: str, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT, Reply(text="That is all."))
    async with new_server() as server:
        role = server.discord.add_role(server.guild, "farmers")
        server.guild.members[server.root.id].roles.append(role)
        settings = {"admin_roles": (str(role.id),)}
        kit = painter(tmp_path, world)
        async with on_discord(sqlite_url, server, play, settings=settings, **kit) as it:
            thread, question = await asked(it)
            refused = [
                await (await it.discord.click(server.bob, question, label)).done()
                for label in BUTTONS
            ]
            play.main.append(Reply(text="Hello Bob."))
            await it.discord.say(server.bob, thread, "yes", mention=True)
            await it.reads(thread, "Hello Bob.")
            still = await newest_run(it.bot, "Paint")
            before, buttons = list(world.done), question.buttons()
            await (await it.discord.click(server.root, question, "Allow once")).done()
            await it.reads(thread, "That is all.")
            await settled(it, question, "Allow once")

            assert all(each.ephemeral for each in refused)
            # The same as for a question that there is not.
            assert {each.text() for each in refused} == {GONE}
            assert still.status is RunStatus.WAITING_APPROVAL
            assert (before, buttons) == ([], BUTTONS)
            assert world.done == ["fence"]


async def test_without_an_answer_it_is_a_no_and_the_question_says_so(
    sqlite_url: str, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT, Reply(text="Nobody was there."))
    async with (
        new_server() as server,
        on_discord(sqlite_url, server, play, **painter(tmp_path, world)) as it,
    ):
        thread, question = await asked(it)
        await change(it.bot, QUESTIONS, expires_at=it.bot.upkeep.now())
        await it.reads(thread, "Nobody was there.")
        await settled(it, question, "No answer came in time.")

        assert "did not answer within 10 minutes" in told_to_runs(play)
        assert world.done == []


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        ("button", "Plum"),
        ("message", "Cherry, please"),
        ("reply", "Cherry, please"),
        ("command", "Cherry"),
        ("button", "Skip"),
    ],
)
async def test_a_run_goes_on_with_what_its_person_answers(
    sqlite_url: str, way: str, answer: str
) -> None:
    play = baking()
    async with new_server() as server, on_discord(sqlite_url, server, play) as it:
        thread, question = await asked(it, "Which cake?")
        await it.card(thread, "baking", "waiting for you")
        buttons = question.buttons()
        alice = server.alice
        match way:
            case "button":
                await (await it.discord.click(alice, question, answer)).done()
            case "message":
                await it.discord.say(alice, thread, answer)
            case "reply":
                await it.discord.say(alice, thread, answer, reply_to=question)
            case _:
                run = await newest_run(it.bot, "Bake")
                sent = await it.discord.slash(
                    alice, server.channel, "subagents send", run=run.id, message=answer
                )
                assert "has your answer and goes on" in (await sent.done()).text()
        await it.reads(thread, "Baked.")
        await settled(it, question, answer)

        assert buttons == ["Apple", "Plum", "Skip"]
        told = told_to_runs(play)
        expected = "skipped the question" if answer == "Skip" else f"answered:\n{answer}"
        assert expected in told
        assert f"<@{alice.id}>" in question.text()


@pytest.mark.parametrize("way", ["reply", "mention"])
async def test_what_was_asked_in_the_channel_itself_is_answered_there(
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


async def test_a_run_is_stopped_while_it_waits_and_its_question_is_over(
    sqlite_url: str, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT)
    async with (
        new_server() as server,
        on_discord(sqlite_url, server, play, **painter(tmp_path, world)) as it,
    ):
        thread, question = await asked(it)
        card = await it.card(thread, "painting", "waiting for you")
        await (await it.discord.click(server.alice, card, "Stop")).done()
        await it.card(thread, "painting", "stopped")
        await settled(it, question, "The run is over")

        assert world.done == []


@pytest.mark.parametrize("way", ["button", "words"])
async def test_after_a_restart_the_same_message_still_asks_and_takes_one_answer(
    database_url: str, tmp_path: Path, way: str
) -> None:
    world, play = World(), painting(PAINT, Reply(text="That is all."))
    kit: dict[str, Any] = painter(tmp_path, world)
    async with new_server() as server:
        async with on_discord(database_url, server, play, **kit) as it:
            thread, question = await asked(it)
            await it.card(thread, "painting", "waiting for you")
            run = await newest_run(it.bot, "Paint")
        async with on_discord(database_url, server, play, **kit) as it:
            if way == "button":
                await waits_again(it.bot, run)
                await (await it.discord.click(server.alice, question, "Allow once")).done()
            else:
                await it.discord.say(server.alice, thread, "yes")
            await it.reads(thread, "That is all.")
            await settled(it, question, f"<@{server.alice.id}>")

            assert world.done == ["fence"]
            assert sum("asks: may it" in each.text() for each in it.said(thread)) == 1


async def test_an_agent_that_is_called_as_a_tool_asks_while_the_turn_waits(
    database_url: str, tmp_path: Path
) -> None:
    world, play = World(), painting_in_a_turn(PAINT, Reply(text="Painted it."))
    kit = painter(tmp_path, world, ASKS_AS_TOOL)
    async with new_server() as server, on_discord(database_url, server, play, **kit) as it:
        thread, question = await asked(it)
        run = await newest_run(it.bot, "Paint")
        before = [each.text() for each in it.said(thread)]
        await (await it.discord.click(server.alice, question, "Allow once")).done()
        await it.reads(thread, "It is painted.")
        await settled(it, question, "Allow once")

        assert (run.status, run.mode) == (RunStatus.WAITING_APPROVAL, "sync")
        assert not any("It is painted." in text for text in before)
        assert world.done == ["fence"]


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
