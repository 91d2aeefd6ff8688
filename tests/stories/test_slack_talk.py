"""Talking with the bot in Slack: mentions, threads, direct messages, files, long answers."""

import time

from bot.conversations.access import AccessSettings
from tests.fakes.anthropic_server import Reply
from tests.stories.on_slack import QUICK, Way, new_office, on_slack
from tests.stories.stage import Play


async def test_a_mention_is_acknowledged_before_its_answer(way: Way) -> None:
    play = Play(main=[Reply(text="Four sheep.", fault="hang")])
    async with new_office() as office, on_slack(way, office, play) as it:
        asked = await it.slack.say(office.alice, office.channel, "How many sheep?", mention=True)
        await it.slack.until(lambda: it.slack.statuses, "a sign")
        it.model.go.set()
        await it.reads(asked, "Four sheep.")
        await it.slack.until(lambda: not it.slack.status(office.channel, asked.ts), "silence")

        assert it.slack.statuses[0].status == "is thinking…"
        assert it.slack.bot_user().id not in str(play.asked)
        await it.acknowledged()


async def test_a_message_of_a_channel_that_mentions_nobody_is_not_for_the_bot(way: Way) -> None:
    play = Play(main=[Reply(text="You called?")])
    async with new_office() as office, on_slack(way, office, play) as it:
        room = office.channel
        message = await it.slack.say(office.alice, room, "Who has seen my keys?")
        await it.slack.edit(message, "Who has seen my keys?", mention=True)
        await it.reads(message, "You called?")
        await it.slack.edit(message, "Have you seen my keys?", mention=True)
        await it.slack.delete(message)

        assert len(play.asked) == 1


async def test_each_direct_message_begins_a_talk_of_its_own_in_its_thread(way: Way) -> None:
    play = Play(main=[Reply(text="Hello."), Reply(text="Still here."), Reply(text="New here.")])
    async with new_office() as office, on_slack(way, office, play) as it:
        private = it.slack.dm(office.alice)
        first = await it.slack.say(office.alice, private, "I am blue.")
        await it.reads(first, "Hello.")
        await it.slack.say(office.alice, private, "Are you there?", thread=first)
        await it.reads(first, "Still here.")
        second = await it.slack.say(office.alice, private, "What am I?")
        await it.reads(second, "New here.")

        assert "blue" in str(play.asked[1]["messages"])
        assert "blue" not in str(play.asked[2]["messages"])


async def test_an_answer_streams_into_one_message(way: Way) -> None:
    story = "Once upon a time there was a sheep. " * 5
    slow = Reply(text=story, gap_seconds=0.1)
    async with new_office() as office, on_slack(way, office, Play(main=[slow])) as it:
        asked = await it.slack.say(office.alice, office.channel, "A story!", mention=True)
        await it.slack.until(lambda: it.said(asked), "the first words")
        first = it.said(asked)[0]
        assert first.streaming
        assert it.slack.session(office.channel, asked.ts) == "processing"
        await it.slack.until(lambda: not first.streaming, "the end")

        assert first.readable().split() == story.split()
        assert it.said(asked) == [first]
        assert len(it.slack.called("chat.appendStream")) >= 2
        await it.slack.until(
            lambda: it.slack.session(office.channel, asked.ts) == "active", "the session to rest"
        )


async def test_where_there_is_no_streaming_the_answer_grows_by_edits_apart(way: Way) -> None:
    story = "Once upon a time there was a sheep. " * 20
    slow = Reply(text=story, gap_seconds=0.01)
    async with new_office() as office, on_slack(way, office, Play(main=[slow])) as it:
        it.slack.streaming = False
        began = time.monotonic()
        asked = await it.slack.say(office.alice, office.channel, "A story!", mention=True)
        await it.slack.until(lambda: it.said(asked), "the first words")
        first = it.said(asked)[0]
        await it.slack.until(lambda: first.readable().split() == story.split(), "the whole answer")

        took = time.monotonic() - began
        edits = it.slack.called("chat.update")
        assert it.said(asked) == [first]
        assert first.edits == len(edits) >= 2
        assert len(edits) <= took / QUICK.edit_seconds


async def test_a_stream_that_slack_ends_after_five_minutes_goes_on_as_edits(way: Way) -> None:
    story = "Once upon a time there was a sheep. " * 8
    slow = Reply(text=story, gap_seconds=0.1)
    async with new_office() as office, on_slack(way, office, Play(main=[slow])) as it:
        asked = await it.slack.say(office.alice, office.channel, "A story!", mention=True)
        await it.slack.until(lambda: it.said(asked), "the first words")
        it.slack.end_streams()
        await it.slack.until(
            lambda: " ".join(m.readable() for m in it.said(asked)).split() == story.split(),
            "the whole answer",
        )


async def test_files_that_slack_keeps_from_the_bot_are_said_and_the_words_are_answered(
    way: Way,
) -> None:
    play = Play(main=[Reply(text="I cannot see it.")])
    async with new_office() as office, on_slack(way, office, play) as it:
        it.slack.refuse_files = True
        files = [("sheep.csv", "text/csv", b"name,age\n")]
        private = it.slack.dm(office.alice)
        asked = await it.slack.say(office.alice, private, "What is this?", files=files)
        await it.reads(asked, "I cannot see it.")
        await it.reads(asked, "files:read")

        assert "Sign in to Slack" not in str(play.asked)


async def test_a_long_answer_comes_in_parts_and_a_very_long_one_as_a_snippet(way: Way) -> None:
    words = [f"word{number:05}" for number in range(8000)]
    long, longer = " ".join(words[:2000]), " ".join(words)
    play = Play(main=[Reply(text=long), Reply(text=longer)])
    async with new_office() as office, on_slack(way, office, play) as it:
        private = it.slack.dm(office.alice)
        asked = await it.slack.say(office.alice, private, "Long!")
        await it.reads(asked, words[1999])
        in_parts = it.said(asked)
        again = await it.slack.say(office.alice, private, "Longer!")
        await it.slack.until(lambda: any(each.files for each in it.said(again)), "a file")
        [file] = next(each.files for each in it.said(again) if each.files)

        assert " ".join(each.readable() for each in in_parts).split() == long.split()
        assert file.content is not None
        assert file.content.decode().split() == longer.split()


async def test_the_same_event_delivered_again_is_answered_once(way: Way) -> None:
    play = Play(main=[Reply(text="Once."), Reply(text="Twice.")])
    async with new_office() as office, on_slack(way, office, play) as it:
        asked = await it.slack.say(office.alice, office.channel, "Hi!", mention=True)
        await it.slack.redeliver(asked)
        await it.reads(asked, "Once.")
        for retry in (2, 3):
            await it.slack.redeliver(asked, retry=retry)
        await it.slack.say(office.alice, office.channel, "And now?", thread=asked)
        await it.reads(asked, "Twice.")

        assert len(asked.events) == 2, "a mention is a message as well"
        assert len(it.said(asked)) == 2
        await it.acknowledged()


async def test_slacks_own_stop_ends_the_answer_and_another_user_cannot(way: Way) -> None:
    slow = Reply(text="On and on and on. " * 60, gap_seconds=0.1)
    async with new_office() as office, on_slack(way, office, Play(main=[slow])) as it:
        room = office.channel
        asked = await it.slack.say(office.alice, room, "Talk!", mention=True)
        await it.slack.until(lambda: it.said(asked), "the first words")
        await it.slack.stop_clicked(office.bob, room, asked.ts)
        await it.whispered(office.bob, "Only alice or an admin can stop this.")
        assert it.slack.session(room, asked.ts) == "processing"
        await it.slack.stop_clicked(office.alice, room, asked.ts)
        await it.whispered(office.alice, "Stopped")
        await it.reads(asked, "(stopped)")
        await it.slack.until(lambda: it.slack.session(room, asked.ts) == "active", "rest")

        assert not it.slack.status(room, asked.ts)


async def test_another_model_answers_in_the_thread_where_it_was_chosen(way: Way) -> None:
    play = Play(main=[Reply(text="One."), Reply(text="Two.")])
    async with new_office() as office, on_slack(way, office, play) as it:
        room = office.channel
        asked = await it.slack.say(office.alice, room, "Hi!", mention=True)
        await it.reads(asked, "One.")
        usual = play.asked[0]["model"]
        listed = await (await it.slack.slash(office.alice, room, "/retinue", "model")).done()
        other = next(
            line.split("`")[1].partition("/")[2]
            for line in listed.text().splitlines()
            if "/" in line and "`" in line and usual not in line
        )
        hint = await it.slack.slash(office.alice, room, "/retinue", f"model {other}")
        await hint.done()
        await it.slack.say(office.alice, room, f"/model {other}", thread=asked, mention=True)
        await it.whispered(office.alice, other)
        await it.slack.say(office.alice, room, "And you?", thread=asked)
        await it.reads(asked, "Two.")

        assert f"!model {other}" in hint.text()
        assert play.asked[1]["model"] == other != usual


async def test_who_is_blocked_or_not_let_in_is_told_so_once_and_starts_nothing(way: Way) -> None:
    async with new_office() as office:
        team = office.slack.team.id
        access = AccessSettings(blocked=(f"slack:{team}:{office.bob.id}",))
        play = Play(main=[Reply(text="Welcome.")])
        let_in = {"users": (office.alice.id, office.bob.id)}
        async with on_slack(way, office, play, settings=let_in, access=access) as it:
            room = office.channel
            for outsider in (office.root, office.root, office.bob):
                await it.slack.say(outsider, room, "Let me in", mention=True)
            asked = await it.slack.say(office.alice, room, "Hi", mention=True)
            await it.reads(asked, "Welcome.")
            slashed = await it.slack.slash(office.root, room, "/subagents", "spawn Dig")
            await slashed.done()

            assert len(play.asked) == 1
            told = [each.readable() for each in it.slack.ephemerals(office.root)]
            assert len([text for text in told if "cannot use this bot" in text]) == 2
            assert len(it.slack.ephemerals(office.bob)) == 1


async def test_the_bots_own_messages_and_other_bots_are_not_answered(way: Way) -> None:
    play = Play(main=[Reply(text="Hello, it is me.")])
    async with new_office() as office, on_slack(way, office, play) as it:
        robot = it.slack.add_user("robot", bot=True)
        await it.slack.say(robot, office.channel, "Talk to me!", mention=True)
        asked = await it.slack.say(office.alice, office.channel, "Hi", mention=True)
        await it.reads(asked, "Hello, it is me.")

        assert len(play.asked) == 1
