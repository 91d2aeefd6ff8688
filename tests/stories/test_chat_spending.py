"""A spending limit that is nearly or wholly used: who is told, and how an admin raises it."""

from bot.agent.messages import Usage
from bot.conversations.access import AccessSettings
from bot.spending.settings import SpendingSettings
from bot.values import Json
from tests.fakes.anthropic_server import Reply
from tests.stories.at_terminal import at_terminal
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import Play

PRICES = {"prices": {"claude-sonnet-5-5": {"input": 0, "output": 10}}}


def answer(text: str, output: int) -> Reply:
    """Return an answer of which each token costs ten micro-dollars."""
    return Reply(text=text, usage=Usage(0, output))


def limits(**sections: Json) -> SpendingSettings:
    return SpendingSettings.model_validate(sections)


async def test_at_eighty_percent_the_user_is_told_once_and_privately(chat_way: ChatWay) -> None:
    play = Play(main=[answer("Hens.", 81_000), answer("More.", 1_000)])
    one_dollar = limits(user={"day": {"usd": 1}})
    async with (
        new_chat(chat_way) as chat,
        chat.bot(play, spending=one_dollar, more_models=PRICES),
    ):
        talk = await chat.ask("alice", "Hello")
        await chat.reads(talk, "Hens.")
        await chat.until(lambda: chat.direct_texts("alice"), "a message to the user")
        await chat.write("alice", talk, "And now?")
        await chat.reads(talk, "More.")

        [text] = chat.direct_texts("alice")
        assert "80 % of the limit of your own work today is used: $0.81" in text
        assert not any("80 %" in each for each in chat.texts(talk))


async def test_an_admin_raises_a_used_limit_with_the_button_of_its_notice(
    chat_way: ChatWay,
) -> None:
    play = Play(main=[answer("Hens.", 96_000), answer("More.", 100_000)])
    async with new_chat(chat_way) as chat:
        name, ops = chat.add_admin_channel("root", "bob")
        access = AccessSettings(admins=(chat.account("root"),), admin_channel=(name,))
        one_dollar = limits(channel={"day": {"usd": 1}})
        async with chat.bot(play, spending=one_dollar, more_models=PRICES, access=access):
            talk = await chat.ask("alice", "Hello")
            await chat.reads(talk, "Hens.")
            near = await chat.reads(ops, "is at 80 %")
            await chat.write("alice", talk, "And now?")
            await chat.reads(talk, "The spending limit of this channel today is reached: $0.96")
            used = await chat.reads(ops, "is reached")
            refused = await chat.click("bob", used, "Raise by $0.5 for today")
            raised = await chat.click("root", used, "Raise by $0.5 for today")
            await chat.write("alice", talk, "And now?")
            await chat.reads(talk, "More.")
            await chat.write("alice", talk, "And again?")
            await chat.reads(talk, "of $1.50 used")

            assert near.buttons == ("Raise by $0.5 for today",)
            assert "The spending limit of the channel" in used.text
            assert "Only an admin of this place can press that" in refused.text
            assert "Raised by $0.5 until midnight UTC" in raised.text
            assert chat.direct_texts("alice") == []
            assert len(play.asked) == 2


async def test_at_the_terminal_a_used_limit_is_named_and_raised(sqlite_url: str) -> None:
    play = Play(main=[answer("Hens.", 96_000), answer("More.", 10)])
    access = AccessSettings(admins=("terminal:root",))
    one_dollar = limits(bot={"day": {"usd": 1}})
    async with at_terminal(
        sqlite_url, play, name="root", access=access, spending=one_dollar, more_models=PRICES
    ) as it:
        it.send("Hello")
        await it.shows("Hens.")
        await it.shows("The spending limit of the whole bot today is at 80 %")
        it.send("And now?")
        await it.shows("The spending limit of the whole bot today is reached: $0.96")
        it.send("/raise bot $1")
        await it.shows("Raised by $1 until midnight UTC")
        it.send("And now?")
        await it.shows("More.")
