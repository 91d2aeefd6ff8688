"""Runs that ask their user in Slack, beside what is the same in every chat."""

from pathlib import Path

import pytest

from tests.fakes.anthropic_server import Reply
from tests.fakes.slack.messages import Message
from tests.stories.asking import (
    PAINT,
    World,
    baking,
    painter,
    painting,
    told_to_runs,
)
from tests.stories.on_slack import Scene, Way, new_office, on_slack
from tests.stories.test_slack_runs import labels

BUTTONS = ["Allow once", "Allow for this run", "Always, for 30 days", "Deny"]


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


@pytest.mark.parametrize("where", ["below it", "in the channel"])
async def test_a_question_in_the_channel_itself_is_answered_there(way: Way, where: str) -> None:
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


@pytest.mark.parametrize(("answer", "told"), [("Allow once", "Allowed"), ("Deny", "Denied")])
async def test_only_the_owner_sees_the_buttons_and_is_told_that_the_answer_counts(
    way: Way, tmp_path: Path, answer: str, told: str
) -> None:
    play = painting(PAINT, Reply(text="That is all."))
    async with (
        new_office() as office,
        on_slack(way, office, play, **painter(tmp_path, World())) as it,
    ):
        thread, question = await asked(it, "asks:")
        buttons, others = labels(question, office.alice), labels(question, office.bob)
        await (await it.slack.click(office.alice, question, answer)).done()
        await it.whispered(office.alice, told)
        await it.reads(thread, "That is all.")
        await settled(it, question, f"alice: {answer}")

        assert (buttons, others) == (
            ["Allow once", "Allow for this run", "Always, for 30 days", "Deny"],
            [],
        )
        await it.acknowledged()
