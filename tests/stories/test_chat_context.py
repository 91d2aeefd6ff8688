"""`/context` shows all that is sent with a message, in tokens; one's own part to nobody else."""

import re
from base64 import b64encode

from bot.agent.settings import AgentSettings
from bot.values import Json
from tests.fakes.anthropic_server import Reply
from tests.fakes.pictures import PNG
from tests.stories.at_terminal import at_terminal
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import Play, call, said

PNG_BASE64 = b64encode(PNG).decode()
PARTS = re.compile(r"^- (.+?): ([\d,]+)$", re.MULTILINE)


def tokens_in(text: str) -> dict[str, int]:
    """Return the tokens of each part in a reply."""
    found = PARTS.findall(text.replace("•", "-"))
    return {name.split(",")[0]: int(tokens.replace(",", "")) for name, tokens in found}


def characters(body: Json) -> int:
    return len(str(body["system"])) + len(str(body["tools"])) + len(str(body["messages"]))


async def test_the_tokens_of_each_part_of_a_message_are_shown(chat_way: ChatWay) -> None:
    play = Play(main=[Reply(text="They are hens."), Reply(text="Ada.")])
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "My hens are called Ada and Bea.")
        await chat.reads(talk, "They are hens.")
        await chat.stored("They are hens.")
        await chat.write("alice", talk, "/context", mention=True)
        shown = await chat.hears("alice", "together:")
        await chat.write("alice", talk, "Which is older?")
        await chat.reads(talk, "Ada.")

        found = tokens_in(shown)
        names = [
            "system prompt",
            next(name for name in found if name.endswith(" tools")),
            "history",
            "your own block",
            "together",
        ]
        assert list(found) == names
        parts = list(found.values())
        assert parts[-1] == sum(parts[:-1])
        assert "2 messages" in shown
        # An estimate: a third of the characters.
        assert 0.5 < 3 * parts[-1] / characters(play.asked[1]) < 1.5


async def test_ones_own_block_is_shown_to_its_user_alone(chat_way: ChatWay) -> None:
    play = Play(
        main=[
            call("todo_write", items=[{"text": "Feed Ada", "status": "pending"}]),
            Reply(text="It is on your list."),
            Reply(text="Hello Bob."),
        ]
    )
    async with new_chat(chat_way) as chat, chat.bot(play):
        talk = await chat.ask("alice", "Put feeding Ada on my list.")
        await chat.reads(talk, "It is on your list.")
        await chat.write("bob", talk, "Hello!", mention=True)
        await chat.reads(talk, "Hello Bob.")
        await chat.write("alice", talk, "/context", mention=True)
        hers = await chat.hears("alice", "Your own block")
        await chat.write("bob", talk, "/context", mention=True)
        his = await chat.hears("bob", "Your own block")

        assert "0 of 1 done" in hers
        assert "You answer u1 now." in hers
        assert "0 of 1 done" not in his
        assert "You answer u2 now." in his
        assert "Your own block" not in "".join(chat.texts(talk))


async def test_images_before_a_summary_are_named_and_not_shown(chat_way: ChatWay) -> None:
    long = "a long tale of hens, " * 350
    files = [("hen.png", "image/png", PNG), ("list.txt", "text/plain", b"Ada, Bea")]
    play = Play(
        main=[
            Reply(text="A hen."),
            Reply(text="They spoke of hens."),
            Reply(text="Two."),
            Reply(text="In inbox."),
        ]
    )
    small = AgentSettings(context_tokens=12_000, compact_at=0.4)
    async with new_chat(chat_way) as chat, chat.bot(play, agent=small):
        talk = await chat.ask("alice", f"First: {long}", files=files)
        await chat.reads(talk, "A hen.")
        assert PNG_BASE64 in str(play.asked[0]["messages"])
        await chat.write("alice", talk, f"Second: {long}")
        await chat.reads(talk, "Two.")
        await chat.write("alice", talk, "Where is my picture?")
        await chat.reads(talk, "In inbox.")

        for body in play.asked[2:]:
            text = "\n".join(said(each) for each in body["messages"] if each["role"] == "user")
            summary = text.partition("</summary>")[0]
            assert "They spoke of hens." in summary
            assert "- inbox/hen.png\n- inbox/list.txt" in summary
            assert PNG_BASE64 not in str(body["messages"])


async def test_the_terminal_shows_memories_in_the_block(database_url: str) -> None:
    play = Play(main=[call("remember", text="I never eat meat"), Reply(text="Noted.")])
    async with at_terminal(database_url, play) as desk:
        desk.send("Remember: I never eat meat")
        await desk.shows("Noted.")
        desk.send("/context")
        await desk.shows("together:")
        await desk.shows("1: I never eat meat")
