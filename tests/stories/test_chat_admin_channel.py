"""Notices to admins are posted in the admin channel, once, with buttons for admins."""

from bot.conversations.access import AccessSettings
from bot.conversations.admin_notices import AdminNotice
from bot.values import Place
from tests.stories.at_terminal import at_terminal
from tests.stories.chats import ChatWay, new_chat
from tests.stories.stage import Play

NOTICE = AdminNotice(
    key="barn",
    text="The barn door is open.",
    buttons=(("Show all runs", "/subagents list all"), ("Stop them", "/subagents stop all")),
)


async def test_a_notice_is_in_the_admin_channel_once_and_its_button_is_an_admins(
    chat_way: ChatWay,
) -> None:
    async with new_chat(chat_way) as chat:
        name, ops = chat.add_admin_channel("root", "bob")
        access = AccessSettings(admins=(chat.account("root"),), admin_channel=(name,))
        async with chat.bot(Play(), access=access):
            notices = chat.running.orchestrator.notices
            await notices.announce(NOTICE)
            await notices.announce(NOTICE)
            shown = await chat.reads(ops, "The barn door is open.")
            refused = await chat.click("bob", shown, "Show all runs")
            before = chat.again(ops, shown)
            done = await chat.click("root", shown, "Show all runs")
            await chat.until(lambda: not chat.again(ops, shown).buttons, "no buttons")
            after = chat.again(ops, shown)

            assert len(chat.texts(ops)) == 1
            assert shown.buttons == ("Show all runs", "Stop them")
            assert shown.pings == frozenset()
            assert "Only an admin of this place can press that" in refused.text
            assert refused.private
            assert before.buttons == shown.buttons
            assert "No runs are going on" in done.text
            assert done.private
            assert "The barn door is open." in after.text
            assert f"{chat.name('root')}: Show all runs" in after.text


async def test_without_a_channel_the_admins_get_it_in_direct_messages(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat:
        access = AccessSettings(admins=(chat.account("root"),))
        async with chat.bot(Play(), access=access):
            await chat.running.orchestrator.notices.announce(NOTICE)

            await chat.until(lambda: chat.direct_texts("root"), "a message to the admin")
            [text] = chat.direct_texts("root")
            assert "The barn door is open." in text
            assert "cannot" not in text
            assert chat.in_channel() == []


async def test_a_channel_that_cannot_be_written_is_replaced_by_direct_messages(
    chat_way: ChatWay,
) -> None:
    async with new_chat(chat_way) as chat:
        name, _ = chat.add_admin_channel("root")
        gone = name.rpartition(":")[0] + (":C0GONE" if name.startswith("slack") else ":404")
        access = AccessSettings(admins=(chat.account("root"),), admin_channel=(gone,))
        async with chat.bot(Play(), access=access):
            await chat.running.orchestrator.notices.announce(NOTICE)

            await chat.until(lambda: chat.direct_texts("root"), "a message to the admin")
            [text] = chat.direct_texts("root")
            assert "The barn door is open." in text
            assert f"The admin channel {gone} could not be written" in text


async def test_an_admin_at_the_terminal_reads_it_with_the_command_of_each_button(
    sqlite_url: str,
) -> None:
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, Play(), name="root", access=access) as it:
        await it.bot.orchestrator.notices.announce(NOTICE)
        await it.shows("The barn door is open.")
        await it.shows("/subagents list all – Show all runs")
        it.send("/subagents list all")
        await it.shows("No runs are going on")


async def test_another_user_at_the_terminal_does_not_read_it(sqlite_url: str) -> None:
    access = AccessSettings(admins=("terminal:root",))
    async with at_terminal(sqlite_url, Play(), name="alice", access=access) as it:
        await it.bot.orchestrator.notices.announce(NOTICE)
        it.send("/as root")
        await it.shows("The barn door is open.")

        assert "The barn door is open." not in it.read.partition("/as root")[0]


async def test_a_notice_about_a_place_is_for_the_channel_of_its_server(chat_way: ChatWay) -> None:
    async with new_chat(chat_way) as chat:
        own, ops = chat.add_admin_channel("root")
        platform, server, _ = own.split(":")
        access = AccessSettings(admin_channel=(f"{platform}:999:888", own))
        async with chat.bot(Play(), access=access):
            place = Place(platform, server, "77")
            about = AdminNotice(key="here", text="Here it rains.", place=place)
            await chat.running.orchestrator.notices.announce(about)

            await chat.reads(ops, "Here it rains.")
