"""Four users in one thread: when the bot is silent, whose yes counts, and whose rights."""

from datetime import timedelta

import pytest

from bot.values import Identity
from db import tables, user_texts, users
from db.user_texts import Note
from tests.fakes.anthropic_server import Reply
from tests.stories.chats import Chat, ChatWay, DiscordChat, Shown, Talk, new_chat
from tests.stories.stage import Play, call, change, said
from tests.stories.test_chat_threads import people_in
from tests.stories.test_four_users import FURTHER, USERS, after_hello, met, shared_part, speaker

# --- silence ----------------------------------------------------------------------------------


async def test_the_bot_is_quiet_while_four_users_talk_with_one_another(chat_way: ChatWay) -> None:
    play = after_hello(Reply(text="You spoke of tea."))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        spoken = [("dave", "Tea?"), ("alice", "Yes."), ("carol", "No, thanks."), ("bob", "Stop!")]
        for user, text in spoken:
            await chat.write(user, talk, text)
            await chat.stored(text)
        await chat.write("carol", talk, "What did we say?", mention=True)
        await chat.reads(talk, "You spoke of tea.")

        numbers = {"alice": "u1", "bob": "u2", "carol": "u3", "dave": "u4"}
        heard = [(numbers[user], text) for user, text in spoken]
        assert people_in(play.asked[1])[-5:] == [*heard, ("u3", "What did we say?")]
        assert len(play.asked) == 2
        assert chat.texts(talk) == ["Hello, Alice.", "You spoke of tea."]


async def test_a_user_is_answered_without_a_mention_until_another_speaks(
    chat_way: ChatWay,
) -> None:
    play = after_hello(Reply(text="Three."), Reply(text="Two ducks."), Reply(text="Now."))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        await chat.write("dave", talk, "How many hens?", mention=True)
        await chat.reads(talk, "Three.")
        await chat.write("dave", talk, "And ducks?")
        await chat.reads(talk, "Two ducks.")
        await chat.write("bob", talk, "I like ducks.")
        await chat.stored("I like ducks.")
        await chat.write("dave", talk, "Do you?")
        await chat.stored("Do you?")
        await chat.write("alice", talk, "Who asked?", mention=True)
        await chat.reads(talk, "Now.")

        assert [speaker(each) for each in play.asked] == ["u1", "u4", "u4", "u1"]
        assert people_in(play.asked[3])[-2:] == [("u4", "Do you?"), ("u1", "Who asked?")]


async def test_another_user_needs_a_mention_after_the_answer_to_one(chat_way: ChatWay) -> None:
    play = after_hello(Reply(text="Three."), Reply(text="Now."))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        await chat.write("dave", talk, "How many hens?", mention=True)
        await chat.reads(talk, "Three.")
        await chat.write("carol", talk, "So few?")
        await chat.stored("So few?")
        await chat.write("dave", talk, "Who asked?", mention=True)
        await chat.reads(talk, "Now.")

        assert [speaker(each) for each in play.asked] == ["u1", "u4", "u4"]


@pytest.mark.parametrize(("minutes", "answered"), [(14, True), (16, False)])
async def test_a_quarter_of_an_hour_later_a_mention_is_needed(
    chat_way: ChatWay, minutes: int, *, answered: bool
) -> None:
    play = after_hello(Reply(text="Three."), Reply(text="As you say."), Reply(text="Well."))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        await chat.write("dave", talk, "How many hens?", mention=True)
        await chat.reads(talk, "Three.")
        # While a turn is at work, what its user writes belongs to it.
        await chat.stored("Three.")
        then = chat.running.upkeep.now() - timedelta(minutes=minutes)
        await change(chat.running, tables.turns, created_at=then)
        await chat.write("dave", talk, "Only three.")
        await chat.stored("Only three.")
        if answered:
            await chat.reads(talk, "As you say.")
        await chat.write("alice", talk, "Are you there?", mention=True)
        await chat.reads(talk, "Well." if answered else "As you say.")

        expected = ["u1", "u4", *["u4"] * answered, "u1"]
        assert [speaker(each) for each in play.asked] == expected


async def test_a_message_to_another_user_is_not_answered(chat_way: ChatWay) -> None:
    play = after_hello(Reply(text="Three."), Reply(text="Now."))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        await chat.write("dave", talk, "How many hens?", mention=True)
        await chat.reads(talk, "Three.")
        await chat.write("dave", talk, "did you know?", to="carol")
        await chat.stored("did you know?")
        await chat.write("bob", talk, "What do you say?", mention=True)
        await chat.reads(talk, "Now.")

        assert [speaker(each) for each in play.asked] == ["u1", "u4", "u2"]
        assert "did you know?" in str(people_in(play.asked[2]))


@pytest.mark.parametrize("chat_way", ["discord"], indirect=True)
async def test_a_reply_is_for_the_author_of_its_message(chat_way: ChatWay) -> None:
    play = after_hello(Reply(text="For Bob."), Reply(text="For Carol."))
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        assert isinstance(chat, DiscordChat)
        talk = await met(chat)
        hers = await chat.write("carol", talk, "I have hens.")
        await chat.stored("I have hens.")
        (hello,) = await chat.said(talk)
        await chat.reply("bob", talk, "And me?", to=hello.native)
        await chat.reads(talk, "For Bob.")
        await chat.reply("bob", talk, "How many?", to=hers)
        await chat.stored("How many?")
        await chat.write("carol", talk, "What now?", mention=True)
        await chat.reads(talk, "For Carol.")

        assert "How many?" in str(people_in(play.asked[2]))
        assert [speaker(each) for each in play.asked] == ["u1", "u2", "u3"]


# --- answers to questions ---------------------------------------------------------------------


async def asked_about_notes(chat: Chat, play: Play, talk: Talk, user: str) -> None:
    """Have the bot ask a user before it lists notes."""
    play.main += [call("note_list"), Reply(text=f"May I, {user}?")]
    await chat.write(user, talk, f"The notes of {user}?", mention=True)
    await chat.reads(talk, f"May I, {user}?")


async def test_a_yes_answers_the_question_of_its_own_user_alone(chat_way: ChatWay) -> None:
    play = after_hello()
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        await asked_about_notes(chat, play, talk, "alice")
        await asked_about_notes(chat, play, talk, "bob")
        first, second = [each for each in await chat.said(talk) if each.buttons]
        play.main += [Reply(text="Bob has none."), Reply(text="Alice has none.")]
        await chat.write("bob", talk, "yes")
        await chat.reads(talk, "Bob has none.")
        await chat.until(lambda: not chat.again(talk, second).buttons, "the buttons to go")
        assert chat.again(talk, first).buttons

        await chat.write("alice", talk, "yes", mention=True)
        told = "Others have written here since I asked"
        await chat.until(
            lambda: told in str([*chat.texts(talk), *chat.told("alice")]), "the way to answer"
        )
        await chat.click("alice", first, "Yes")
        await chat.reads(talk, "Alice has none.")
        assert [speaker(each) for each in play.asked[-2:]] == ["u2", "u1"]


@pytest.mark.parametrize("chat_way", ["discord"], indirect=True)
async def test_a_yes_in_reply_to_a_question_answers_it_whoever_has_spoken_since(
    chat_way: ChatWay,
) -> None:
    play = after_hello()
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        assert isinstance(chat, DiscordChat)
        talk = await met(chat)
        await asked_about_notes(chat, play, talk, "alice")
        await asked_about_notes(chat, play, talk, "bob")
        first, second = [each for each in await chat.said(talk) if each.buttons]
        await chat.write("carol", talk, "So many questions.")
        await chat.stored("So many questions.")
        play.main += [Reply(text="Alice has none.")]
        await chat.reply("alice", talk, "yes", to=first.native)
        await chat.reads(talk, "Alice has none.")

        assert speaker(play.asked[-1]) == "u1"
        await chat.until(lambda: not chat.again(talk, first).buttons, "the buttons to go")
        assert chat.again(talk, second).buttons


async def test_a_yes_of_a_third_user_is_a_message_and_no_answer(chat_way: ChatWay) -> None:
    play = after_hello()
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        await asked_about_notes(chat, play, talk, "alice")
        (question,) = [each for each in await chat.said(talk) if each.buttons]
        play.main += [Reply(text="What do you mean, Carol?")]
        await chat.write("carol", talk, "yes", mention=True)
        await chat.reads(talk, "What do you mean, Carol?")

        assert speaker(play.asked[-1]) == "u3"
        assert people_in(play.asked[-1])[-1] == ("u3", "yes")
        assert "There are no notes yet." not in str(play.asked)
        assert chat.again(talk, question).buttons


# --- rights ---------------------------------------------------------------------------------


async def note_for_each(chat: Chat) -> None:
    """Store a note of each user."""
    now = chat.running.upkeep.now()
    async with chat.running.database.transaction() as tx:
        for user in USERS:
            platform, *workspace, account = chat.account(user).split(":")
            identity = Identity(platform, "".join(workspace), account)
            await users.ensure_user(tx, identity, user, now)
            note = Note(id=f"n-{user}", title="safe", text=f"the code of {user}", created_at=now)
            await user_texts.NOTES.add(tx, identity.key, note)


async def asks(chat: Chat, play: Play, talk: Talk, user: str, tool: str, **given: str) -> Shown:
    """Have a user's turn call a tool for which the bot has to ask, and return the question."""
    text = f"{user} wants {tool}, number {len(play.asked)}."
    before = [each for each in await chat.said(talk) if "Shall I" in each.text]
    play.main += [call(tool, **given), Reply(text=f"May I? {text}")]
    await chat.write(user, talk, text, mention=True)
    await chat.reads(talk, f"May I? {text}")
    new = [each for each in await chat.said(talk) if "Shall I" in each.text and each not in before]
    (question,) = new
    assert tool in question.text
    return question


async def test_notes_are_read_in_the_turn_of_their_user_after_that_users_tap_alone(
    chat_way: ChatWay,
) -> None:
    play = after_hello()
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        await note_for_each(chat)
        await chat.write("bob", talk, "Bot, read the notes of Alice to all of us.")
        await chat.stored("Bot, read the notes of Alice to all of us.")
        question = await asks(chat, play, talk, "alice", "note_search", query="code")
        for user in ("bob", *FURTHER):
            assert "not yours" in (await chat.click(user, question, "Yes")).text
        assert "the code of" not in str(play.asked)
        play.main += [Reply(text="You have one."), Reply(text="No.")]
        await chat.click("alice", question, "Yes")
        await chat.reads(talk, "You have one.")
        found = said(play.asked[-1]["messages"][-1])
        await chat.write("bob", talk, "What did they say?", mention=True)
        await chat.reads(talk, "No.")

        assert "the code of alice" in found
        assert not any(f"the code of {user}" in found for user in USERS[1:])
        assert "You have one." in str(shared_part(play.asked[-1]))
        assert "the code of" not in str(play.asked[-1])


async def test_a_yes_for_a_day_is_for_one_user_and_one_tool(chat_way: ChatWay) -> None:
    play = after_hello()
    async with new_chat(chat_way, *FURTHER) as chat, chat.bot(play):
        talk = await met(chat)
        for user in ("alice", "bob"):
            question = await asks(chat, play, talk, user, "note_list")
            play.main.append(Reply(text=f"{user} has none."))
            await chat.click(user, question, "Yes, in this thread for 24 h")
            await chat.reads(talk, f"{user} has none.")
        await asks(chat, play, talk, "carol", "note_list")
        await asks(chat, play, talk, "alice", "note_search", query="hens")

        shown = {user: (await chat.command(user, talk, "retinue grants")).text for user in USERS}
        assert [user for user in USERS if "note_list" in shown[user]] == ["alice", "bob"]
        assert "note_search" not in str(shown)

        await chat.command("alice", talk, "retinue grants", tool="all")
        await asks(chat, play, talk, "alice", "note_list")
        play.main += [call("note_list"), Reply(text="Still none for Bob.")]
        await chat.write("bob", talk, "And now?", mention=True)
        await chat.reads(talk, "Still none for Bob.")
        assert "There are no notes yet." in said(play.asked[-1]["messages"][-1])
