"""What goes wrong in Slack: nothing is lost, nothing is said twice, nothing goes elsewhere."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.errors import DatabaseUnreachableError
from bot.platforms.slack.intake import STORED_SECONDS
from bot.platforms.slack.interactions import WHERE_SECONDS
from bot.platforms.slack.people import ASK_SECONDS
from db import outbox, tables
from db.outbox import OutboxEntry
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.fakes.slack.agents import Status
from tests.stories.on_slack import Office, Scene, Way, new_office, on_slack
from tests.stories.stage import Play, change, newest_run
from tests.stories.test_chat_runs import digging
from tests.stories.test_slack_runs import spawned


async def item_of(it: Scene, word: str) -> OutboxEntry | None:
    """Return the announcement of a run, once there is one."""
    run = await newest_run(it.bot, word)
    async with it.bot.database.snapshot() as tx:
        return await outbox.get(tx, run.id)


async def test_what_is_said_while_the_bot_is_away_is_answered_when_slack_tells_it_again(
    way: Way,
) -> None:
    play = Play(main=[Reply(text="Heard it.")])
    async with new_office() as office:
        if way.transport == "http":
            office.slack.connect_http("http://127.0.0.1:9/slack/events")
        private = office.slack.dm(office.alice)
        asked = await office.slack.say(office.alice, private, "Are you there?")
        async with on_slack(way, office, play) as it:
            await it.slack.retry_lost()
            await it.reads(asked, "Heard it.")
            await it.slack.redeliver(asked, retry=3)
            await it.acknowledged()

            assert len(it.said(asked)) == 1


async def test_a_socket_that_slack_renews_loses_nothing(sqlite_url: str) -> None:
    play = Play(main=[Reply(text=f"Answer {n}.") for n in range(4)])
    way = Way("socket", sqlite_url)
    async with new_office() as office, on_slack(way, office, play) as it:
        private = it.slack.dm(office.alice)
        for number in range(2):
            asked = await it.slack.say(office.alice, private, f"Question {number}?")
            await it.reads(asked, f"Answer {number}.")
            await it.slack.refresh_socket()
        asked = await it.slack.say(office.alice, private, "And now?")
        await it.reads(asked, "Answer 2.")


async def test_a_run_that_ends_while_the_socket_is_broken_is_announced_and_slack_comes_back(
    sqlite_url: str,
) -> None:
    way, play = Way("socket", sqlite_url), digging()
    async with new_office() as office, on_slack(way, office, play, ping_seconds=0.5) as it:
        asked, _ = await spawned(it)
        it.slack.drop_socket()
        it.gate.opened.set()
        result = await it.reads(asked, "Dug.")
        play.main.append(Reply(text="Back again."))
        again = await it.slack.say(office.alice, it.slack.dm(office.alice), "Are you there?")
        await it.slack.connected()
        await it.slack.retry_lost()
        await it.reads(again, "Back again.")

        assert result.pings == [f"<@{office.alice.id}>"]


async def test_what_cannot_be_stored_is_not_lost(way: Way) -> None:
    play = Play(main=[Reply(text="Stored at last.")])
    async with new_office() as office, on_slack(way, office, play) as it:
        private = it.slack.dm(office.alice)
        async with out_of_reach(it):
            asked = await it.slack.say(office.alice, private, "Remember me.")
            told = await it.reads(asked, "I try again by myself")
            assert not asked.events[0].acked
        await it.reads(asked, "Stored at last.")
        await it.slack.retry_lost()

        assert "memory cannot be reached" in told.readable()
        assert len(play.asked) == 1
        assert len([m for m in it.said(asked) if "Stored at last." in m.readable()]) == 1


@asynccontextmanager
async def out_of_reach(it: Scene) -> AsyncIterator[None]:
    """Let nothing be stored as long as the block lasts."""
    database = it.bot.database
    transaction = database.transaction

    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise DatabaseUnreachableError("My memory cannot be reached at the moment.")
        yield

    database.transaction = broken  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        database.transaction = transaction  # type: ignore[method-assign]


async def test_a_result_that_slack_does_not_take_is_tried_again_and_said_once(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, _ = await spawned(it)
        it.slack.fail("chat.postMessage", refuse=True, times=None)
        it.gate.opened.set()

        async def kept() -> bool:
            found = await item_of(it, "Dig")
            return found is not None and found.status == "pending" and found.attempts > 0

        await eventually(kept, "the result to be kept")
        it.slack.heal()
        await change(it.bot, tables.outbox, due_at=it.bot.upkeep.now())
        await it.bot.announcements.sweep()
        await it.reads(asked, "Dug.")

        results = [each for each in it.said(asked) if "Dug." in each.readable()]
        assert len(results) <= 2
        assert len(results) == 1 or "may be a repetition" in results[1].readable()


async def test_a_result_whose_fate_is_unknown_is_repeated_at_most_once_and_says_so(
    way: Way,
) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, _ = await spawned(it)
        it.slack.fail("chat.postMessage", cut=True)
        it.gate.opened.set()
        await it.reads(asked, "Dug.")

        async def tried() -> bool:
            found = await item_of(it, "Dig")
            return found is not None and found.attempts > 0 and found.status == "pending"

        await eventually(tried, "the first attempt")
        await change(it.bot, tables.outbox, due_at=it.bot.upkeep.now())
        await it.bot.announcements.sweep()
        await it.reads(asked, "may be a repetition")
        await change(it.bot, tables.outbox, due_at=it.bot.upkeep.now())
        await it.bot.announcements.sweep()

        results = [each for each in it.said(asked) if "Dug." in each.readable()]
        assert len(results) == 2


async def test_a_result_whose_channel_is_archived_goes_to_its_owner_alone(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        await spawned(it)
        elsewhere = it.slack.add_channel("elsewhere")
        office.channel.archived = True
        it.gate.opened.set()
        await it.reads(it.slack.dm(office.alice), "Dug.")

        assert it.slack.said(elsewhere) == []


async def test_a_result_whose_thread_is_gone_goes_to_its_owner_alone(way: Way) -> None:
    async with new_office() as office, on_slack(way, office, digging()) as it:
        asked, _ = await spawned(it)
        await it.slack.delete(asked)
        it.gate.opened.set()
        await it.reads(it.slack.dm(office.alice), "Dug.")

        assert not any("Dug." in each.readable() for each in it.slack.said(office.channel))


async def test_a_busy_slack_slows_answers_down_and_loses_none(way: Way) -> None:
    play = Play(main=[Reply(text="Here."), Reply(text="There.")])
    async with new_office() as office, on_slack(way, office, play) as it:
        private = it.slack.dm(office.alice)
        it.slack.streaming = False
        it.slack.fail("chat.postMessage", error="ratelimited", status=429, retry_after=1)
        first = await it.slack.say(office.alice, private, "Where?")
        await it.reads(first, "Here.")
        it.slack.fail("chat.postMessage", status=503)
        second = await it.slack.say(office.alice, private, "And now?")
        await it.reads(second, "There.")

        assert [each.readable() for each in it.said(first)] == ["Here."]


async def test_an_answer_survives_the_deletion_of_its_question_and_of_its_message(
    way: Way,
) -> None:
    story = "Word by word by word. " * 12
    slow = Reply(text=story, gap_seconds=0.1)
    async with new_office() as office, on_slack(way, office, Play(main=[slow])) as it:
        private = it.slack.dm(office.alice)
        asked = await it.slack.say(office.alice, private, "Talk slowly.")
        await it.slack.until(lambda: it.said(asked), "the first words")
        await it.slack.edit(asked, "Talk fast.")
        await it.slack.delete(it.said(asked)[0])
        await it.reads(asked, story.strip())


async def test_the_answer_to_a_command_reaches_its_user_where_slack_takes_no_more_for_it(
    way: Way,
) -> None:
    async with new_office() as office, on_slack(way, office, Play()) as it:
        it.slack.fail("response_url", error="expired_url", status=404)
        await it.slack.slash(office.alice, office.channel, "/retinue", "usage")
        await it.whispered(office.alice, "Your usage")


async def test_a_slow_core_does_not_keep_slack_waiting(way: Way) -> None:
    play = Play(main=[Reply(text="Here.")])
    async with new_office() as office, on_slack(way, office, play) as it:
        hold = asyncio.Event()
        # Nothing is measured here: that our time ends before Slack's is asserted below.
        it.slack.deliveries.ack_seconds = 20
        it.slack.fail("users.info", hold=hold, times=None)
        it.slack.fail("files.download", hold=hold, times=None)
        files = [("sheep.csv", "text/csv", b"name\nDolly\n")]
        asked = await it.slack.say(
            office.alice, office.channel, "Read this.", mention=True, files=files
        )
        assert all(delivery.acked for delivery in asked.events)
        hold.set()
        await it.reads(asked, "Here.")

        assert "Dolly" in str(play.asked)
        assert ASK_SECONDS < STORED_SECONDS
        assert WHERE_SECONDS + STORED_SECONDS < 3


async def test_a_status_that_a_dead_process_left_is_taken_away_at_the_start(way: Way) -> None:
    play = Play(main=[Reply(text="Done.")])
    async with new_office() as office:
        async with on_slack(way, office, play) as it:
            asked = await it.slack.say(office.alice, office.channel, "Hi", mention=True)
            await it.reads(asked, "Done.")
            await it.slack.until(
                lambda: it.slack.session(office.channel, asked.ts) == "active", "rest"
            )
        left_behind(office, asked.ts)
        async with on_slack(way, office, play) as it:
            await it.slack.until(
                lambda: (
                    not it.slack.status(office.channel, asked.ts)
                    and it.slack.session(office.channel, asked.ts) == "active"
                ),
                "the thread to rest",
            )


def left_behind(office: Office, thread_ts: str) -> None:
    """Let a thread look as if an answer was being given."""
    agents = office.slack.agents
    agents.sessions[office.channel.id, thread_ts] = "processing"
    place = (office.channel.id, thread_ts)
    agents.texts[place] = Status("text", *place, "is thinking…", time.monotonic())
