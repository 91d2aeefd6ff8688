"""Other channels are read with the rights of the user who asks, and of the readers."""

from bot.platforms.reading import NOT_FOUND, PRIVATE
from bot.values import Json
from tests.fakes.anthropic_server import Reply
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import Play, call, said


def results(body: Json) -> str:
    """Return the results of tools at the end of a request."""
    return said(body["messages"][-1])


async def test_a_linked_message_is_read_for_the_user_who_may_read_it(chat_way: ChatWay) -> None:
    play = Play()
    async with new_chat(chat_way) as chat:
        link = await chat.post_elsewhere("bob", "The key is under the mat.", "bob")
        async with chat.bot(play):
            play.main += [call("channel_history", link=link), Reply(text="I may not.")]
            talk = await chat.ask_privately("alice", "What stands there?")
            await chat.reads(talk, "I may not.")
            assert NOT_FOUND in results(play.asked[-1])

            play.main += [call("channel_history", link=link), Reply(text="Under the mat.")]
            talk = await chat.ask_privately("bob", "What stands there?")
            await chat.reads(talk, "Under the mat.")
            assert "The key is under the mat." in results(play.asked[-1])


async def test_a_private_channel_is_not_shown_to_the_readers_of_a_thread(
    chat_way: ChatWay,
) -> None:
    play = Play()
    async with new_chat(chat_way) as chat:
        link = await chat.post_elsewhere("bob", "The key is under the mat.", "bob")
        async with chat.bot(play):
            play.main += [call("channel_history", link=link), Reply(text="Not here.")]
            talk = await chat.ask("bob", "What stands there?")
            await chat.reads(talk, "Not here.")

            assert PRIVATE in results(play.asked[-1])
            assert "under the mat" not in str(play.asked)


async def test_a_place_elsewhere_is_read_after_a_yes_where_others_speak_and_is_not_kept(
    chat_way: ChatWay,
) -> None:
    play = Play(main=[Reply(text="Hello.")])
    async with new_chat(chat_way) as chat:
        link = await chat.post_elsewhere("alice", "The key is under the mat.")
        async with chat.bot(play):
            talk = await chat.ask("bob", "Hello.")
            await chat.reads(talk, "Hello.")
            play.main += [call("channel_history", link=link), Reply(text="May I?")]
            await chat.write("alice", talk, "What stands there?", mention=True)
            await chat.reads(talk, "May I?")
            assert "under the mat" not in str(play.asked)

            play.main.append(Reply(text="Where the key is."))
            await chat.click("alice", await chat.reads(talk, "Shall I do this?"), "Yes")
            await chat.reads(talk, "Where the key is.")
            assert "The key is under the mat." in results(play.asked[-1])

            play.main.append(Reply(text="You are welcome."))
            await chat.write("bob", talk, "Thanks.", mention=True)
            await chat.reads(talk, "You are welcome.")
            assert "under the mat" not in str(play.asked[-1])


async def test_a_search_finds_what_the_readers_of_the_thread_may_read(chat_way: ChatWay) -> None:
    play = Play(main=[call("channel_search", query="key"), Reply(text="Under the mat.")])
    async with new_chat(chat_way) as chat:
        open_link = await chat.post_elsewhere("bob", "The key is under the mat.")
        await chat.post_elsewhere("alice", "The other key is in the safe.", "alice")
        async with chat.bot(play):
            talk = await chat.ask("alice", "Where is it?")
            await chat.reads(talk, "Under the mat.")

            found = results(play.asked[-1])
            assert open_link in found
            assert "safe" not in found
