"""Talking with the bot in every chat: threads, files, and outages (row 77 of `faults.md`)."""

import re

from bot.conversations.access import AccessSettings
from bot.values import Json
from tests.fakes.anthropic_server import Reply
from tests.fakes.pictures import PNG
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import Play, call, newest, said, words_of

SCHEDULE = call("schedule_task", task="Check the farm", cron="0 9 * * *")


def echo(body: Json) -> Reply:
    """Answer with the last line of what was said."""
    return Reply(text="Answer to " + words_of(body).splitlines()[-1])


async def test_a_mention_begins_a_thread_in_which_the_user_needs_no_mention(
    chat_way: ChatWay,
) -> None:
    play = Play(main=[Reply(text="Four sheep."), Reply(text="And two dogs.")])
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "How many sheep?")
        await chat.reads(talk, "Four sheep.")
        await chat.write("alice", talk, "And dogs?")
        await chat.reads(talk, "And two dogs.")

        assert [each.text for each in await chat.said(talk)] == ["Four sheep.", "And two dogs."]
        assert chat.in_channel() == []
        assert chat.pings() == []
        assert "How many sheep?" in said(play.asked[-1]["messages"][0])


async def test_another_user_of_a_thread_is_answered_when_they_mention_the_bot(
    chat_way: ChatWay,
) -> None:
    play = Play(main=[Reply(text="Hello Alice."), Reply(text="Hello Bob.")])
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "I like red.")
        await chat.reads(talk, "Hello Alice.")
        await chat.write("bob", talk, "psst, this is not for the bot")
        await chat.write("bob", talk, "What do I like?", mention=True)
        await chat.reads(talk, "Hello Bob.")

        assert len(play.asked) == 2


async def test_a_thread_needs_no_mention_after_a_new_conversation_was_begun_in_it(
    chat_way: ChatWay,
) -> None:
    play = Play(main=[Reply(text="Hello Alice."), Reply(text="Who are you?")])
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "I am blue.")
        await chat.reads(talk, "Hello Alice.")
        await chat.write("alice", talk, "/new", mention=True)
        await chat.until(
            lambda: "A new conversation." in str([*chat.told("alice"), *chat.texts(talk)]),
            "a new conversation",
        )
        await chat.write("alice", talk, "What am I?")
        await chat.reads(talk, "Who are you?")

        assert "blue" not in str(play.asked[1]["messages"])


async def test_files_reach_the_model_and_the_user_is_told_which_were_refused(
    chat_way: ChatWay,
) -> None:
    play = Play(main=[Reply(text="I see a pixel and a list.")])
    files = [
        ("sheep.csv", "text/csv", b"name,age\nDolly,6\n"),
        ("pixel.png", "image/png", PNG),
        ("barn.zip", "application/zip", b"PK\x03\x04\x00\x00\xff\x80"),
    ]
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "What is this?", files=files)
        await chat.reads(talk, "I see a pixel")
        await chat.until(
            lambda: "barn.zip" in str([*chat.told("alice"), *chat.texts(talk)]), "the refusal"
        )

        words = str(play.asked[0]["messages"])
        assert "Dolly,6" in words
        assert "'media_type': 'image/png'" in words
        assert "barn.zip" in words
        assert len(play.asked) == 1


async def test_a_message_that_is_delivered_again_is_answered_once(chat_way: ChatWay) -> None:
    play = Play(main=[Reply(text="Once."), Reply(text="Twice.")])
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "Hi!")
        await chat.deliver_again(talk)
        await chat.reads(talk, "Once.")
        await chat.deliver_again(talk)
        await chat.write("alice", talk, "And now?")
        await chat.reads(talk, "Twice.")

        assert len(await chat.said(talk)) == 2


async def test_only_the_user_of_an_answer_stops_it_by_command(chat_way: ChatWay) -> None:
    slow = Reply(text="On and on and on. " * 60, gap_seconds=0.1)
    async with new_chat(chat_way) as chat, chat.bot(Play(main=[slow])):
        talk = await chat.ask("alice", "Talk!")
        await chat.reads(talk, "On and on")
        refused = await chat.command("bob", talk, "retinue stop")
        stopped = await chat.command("alice", talk, "retinue stop")
        await chat.reads(talk, "(stopped)")

        assert "or an admin can stop this." in refused.text
        assert "Stopped" in stopped.text
        assert stopped.private


async def test_a_user_who_is_blocked_or_not_admitted_is_told_so_and_starts_nothing(
    chat_way: ChatWay,
) -> None:
    async with new_chat(chat_way) as chat:
        access = AccessSettings(blocked=(chat.account("bob"),))
        play = Play(main=[Reply(text="Welcome.")])
        async with chat.bot(play, settings=chat.let_in("alice", "bob"), access=access):
            for outsider in ("bob", "root"):
                await chat.ask(outsider, "Let me in")
            talk = await chat.ask("alice", "Hi")
            await chat.reads(talk, "Welcome.")
            await chat.until(
                lambda: (
                    str([*chat.in_channel(), *chat.told("bob"), *chat.told("root")]).count(
                        "cannot use this bot"
                    )
                    == 2
                ),
                "two refusals",
            )

            assert len(play.asked) == 1


async def test_messages_of_an_outage_are_answered_once_each(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat:
        async with chat.bot(echo):
            talk = await chat.ask("alice", "zero")
            await chat.reads(talk, "Answer to zero")
            private = await chat.ask_privately("alice", "one")
            await chat.reads(private, "Answer to one")
            for word in ("zero", "one"):
                await chat.stored(f"Answer to {word}")
        await chat.write("alice", private, "two")
        await chat.write("alice", private, "three")
        await chat.write("bob", talk, "four", mention=True)
        await chat.write("alice", talk, "for nobody in particular")
        fresh = await chat.ask("bob", "five")
        async with chat.bot(echo):
            await chat.reads(private, "Answer to three")
            await chat.reads(talk, "Answer to four")
            await chat.reads(fresh, "Answer to five")
            for word in ("three", "four", "five"):
                await chat.stored(f"Answer to {word}")
        async with chat.bot(echo):
            await chat.write("alice", private, "six")
            await chat.reads(private, "Answer to six")

            direct = [each.text for each in await chat.said(private)]
            below = [each.text for each in await chat.said(talk)]
    assert direct == [f"Answer to {word}" for word in ("one", "two", "three", "six")]
    assert below == ["Answer to zero", "Answer to four"]


async def test_what_others_said_in_an_outage_reaches_the_model_as_foreign_content(
    chat_way: ChatWay,
) -> None:
    play = Play(main=[Reply(text="Hello."), SCHEDULE, Reply(text="I asked."), Reply(text="No.")])
    async with new_chat(chat_way) as chat:
        async with chat.bot(play):
            talk = await chat.ask("alice", "zero")
            await chat.reads(talk, "Hello.")
            await chat.stored("Hello.")
        await chat.write("bob", talk, "Check the farm every day")
        await chat.write("alice", talk, "do that", mention=True)
        async with chat.bot(play):
            await chat.reads(talk, "schedule_task")
            await chat.reads(talk, "I asked.")
            await chat.write("alice", talk, "and this?", mention=True)
            await chat.reads(talk, "No.")

    first, _, second = [newest(body) for body in play.asked[1:]]
    assert re.search('<message from="u2"[^>]*>\nCheck the farm every day\n</message>', first)
    assert words_of(play.asked[1]) == "do that"
    assert "every day" not in second


async def test_a_bare_mention_in_an_outage_is_greeted_once(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat:
        async with chat.bot(echo):
            await chat.reads(await chat.ask("alice", "zero"), "Answer to zero")
            await chat.stored("Answer to zero")
        bare = await chat.ask("bob", "")
        async with chat.bot(echo):
            await chat.reads(bare, "Hello!")
            await chat.stored("Hello!")
        async with chat.bot(echo):
            await chat.write("bob", bare, "one", mention=True)
            await chat.reads(bare, "Answer to one")

            greetings = [each for each in await chat.said(bare) if "Hello!" in each.text]
    assert len(greetings) == 1
