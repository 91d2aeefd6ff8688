"""Talking with the bot in Discord: mentions, threads, direct messages, files, long answers."""

import time

import pytest

from tests.fakes.anthropic_server import Reply
from tests.stories.on_discord import new_server, on_discord
from tests.stories.stage import Play

#: Discord knows of no database: one kind is enough here, and `test_discord_runs` has the other.
pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6260000000000600010d0a2db40000000049454e44ae426082"
)


async def test_a_mention_is_acknowledged_before_its_answer(database_url: str) -> None:
    play = Play(main=[Reply(text="Four sheep.", fault="hang")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        asked = await it.discord.say(server.alice, server.channel, "How many sheep?", mention=True)
        await it.discord.until(lambda: "👀" in asked.reactions, "a sign")
        it.model.go.set()
        await it.reads(await it.thread_of(asked), "Four sheep.")

        assert server.discord.bot.mention not in str(play.asked)


async def test_a_direct_message_needs_no_mention(database_url: str) -> None:
    play = Play(main=[Reply(text="Hello."), Reply(text="Still here.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        private = it.discord.dm(server.alice)
        await it.discord.say(server.alice, private, "Hi!")
        await it.reads(private, "Hello.")
        await it.discord.say(server.alice, private, "Are you there?")
        await it.reads(private, "Still here.")

        assert "Hi!" in str(play.asked[1]["messages"])


async def test_an_answer_streams_into_one_message(database_url: str) -> None:
    slow = Reply(text="Once upon a time there was a sheep. " * 5, gap_seconds=0.4)
    async with new_server() as server, on_discord(database_url, server, Play(main=[slow])) as it:
        began = time.monotonic()
        asked = await it.discord.say(server.alice, server.channel, "A story!", mention=True)
        thread = await it.thread_of(asked)
        await it.discord.until(lambda: it.said(thread), "the first words")
        first = it.said(thread)[0]
        await it.discord.until(
            lambda: first.text() == ("Once upon a time there was a sheep. " * 5).strip(),
            "the whole answer",
        )

        took = time.monotonic() - began
        edits = it.discord.requests("PATCH", "/channels/{id}/messages/{id}")
        assert it.said(thread) == [first]
        assert first.edits == len(edits) >= 2
        assert len(edits) <= took / 1.5
        assert thread.typing >= 1


async def test_a_long_answer_comes_in_parts_and_a_very_long_one_as_a_file(
    database_url: str,
) -> None:
    words = [f"word{number:04}" for number in range(2000)]
    long, longer = " ".join(words[:700]), " ".join(words)
    play = Play(main=[Reply(text=long), Reply(text=longer), Reply(text=longer)])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        private = it.discord.dm(server.alice)
        await it.discord.say(server.alice, private, "Long!")

        def whole() -> bool:
            # While the answer grows, one message shows its newest words.
            return " ".join(each.text() for each in it.said(private)).split() == long.split()

        await it.discord.until(whole, "the long answer in parts")
        await it.discord.say(server.alice, private, "Longer!")
        await it.discord.until(lambda: any(each.files for each in it.said(private)), "a file")
        [(_, content)] = next(each.files for each in it.said(private) if each.files)
        it.discord.refuse_files = True
        before = {each.id for each in it.said(private)}

        def new() -> str:
            return " ".join(each.text() for each in it.said(private) if each.id not in before)

        await it.discord.say(server.alice, private, "Longer, without a file!")
        await it.discord.until(
            lambda: [word for word in new().split() if word in words] == words, "all of it"
        )

        assert content.decode().split() == longer.split()


async def test_without_the_message_content_intent_mentions_and_direct_messages_work(
    database_url: str,
) -> None:
    play = Play(main=[Reply(text="Heard."), Reply(text="Heard in private."), Reply(text="Again.")])
    async with new_server() as server:
        server.discord.application_flags = 0
        async with on_discord(database_url, server, play) as it:
            asked = await it.discord.say(server.alice, server.channel, "Hi!", mention=True)
            thread = await it.thread_of(asked)
            await it.reads(thread, "Heard.")
            await it.discord.say(server.alice, thread, "You cannot read this.")
            hint = await it.reads(thread, "mention")
            await it.discord.say(server.alice, it.discord.dm(server.alice), "Hello")
            await it.reads(it.discord.dm(server.alice), "Heard in private.")

            assert "Message Content" in hint.text() or "mention me" in hint.text()
            assert "cannot read this" not in str(play.asked)


async def test_another_model_answers_where_it_was_chosen(database_url: str) -> None:
    play = Play(main=[Reply(text="One."), Reply(text="Two.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        private = it.discord.dm(server.alice)
        await it.discord.say(server.alice, private, "Hi!")
        await it.reads(private, "One.")
        usual = play.asked[0]["model"]
        listed = await it.discord.slash(server.alice, private, "retinue model")
        await listed.done()
        other = next(
            line.split("`")[1].partition("/")[2]
            for line in listed.text().splitlines()
            if line.startswith("- ") and usual not in line
        )
        chosen = await it.discord.slash(server.alice, private, "retinue model", name=other)
        await chosen.done()
        await it.discord.say(server.alice, private, "And you?")
        await it.reads(private, "Two.")

        assert play.asked[1]["model"] == other != usual


async def test_a_question_has_a_slash_command_of_its_own(database_url: str) -> None:
    play = Play(main=[Reply(text="Three.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        asked = await it.discord.slash(server.bob, server.channel, "ask", question="How many hens?")
        await asked.done()

        await it.discord.until(
            lambda: "Three." in [each.text() for each in it.said(server.channel)], "the answer"
        )
        assert "How many hens?" in str(play.asked[0]["messages"])
        assert any("bob asked" in each.text().lower() for each in it.said(server.channel))


async def test_a_question_in_direct_messages_is_not_said_to_be_done(database_url: str) -> None:
    play = Play(main=[Reply(text="Three.")])
    async with new_server() as server, on_discord(database_url, server, play) as it:
        direct = it.discord.dm(server.bob)
        asked = await it.discord.slash(server.bob, direct, "ask", question="How many hens?")
        await asked.done()

        assert asked.text() == "I answer here."
        await it.discord.until(
            lambda: [each.text() for each in it.said(direct)] == ["Three."], "the answer alone"
        )
