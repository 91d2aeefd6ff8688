"""The bot on Slack as real processes: killed, and two at once; nothing is lost or said twice."""

import signal
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.serving import serving
from tests.fakes.slack.messages import Message
from tests.stories.on_slack import Office, new_office
from tests.stories.stage import Play, call
from tests.stories.test_discord_process import models

pytestmark = pytest.mark.timeout(120)

#: A process of its own takes longer to start than a test waits for anything else.
PATIENCE = 40.0


def said(office: Office, thread: Message) -> list[Message]:
    """Return what the bot has said in a thread."""
    return office.slack.said(thread.channel, thread)


async def shown(office: Office, thread: Message, words: str) -> Message:
    """Wait until a message of the bot holds these words."""

    def found() -> list[Message]:
        return [each for each in said(office, thread) if words in each.readable()]

    await office.slack.until(found, words)
    return found()[0]


async def test_a_run_survives_kill_9_in_its_card_and_is_announced_once(
    tmp_path: Path, database_url: str
) -> None:
    play = Play(
        main=[call("sessions_spawn", task="Dig", label="digging"), Reply(text="Started it.")],
        runs={"Dig": [Reply(text="x", fault="hang"), Reply(text="Dug after all.")]},
    )
    async with new_office(PATIENCE) as office, FakeAnthropic(play) as model:
        start = partial(
            serving, office.slack, tmp_path, models=models(model), database_url=database_url
        )
        async with start() as bot:
            await office.slack.connected()
            asked = await office.slack.say(office.alice, office.channel, "Dig.", mention=True)
            await shown(office, asked, "Started it.")
            card = await shown(office, asked, "running")
            await model.received(3)
            bot.signal(signal.SIGKILL)
            await bot.ended()
        async with start():
            result = await shown(office, asked, "Dug after all.")
            await office.slack.until(lambda: "completed" in card.readable(), "the end on the card")
            cards = [each for each in said(office, asked) if each.buttons()]
            results = [m for m in said(office, asked) if "Dug after all." in m.readable()]

        assert cards == [card]
        assert results == [result]
        assert result.pings == [f"<@{office.alice.id}>"]


async def test_an_answer_that_kill_9_interrupts_goes_on_in_its_message(
    tmp_path: Path, database_url: str
) -> None:
    slow = Reply(text="Once upon a time there was a sheep. " * 20, gap_seconds=0.2)
    play = Play(main=[slow, Reply(text="The whole story.")])
    async with new_office(PATIENCE) as office, FakeAnthropic(play) as model:
        start = partial(
            serving, office.slack, tmp_path, models=models(model), database_url=database_url
        )
        async with start() as bot:
            await office.slack.connected()
            private = office.slack.dm(office.alice)
            asked = await office.slack.say(office.alice, private, "A story!")
            first = await shown(office, asked, "Once upon")
            await office.slack.until(
                lambda: len(office.slack.called("chat.appendStream")) > 1, "more of it"
            )
            bot.signal(signal.SIGKILL)
            await bot.ended()
        async with start():
            whole = await shown(office, asked, "The whole story.")
            await office.slack.until(
                lambda: (
                    office.slack.session(private, asked.ts) == "active"
                    and not office.slack.status(private, asked.ts)
                ),
                "the thread to rest",
            )

        assert whole is first
        assert said(office, asked) == [first]
        assert not first.streaming


async def test_what_was_not_stored_when_the_process_died_is_answered_when_slack_tells_it_again(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with new_office(PATIENCE) as office, FakeAnthropic(Play(main=[Reply(text="Yes.")])) as ai:
        start = partial(serving, office.slack, tmp_path, models=models(ai), database_url=sqlite_url)
        private = office.slack.dm(office.alice)
        async with start() as bot:
            await office.slack.connected()
            bot.signal(signal.SIGSTOP)
            office.slack.deliveries.ack_seconds = 0.2
            asked = await office.slack.say(office.alice, private, "Are you there?")
            bot.signal(signal.SIGKILL)
            await bot.ended()
        office.slack.deliveries.ack_seconds = 3.0
        async with start():
            await office.slack.until(lambda: office.slack.sockets_open == 1, "a new socket")
            await office.slack.retry_lost()
            await shown(office, asked, "Yes.")

        assert len(said(office, asked)) == 1


async def test_an_event_that_two_processes_hear_at_once_is_answered_once(
    tmp_path: Path, postgres_url: str
) -> None:
    play = Play(main=[Reply(text="Once."), Reply(text="Twice.")])
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
    async with new_office(PATIENCE) as office, FakeAnthropic(play) as model:
        start = partial(serving, office.slack, models=models(model), database_url=postgres_url)
        async with start(folders[0]), start(folders[1]):
            await office.slack.until(lambda: office.slack.sockets_open == 2, "two sockets")
            asked = await office.slack.say(office.alice, office.channel, "Hi!", mention=True)
            for retry in (1, 2):
                await office.slack.redeliver(asked, retry=retry, everywhere=True)
            await shown(office, asked, "Once.")
            told = office.slack.deliveries.all
            await office.slack.until(lambda: all(each.acked for each in told), "acks")
            command = await office.slack.slash(office.alice, office.channel, "/retinue", "usage")
            await command.done()
            assert command.delivery is not None
            await office.slack.redeliver(command.delivery, everywhere=True)
            await office.slack.until(lambda: all(each.acked for each in told), "acks")

        assert len(said(office, asked)) == 1
        assert len(play.asked) == 1
        assert len([m for m in command.posts if "Your usage" in m.readable()]) == 1
