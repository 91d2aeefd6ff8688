"""Runs that ask their person in Slack: by buttons, in words, across restarts, and nobody else."""

from pathlib import Path
from typing import Any

import pytest

from bot.conversations.access import AccessSettings
from bot.conversations.approvals import GONE
from bot.values import RunStatus, short
from tests.fakes.anthropic_server import Reply
from tests.fakes.slack.messages import Message
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
from tests.stories.on_slack import Scene, Way, new_office, on_slack
from tests.stories.stage import call, change, newest_run
from tests.stories.test_slack_runs import labels

BUTTONS = ["Allow once", "Allow for this run", "Deny"]


async def asked(it: Scene, words: str = "asks:") -> tuple[Message, Message]:
    """Have Alice ask for something; return the root of the thread and what a run asks her there."""
    office = it.office
    told = await it.slack.say(office.alice, office.channel, "Please do it.", mention=True)
    return told, await it.reads(told, words)


async def settled(it: Scene, question: Message, note: str) -> None:
    """Wait until a question has no buttons any more and shows what became of it."""
    await it.slack.until(
        lambda: not question.buttons() and note in question.readable(),
        f"{note!r} below the question",
    )


@pytest.mark.parametrize(
    ("by", "answer", "done"),
    [
        ("button", "Allow once", ["fence"]),
        ("button", "Allow for this run", ["fence", "gate"]),
        ("button", "Deny", []),
        ("words", "yes", ["fence"]),
        ("words", "all", ["fence", "gate"]),
        ("words", "no", []),
    ],
)
async def test_the_owner_allows_or_denies_a_call_by_button_or_in_words(
    way: Way, tmp_path: Path, by: str, answer: str, done: list[str]
) -> None:
    world, gate = World(), call("paint", what="gate")
    further = [gate] if len(done) == 2 else []
    play = painting(PAINT, *further, Reply(text="That is all."))
    async with (
        new_office() as office,
        on_slack(way, office, play, **painter(tmp_path, world)) as it,
    ):
        thread, question = await asked(it)
        run = await newest_run(it.bot, "Paint")
        await it.card(thread, "painting", "waiting for you")
        before, text = list(world.done), question.readable()
        buttons, others = labels(question, office.alice), labels(question, office.bob)
        if by == "button":
            await (await it.slack.click(office.alice, question, answer)).done()
        else:
            await it.slack.say(office.alice, office.channel, answer, thread=thread)
        await it.whispered(office.alice, "Denied" if not done else "Allowed")
        await it.reads(thread, "That is all.")
        await settled(it, question, "alice")

        assert before == []
        assert (buttons, others) == (BUTTONS, [])
        assert all(part in text for part in (short(run.id), "painter", 'paint(what="fence")'))
        assert world.done == done
        assert sum("asks: may it" in each.readable() for each in it.said(thread)) == 1
        assert set(it.pings()) == {f"<@{office.alice.id}>"}
        if by == "button":
            assert f"alice: {answer}" in question.readable()
        if not done:
            assert "The user said no: paint was not called" in told_to_runs(play)
        await it.acknowledged()


async def test_nobody_else_answers_by_button_or_in_words_and_learns_nothing(
    way: Way, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT, Reply(text="That is all."))
    async with new_office() as office:
        access = AccessSettings(admins=(f"slack:{office.slack.team.id}:{office.root.id}",))
        kit = painter(tmp_path, world)
        async with on_slack(way, office, play, access=access, **kit) as it:
            thread, question = await asked(it)
            refused = [
                await (await it.slack.click(office.bob, question, label, force=True)).done()
                for label in BUTTONS
            ]
            play.main.append(Reply(text="Hello Bob."))
            await it.slack.say(office.bob, office.channel, "yes", thread=thread, mention=True)
            await it.reads(thread, "Hello Bob.")
            still, before = await newest_run(it.bot, "Paint"), list(world.done)
            await (await it.slack.click(office.root, question, "Allow once", force=True)).done()
            await it.reads(thread, "That is all.")
            await settled(it, question, "Allow once")

            assert all(each.ephemeral for each in refused)
            # The same as for a question that there is not.
            assert {line for each in refused for line in each.text().splitlines()} == {GONE}
            assert (still.status, before) == (RunStatus.WAITING_APPROVAL, [])
            assert world.done == ["fence"]


async def test_without_an_answer_it_is_a_no_and_the_question_says_so(
    way: Way, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT, Reply(text="Nobody was there."))
    async with (
        new_office() as office,
        on_slack(way, office, play, **painter(tmp_path, world)) as it,
    ):
        thread, question = await asked(it)
        await change(it.bot, QUESTIONS, expires_at=it.bot.upkeep.now())
        await it.reads(thread, "Nobody was there.")
        await settled(it, question, "No answer came in time.")

        assert "did not answer within 10 minutes" in told_to_runs(play)
        assert world.done == []


@pytest.mark.parametrize(
    ("by", "answer"),
    [
        ("button", "Plum"),
        ("message", "Cherry, please"),
        ("command", "Cherry"),
        ("button", "Skip"),
    ],
)
async def test_a_run_goes_on_with_what_its_person_answers(way: Way, by: str, answer: str) -> None:
    play = baking()
    async with new_office() as office, on_slack(way, office, play) as it:
        thread, question = await asked(it, "Which cake?")
        await it.card(thread, "baking", "waiting for you")
        buttons, alice = labels(question, office.alice), office.alice
        if by == "button":
            await (await it.slack.click(alice, question, answer)).done()
        elif by == "message":
            await it.slack.say(alice, office.channel, answer, thread=thread)
        else:
            words = f"send {(await newest_run(it.bot, 'Bake')).id} {answer}"
            sent = await it.slack.slash(alice, office.channel, "/subagents", words)
            assert "has your answer and goes on" in (await sent.done()).text()
        await it.reads(thread, "Baked.")
        await settled(it, question, f"alice: {answer}")

        assert buttons == ["Apple", "Plum", "Skip"]
        expected = "skipped the question" if answer == "Skip" else f"answered:\n{answer}"
        assert expected in told_to_runs(play)


@pytest.mark.parametrize("where", ["below it", "in the channel"])
async def test_what_was_asked_in_the_channel_itself_is_answered_there(way: Way, where: str) -> None:
    play = baking()
    async with new_office() as office, on_slack(way, office, play) as it:
        room, alice = office.channel, office.alice
        words = "spawn --label baking Bake a cake"
        await (await it.slack.slash(alice, room, "/subagents", words)).done()
        question = await it.reads(room, "Which cake?")
        if where == "below it":
            await it.slack.say(alice, room, "Cherry", thread=question)
        else:
            await it.slack.say(alice, room, "Cherry", mention=True)
        await it.reads(room, "Baked.")
        await settled(it, question, "alice: Cherry")

        assert "answered:\nCherry" in told_to_runs(play)


async def test_a_run_is_stopped_while_it_waits_and_its_question_is_over(
    way: Way, tmp_path: Path
) -> None:
    world, play = World(), painting(PAINT)
    async with (
        new_office() as office,
        on_slack(way, office, play, **painter(tmp_path, world)) as it,
    ):
        thread, question = await asked(it)
        card = await it.card(thread, "painting", "waiting for you")
        await (await it.slack.click(office.alice, card, "Stop")).done()
        await it.card(thread, "painting", "stopped")
        await settled(it, question, "The run is over")

        assert world.done == []


@pytest.mark.parametrize("by", ["button", "words"])
async def test_after_a_restart_the_same_message_still_asks_and_takes_one_answer(
    way: Way, tmp_path: Path, by: str
) -> None:
    world, play = World(), painting(PAINT, Reply(text="That is all."))
    kit: dict[str, Any] = painter(tmp_path, world)
    async with new_office() as office:
        async with on_slack(way, office, play, **kit) as it:
            thread, question = await asked(it)
            await it.card(thread, "painting", "waiting for you")
            run = await newest_run(it.bot, "Paint")
        before = question.readable()
        async with on_slack(way, office, play, **kit) as it:
            if by == "button":
                await waits_again(it.bot, run)
                await (await it.slack.click(office.alice, question, "Allow once")).done()
            else:
                await it.slack.say(office.alice, office.channel, "yes", thread=thread)
            await it.reads(thread, "That is all.")
            await settled(it, question, "alice")

            assert world.done == ["fence"]
            assert before.splitlines()[0] in question.readable()
            assert sum("asks: may it" in each.readable() for each in it.said(thread)) == 1


async def test_an_agent_that_is_called_as_a_tool_asks_while_the_turn_waits(
    way: Way, tmp_path: Path
) -> None:
    world, play = World(), painting_in_a_turn(PAINT, Reply(text="Painted it."))
    kit = painter(tmp_path, world, ASKS_AS_TOOL)
    async with new_office() as office, on_slack(way, office, play, **kit) as it:
        thread, question = await asked(it)
        run = await newest_run(it.bot, "Paint")
        before = [each.readable() for each in it.said(thread)]
        await (await it.slack.click(office.alice, question, "Allow once")).done()
        await it.reads(thread, "It is painted.")
        await settled(it, question, "alice: Allow once")

        assert (run.status, run.mode) == (RunStatus.WAITING_APPROVAL, "sync")
        assert not any("It is painted." in text for text in before)
        assert world.done == ["fence"]
