"""What is heard on Discord: which messages are meant for the bot, from whom, and where."""

import asyncio
import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from bot.errors import BotError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.discord.answers import FOR_YOU_ALONE, SENT_PRIVATELY
from bot.platforms.discord.intake import HIDDEN
from bot.platforms.discord.messages import text_of
from bot.platforms.discord.people import ROLES_UNKNOWN
from bot.platforms.messages import Quoted
from bot.platforms.messaging.intake import AGAIN, NOT_YOU, TROUBLE
from bot.values import Place
from tests.bot.platforms.discord.hearing import CONTENT_ALLOWED, Town, people, town, who
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, User
from tests.fakes.inbound import AWAY, FakeInboundHandler, Forgetful


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        opened.application_flags = CONTENT_ALLOWED
        yield opened


@pytest.fixture
async def here(fake: FakeDiscord) -> AsyncIterator[Town]:
    async with town(fake) as opened:
        yield opened


async def nothing_but(here: Town, last: str = "the last") -> list[Incoming]:
    """Say something that is heard, and return what was heard before it."""
    dm = here.fake.dm(here.bob)
    await here.fake.say(here.bob, dm, last)
    await here.inbound.until(lambda: last in here.inbound.texts(), last)
    await here.client.access.wait_idle(5)
    return [each for each in here.inbound.heard if each.text != last]


# --- what is heard --------------------------------------------------------------------------------


async def test_a_mention_is_heard_in_the_thread_that_it_is_going_to_open(here: Town) -> None:
    message = await here.fake.say(here.alice, here.general, "what is new?", mention=True)
    await here.heard()

    assert here.inbound.heard == [
        Incoming(
            event_id=f"message::{message.channel.id}:{message.id}",
            user=who(here.alice),
            user_name="Alice",
            place=Place(
                "discord",
                str(here.guild.id),
                str(here.general.id),
                str(message.id),
                str(message.id),
            ),
            text="what is new?",
            groups=frozenset({f"discord-role:{here.guild.id}:{here.guild.id}"}),
        )
    ]
    assert not here.fake.threads(here.general)


async def test_without_threads_a_mention_is_heard_in_its_channel(fake: FakeDiscord) -> None:
    async with town(fake, threads=False) as here:
        message = await fake.say(here.alice, here.general, "hello", mention=True)
        await here.heard()

        place = here.inbound.heard[0].place
        assert (place.channel, place.thread) == (str(here.general.id), "")
        assert place.message == str(message.id)


@pytest.mark.parametrize("missing", ["create_public_threads", "send_messages_in_threads"])
async def test_where_no_thread_may_be_opened_a_mention_is_heard_in_its_channel(
    here: Town, missing: str
) -> None:
    here.guild.deny(here.general, missing)

    await here.fake.say(here.alice, here.general, "hello", mention=True)
    await here.heard()

    assert here.inbound.heard[0].place.thread == ""


@pytest.mark.parametrize(("kind", "opens"), [("news", True), ("voice", False)])
async def test_threads_are_opened_where_discord_has_them(
    here: Town, kind: Any, opens: bool
) -> None:
    channel = here.fake.add_channel(here.guild, "other", kind=kind)

    message = await here.fake.say(here.alice, channel, "hello", mention=True)
    await here.heard()

    assert here.inbound.heard[0].place.thread == (str(message.id) if opens else "")


async def test_a_direct_message_is_heard_without_a_mention(here: Town) -> None:
    dm = here.fake.dm(here.alice)
    message = await here.fake.say(here.alice, dm, "hello")
    await here.heard()

    incoming = here.inbound.heard[0]
    assert incoming.place == Place("discord", "", str(dm.id), "", str(message.id))
    assert (incoming.user, incoming.text) == (who(here.alice), "hello")


async def test_an_answer_to_the_bot_is_heard_also_when_it_pings_nobody(here: Town) -> None:
    there = here.client.get_partial_messageable(here.general.id)
    sent = await there.send("What else?")
    asked = here.general.messages[sent.id]

    await here.fake.say(here.alice, here.general, "this", reply_to=asked, ping_reply=False)
    await here.heard()

    assert here.inbound.texts() == ["this"]


async def test_a_mention_of_the_bots_own_role_is_heard(here: Town) -> None:
    role = here.fake.add_role(here.guild, "Retinue", mentionable=True)
    data = {
        "guild_id": str(here.guild.id),
        "role": {"id": str(role.id), "name": "Retinue", "position": 1, "permissions": "0"}
        | {"managed": True, "mentionable": True, "tags": {"bot_id": str(here.fake.bot.id)}},
    }
    here.fake.tell("GUILD_ROLE_UPDATE", data, where=here.guild)

    await here.fake.say(here.alice, here.general, f"{role.mention} hello")
    await here.heard()

    assert here.inbound.texts() == ["hello"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<@1> hello", "hello"),
        ("<@!1>, <@1>: hello", "hello"),
        ("hello <@1> ", "hello"),
        ("ask <@1> or <@2>", "ask @retinue or <@2>"),
        ("<@1>", ""),
        ("<@1>!subagents list", "!subagents list"),
        ("<@12> hello", "<@12> hello"),
    ],
)
def test_the_bots_name_is_taken_off_what_is_said_to_it(text: str, left: str) -> None:
    message: Any = SimpleNamespace(content=text, guild=None)
    me: Any = SimpleNamespace(id=1, display_name="retinue")

    assert text_of(message, me) == left


async def test_what_is_said_to_nobody_in_a_channel_is_passed_over(here: Town) -> None:
    here.inbound.talking.add((who(here.alice), str(here.general.id), ""))

    await here.fake.say(here.alice, here.general, "just talking")
    await here.fake.say(here.alice, here.general, f"{here.bob.mention} listen")

    assert await nothing_but(here) == []


async def test_other_bots_webhooks_discord_itself_and_the_bot_are_passed_over(here: Town) -> None:
    fake, general = here.fake, here.general
    robot = fake.add_user("robot", bot=True)
    fake.join(here.guild, robot)

    await fake.say(robot, general, "hello", mention=True)
    await fake.say(robot, fake.dm(robot), "hello")
    await fake.say(here.alice, general, "hello", mention=True, webhook=True)
    for kind in (6, 7, 18, 21):
        await fake.say(here.alice, general, "hello", mention=True, kind=kind)
    await here.client.get_partial_messageable(general.id).send(f"<@{fake.bot.id}> hello")

    assert await nothing_but(here) == []


async def test_the_same_event_told_again_is_heard_once(here: Town) -> None:
    message = await here.fake.say(here.alice, here.general, "hello", mention=True)
    for _ in range(3):
        await here.fake.redeliver(message)

    assert len(await nothing_but(here)) == 1


async def test_what_was_said_while_the_gateway_was_away_is_heard_once(here: Town) -> None:
    with here.fake.gateway_down():
        await here.fake.say(here.alice, here.general, "hello", mention=True)
    await here.heard()

    assert [each.text for each in await nothing_but(here)] == ["hello"]


async def test_editing_or_deleting_a_message_changes_nothing(here: Town) -> None:
    go_on = asyncio.Event()

    async def wait(_: Incoming) -> None:
        await go_on.wait()

    here.inbound.on_message = wait
    dm = here.fake.dm(here.alice)
    await here.fake.say(here.alice, dm, "first")
    message = await here.fake.say(here.alice, dm, "hello")
    await here.heard()
    await here.fake.edit(message, "goodbye")
    await here.fake.delete(message)
    told: list[str] = []

    async def on_raw_message_delete(_: object) -> None:
        told.append("deleted")
        here.fake.touch()

    here.client.event(on_raw_message_delete)
    await here.fake.delete(await here.fake.say(here.bob, here.general, "something else"))
    await here.fake.until(lambda: told, "the end of what happened")
    go_on.set()
    await here.heard(2)

    assert here.inbound.texts() == ["first", "hello"]


# --- in threads -----------------------------------------------------------------------------------


@pytest.fixture
async def thread(here: Town) -> Channel:
    """A thread in which Alice talks with the bot."""
    opened = await here.fake.open_thread(here.alice, here.general)
    here.inbound.talking.add((who(here.alice), str(here.general.id), str(opened.id)))
    return opened


async def test_in_a_thread_whoever_talks_with_the_bot_need_not_mention_it(
    here: Town, thread: Channel
) -> None:
    message = await here.fake.say(here.alice, thread, "and then?")
    await here.heard()

    incoming = here.inbound.heard[0]
    assert incoming.text == "and then?"
    assert incoming.place == Place(
        "discord", str(here.guild.id), str(here.general.id), str(thread.id), str(message.id)
    )


async def test_somebody_else_in_the_thread_has_to_mention_it(here: Town, thread: Channel) -> None:
    await here.fake.say(here.bob, thread, "not for you")
    await here.fake.say(here.bob, thread, "for you", mention=True)
    await here.heard()

    assert here.inbound.texts() == ["for you"]
    assert here.inbound.heard[0].place.thread == str(thread.id)


async def test_what_is_said_to_somebody_else_in_a_thread_is_passed_over(
    here: Town, thread: Channel
) -> None:
    of_bob = await here.fake.say(here.bob, thread, "what do you think, Alice?")

    await here.fake.say(here.alice, thread, f"{here.bob.mention} wait")
    await here.fake.say(here.alice, thread, "fine", reply_to=of_bob, ping_reply=False)

    assert await nothing_but(here) == []


async def test_a_thread_that_discord_has_not_told_about_is_asked_for(
    here: Town, thread: Channel
) -> None:
    guild = here.client.get_guild(here.guild.id)
    assert guild is not None
    await here.fake.until(lambda: guild.get_thread(thread.id), "a thread that is known")
    known = guild.get_thread(thread.id)
    assert known is not None
    guild._remove_thread(known)

    await here.fake.say(here.alice, thread, "and then?")
    await here.fake.say(here.alice, thread, "go on", mention=True)
    await here.heard(2)

    assert [each.place.thread for each in here.inbound.heard] == [str(thread.id)] * 2
    assert here.inbound.heard[0].place.channel == str(here.general.id)
    assert len(here.fake.requests("GET", "/channels/{channel}")) == 1


async def test_when_it_is_unknown_who_talks_nobody_is_bothered(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    class Unsure(FakeInboundHandler):
        async def listens(self, *_: object) -> bool:
            raise BotError("The database is away.")

    async with town(fake, Unsure()) as here:
        thread = await fake.open_thread(here.alice, here.general)
        await fake.say(here.alice, thread, "and then?")

        assert await nothing_but(here) == []
        assert not fake.answers(thread)
    assert "The database is away." in caplog.text


# --- while the database is out of reach -----------------------------------------------------------


async def test_what_cannot_be_stored_is_tried_again_until_it_is(fake: FakeDiscord) -> None:
    inbound = Forgetful(times=3)
    async with town(fake, inbound, pauses=(0.0,) * 5) as here:
        dm = fake.dm(here.alice)
        await fake.say(here.alice, dm, "remember me")
        await inbound.until(lambda: bool(inbound.kept), "a memory")
        await here.client.access.wait_idle(5)

        assert (inbound.attempts, inbound.kept) == (4, ["remember me"])
        assert [each.text() for each in fake.answers(dm)] == [f"{AWAY} {AGAIN}"]


async def test_what_cannot_be_stored_for_minutes_is_given_up_which_is_said(
    fake: FakeDiscord,
) -> None:
    inbound = Forgetful(times=float("inf"))
    async with town(fake, inbound, pauses=(0.0, 0.0)) as here:
        dm = fake.dm(here.alice)
        await fake.say(here.alice, dm, "remember me")
        again, given_up = await here.said(dm, 2)

        assert inbound.attempts == 3
        assert AGAIN in again.text()
        assert AWAY in given_up.text()
        assert "send it again later" in given_up.text()


async def test_what_is_said_in_a_thread_meanwhile_is_taken_without_a_word(
    fake: FakeDiscord,
) -> None:
    inbound = Forgetful(times=2)
    async with town(fake, inbound, pauses=(0.0,) * 3) as here:
        thread = await fake.open_thread(here.alice, here.general)
        inbound.talking.add((who(here.alice), str(here.general.id), str(thread.id)))
        await fake.say(here.alice, thread, "and then?")
        await inbound.until(lambda: bool(inbound.kept), "a memory")
        await here.client.access.wait_idle(5)

        assert inbound.kept == ["and then?"]
        assert not fake.answers(thread)


# --- without the message-content intent -----------------------------------------------------------


async def test_without_the_intent_mentions_and_direct_messages_are_heard(
    fake: FakeDiscord,
) -> None:
    fake.application_flags = 0
    async with town(fake) as here:
        await fake.say(here.alice, here.general, "in town", mention=True)
        await fake.say(here.alice, fake.dm(here.alice), "in private")
        await here.heard(2)

        assert sorted(here.inbound.texts()) == ["in private", "in town"]


async def test_without_the_intent_a_thread_is_told_once_what_is_missing(fake: FakeDiscord) -> None:
    fake.application_flags = 0
    async with town(fake) as here:
        thread = await fake.open_thread(here.alice, here.general)
        here.inbound.talking.add((who(here.alice), str(here.general.id), str(thread.id)))

        await fake.say(here.bob, thread, "not for you")
        await fake.say(here.alice, thread, "and then?")
        await here.said(thread)
        await fake.say(here.alice, thread, "hello?")

        assert await nothing_but(here) == []
        assert [each.text() for each in fake.answers(thread)] == [HIDDEN]


async def test_without_the_intent_an_answer_that_pings_nobody_is_told_what_is_missing(
    fake: FakeDiscord,
) -> None:
    fake.application_flags = 0
    async with town(fake) as here:
        sent = await here.client.get_partial_messageable(here.general.id).send("What else?")
        asked = here.general.messages[sent.id]

        await fake.say(here.alice, here.general, "this", reply_to=asked, ping_reply=False)
        *_, answer = await here.said(here.general, 2)

        assert answer.text() == HIDDEN
        assert here.inbound.heard == []


# --- what there is besides text -------------------------------------------------------------------


async def test_a_bare_mention_is_handed_on_as_such(here: Town) -> None:
    await here.fake.say(here.alice, here.general, mention=True)
    await here.heard()

    (heard,) = here.inbound.heard
    assert (heard.text, heard.only_mention) == ("", True)


async def test_files_come_along_and_are_read_when_they_are_wanted(here: Town) -> None:
    files = [("notes.txt", "text/plain", b"eggs"), ("sun.png", "image/png", b"\x89PNG")]
    await here.fake.say(here.alice, here.general, "look", mention=True, files=files)
    await here.heard()

    text, image = here.inbound.heard[0].files
    assert (text.name, text.media_type, text.size) == ("notes.txt", "text/plain", 4)
    assert (image.name, image.media_type) == ("sun.png", "image/png")
    assert await text.read() == b"eggs"
    assert await image.read() == b"\x89PNG"


async def test_a_file_alone_says_something_too(here: Town) -> None:
    await here.fake.say(here.alice, here.general, mention=True, files=[("a.txt", "", b"eggs")])
    await here.heard()

    assert here.inbound.texts() == [""]
    assert [each.name for each in here.inbound.heard[0].files] == ["a.txt"]


# --- commands in words ----------------------------------------------------------------------------


async def test_a_command_is_answered_as_a_reply(here: Town) -> None:
    here.answers("/subagents list", "No runs are going on.")

    message = await here.fake.say(here.alice, here.general, "/subagents list", mention=True)
    (answer,) = await here.said(here.general)

    assert answer.text() == "No runs are going on."
    assert answer.reference == message.id
    assert not answer.pings


async def test_where_a_page_follows_the_command_for_it_is_named(here: Town) -> None:
    reply = CommandReply(text="Page 1", more="/subagents list 2")
    here.answers("list", reply)

    await here.fake.say(here.alice, here.fake.dm(here.alice), "list")
    (answer,) = await here.said(here.fake.dm(here.alice))

    assert answer.text() == "Page 1\n\nMore: `/subagents list 2`"


async def test_a_long_answer_is_told_in_messages_and_a_longer_one_in_a_file(here: Town) -> None:
    dm = here.fake.dm(here.alice)
    here.answers("long", "word " * 1_000)
    here.answers("longer", "word " * 5_000)

    await here.fake.say(here.alice, dm, "long")
    messages = await here.said(dm, 3)
    await here.fake.say(here.alice, dm, "longer")
    *_, first, last = await here.said(dm, 5)

    assert " ".join(each.text() for each in messages).split() == ["word"] * 1_000
    assert max(len(each.text()) for each in messages) <= 2_000
    ((name, content),) = last.files
    assert name == "answer.md"
    assert content.decode().split() == ["word"] * 5_000
    assert first.text().startswith("word word")


async def test_when_files_are_refused_the_whole_text_goes_out_all_the_same(here: Town) -> None:
    dm = here.fake.dm(here.alice)
    here.answers("longer", "word " * 5_000)
    here.fake.refuse_files = True

    await here.fake.say(here.alice, dm, "longer")
    messages = await here.said(dm, 13)

    assert " ".join(each.text() for each in messages).split() == ["word"] * 5_000


async def test_nothing_in_an_answer_pings_hides_a_link_or_is_embedded(here: Town) -> None:
    hostile = f"@everyone <@{here.bob.id}> @here [https://bank.example](https://evil.example)"
    here.answers("boo", hostile)

    await here.fake.say(here.alice, here.general, "boo", mention=True)
    (answer,) = await here.said(here.general)

    assert not answer.pings
    assert answer.allowed_mentions is not None
    assert answer.allowed_mentions["parse"] == []
    assert answer.flags & 4
    assert "](" not in answer.text()


@pytest.mark.parametrize("command", ["/subagents list", "!retinue usage"])
async def test_in_a_server_what_a_run_read_and_wrote_is_told_in_private(
    here: Town, command: str
) -> None:
    here.answers(command, CommandReply(text="It read a secret.", private=True))

    await here.fake.say(here.alice, here.general, command, mention=True)
    (note,) = await here.said(here.general)

    assert note.text() == SENT_PRIVATELY
    assert note.reference
    assert [each.text() for each in here.fake.answers(here.fake.dm(here.alice))] == [
        "It read a secret."
    ]


async def test_what_cannot_be_told_in_private_is_not_told(here: Town) -> None:
    reply = CommandReply(text="It read a secret.", private=True)
    here.answers("/subagents log 1a2b", reply)
    here.fake.close_dm(here.alice)

    await here.fake.say(here.alice, here.general, "/subagents log 1a2b", mention=True)
    (note,) = await here.said(here.general)

    assert note.text() == FOR_YOU_ALONE


async def test_where_the_bot_may_not_write_it_writes_to_the_user(here: Town) -> None:
    here.answers("/subagents list", "No runs are going on.")
    here.guild.deny(here.general, "send_messages")

    await here.fake.say(here.alice, here.general, "/subagents list", mention=True)
    (answer,) = await here.said(here.fake.dm(here.alice))

    assert answer.text() == "No runs are going on."


async def test_the_answer_to_a_message_that_is_gone_is_an_ordinary_message(here: Town) -> None:
    go_on = asyncio.Event()

    async def wait(_: Incoming) -> None:
        await go_on.wait()
        raise BotError("That went wrong.")

    here.inbound.on_message = wait
    message = await here.fake.say(here.alice, here.general, "hello", mention=True)
    await here.heard()
    await here.fake.delete(message)
    go_on.set()
    (answer,) = await here.said(here.general)

    assert answer.text() == "That went wrong."
    assert answer.reference == 0


# --- what goes wrong ------------------------------------------------------------------------------


async def test_what_the_core_cannot_do_is_said_and_the_next_message_is_heard(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    dm = here.fake.dm(here.alice)
    here.inbound.failure = BotError("The database is away; try again in a minute.")
    await here.fake.say(here.alice, dm, "one")
    await here.said(dm)
    here.inbound.failure = ValueError("a bug")
    await here.fake.say(here.alice, dm, "two")
    await here.said(dm, 2)
    await here.fake.say(here.alice, dm, "three")
    await here.heard(3)

    assert [each.text() for each in here.fake.answers(dm)] == [
        "The database is away; try again in a minute.",
        TROUBLE,
    ]
    assert "a bug" in caplog.text


async def test_a_message_without_a_mention_whose_handling_fails_is_answered_too(
    here: Town, thread: Channel
) -> None:
    here.inbound.failure = ValueError("a bug")
    await here.fake.say(here.alice, thread, "and then?")
    (answer,) = await here.said(thread)

    assert answer.text() == TROUBLE


async def test_a_mistake_of_ours_is_said_and_logged(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(FakeInboundHandler):
        async def receive(self, incoming: Incoming) -> CommandReply | None:
            return "no reply at all"  # type: ignore[return-value]

    async with town(fake, Odd()) as here:
        await fake.say(here.alice, here.general, "hello", mention=True)
        (answer,) = await here.said(here.general)

        assert answer.text() == TROUBLE
        assert "AttributeError" in caplog.text


async def test_an_answer_that_discord_does_not_take_is_logged_and_no_more(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    dm = here.fake.dm(here.alice)
    here.answers("one", "1")
    here.answers("two", "2")
    refused = here.fake.fail("POST", "/channels/{id}/messages", status=400, text="Not today")

    await here.fake.say(here.alice, dm, "one")
    await here.fake.say(here.alice, dm, "two")
    (answer,) = await here.said(dm)

    assert (answer.text(), refused.hits) == ("2", 1)
    assert "Not today" in caplog.text


async def test_one_who_waits_holds_up_nobody_else_and_order_is_kept(here: Town) -> None:
    go_on = asyncio.Event()
    done: list[str] = []

    async def take(incoming: Incoming) -> None:
        if incoming.text == "first":
            await go_on.wait()
        done.append(incoming.text)
        here.fake.touch()

    here.inbound.on_message = take
    of_alice, of_bob = here.fake.dm(here.alice), here.fake.dm(here.bob)
    for text in ("first", "second", "third"):
        await here.fake.say(here.alice, of_alice, text)
    await here.fake.say(here.bob, of_bob, "meanwhile")
    await here.fake.until(lambda: done, "what Bob said")
    go_on.set()
    await here.fake.until(lambda: len(done) == 4, "what Alice said")

    assert done == ["meanwhile", "first", "second", "third"]


async def test_when_it_is_to_stop_it_hangs_up_and_lets_what_is_under_way_finish(
    here: Town,
) -> None:
    go_on = asyncio.Event()

    async def take(_: Incoming) -> None:
        await go_on.wait()
        raise BotError("Said at the end.")

    here.inbound.on_message = take
    dm = here.fake.dm(here.alice)
    await here.fake.say(here.alice, dm, "hello")
    await here.heard()
    here.listening.cancel()
    await here.fake.until(lambda: not here.fake.gateway.connections, "nobody at the gateway")
    assert not here.listening.done()
    go_on.set()
    await asyncio.wait([here.listening], timeout=5)

    assert here.listening.cancelled()
    assert [each.text() for each in here.fake.answers(dm)] == ["Said at the end."]


# --- who may --------------------------------------------------------------------------------------


async def test_in_other_channels_and_servers_nobody_is_heard_or_told(fake: FakeDiscord) -> None:
    guild, general, alice, _ = people(fake)
    served = fake.add_channel(guild, "served")
    async with town(fake, channels=(str(served.id),)) as here:
        thread = await fake.open_thread(alice, served)
        await fake.say(alice, general, "hello", mention=True)
        await fake.say(alice, thread, "in the thread", mention=True)
        await here.heard()

        assert [each.text for each in await nothing_but(here)] == ["in the thread"]
        assert not fake.answers(general)


async def test_who_may_not_is_told_once_and_whoever_did_not_ask_is_not(fake: FakeDiscord) -> None:
    *_, alice, bob = people(fake)
    async with town(fake, users=(str(bob.id),)) as here:
        thread = await fake.open_thread(alice, here.general)
        here.inbound.talking.add((who(alice), str(here.general.id), str(thread.id)))
        await fake.say(alice, thread, "and then?")
        for _ in range(3):
            await fake.say(alice, here.general, "hello", mention=True)

        assert await nothing_but(here) == []
        assert [each.text() for each in await here.said(here.general)] == [NOT_YOU]
        assert not fake.answers(thread)


async def test_roles_let_in_and_make_admins_and_count_in_servers_only(fake: FakeDiscord) -> None:
    guild, general, alice, bob = people(fake)
    friends, chiefs = fake.add_role(guild, "friends"), fake.add_role(guild, "chiefs")
    fake.join(guild, alice, roles=[friends, chiefs])
    fake.join(guild, bob, roles=[friends])
    roles, admins = (str(friends.id),), (str(chiefs.id),)
    async with town(fake, roles=roles, admin_roles=admins, users=(str(bob.id),)) as here:
        await fake.say(alice, general, "one", mention=True)
        await here.heard()
        await fake.say(bob, general, "two", mention=True)
        await here.heard(2)
        await fake.say(alice, fake.dm(alice), "three")
        (answer,) = await here.said(fake.dm(alice))

        assert [(each.text, each.admin) for each in here.inbound.heard] == [
            ("one", True),
            ("two", False),
        ]
        assert answer.text() == ROLES_UNKNOWN


async def test_direct_messages_can_be_switched_off(fake: FakeDiscord) -> None:
    async with town(fake, direct_messages=False) as here:
        dm = fake.dm(here.alice)
        await fake.say(here.alice, dm, "hello")
        (answer,) = await here.said(dm)

        assert "Mention me in a server" in answer.text()
        assert here.inbound.heard == []


@pytest.fixture(autouse=True)
def _only_our_own_troubles(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="bot")


def test_people_are_told_apart_by_account(fake: FakeDiscord) -> None:
    twins: list[User] = [fake.add_user("alice"), fake.add_user("alice")]

    assert who(twins[0]) != who(twins[1])


# -- content of others -----------------------------------------------------------------------------


async def test_a_forward_is_quoted_content_and_not_the_users_words(here: Town) -> None:
    dm = here.fake.dm(here.alice)
    await here.fake.say(here.alice, dm, "", forwards=("I am the boss.",))
    await here.heard()

    incoming = here.inbound.heard[0]
    assert (incoming.text, incoming.quoted) == ("", (Quoted("forwarded", "I am the boss."),))


async def test_the_message_that_is_replied_to_is_quoted_content(here: Town) -> None:
    theirs = await here.fake.say(here.bob, here.general, "Bob is the boss.")
    await here.fake.say(here.alice, here.general, "true?", mention=True, reply_to=theirs)
    await here.heard()

    incoming = here.inbound.heard[0]
    assert (incoming.text, incoming.quoted) == (
        "true?",
        (Quoted("replied_to", "Bob is the boss."),),
    )


async def test_a_reply_to_the_bot_or_to_oneself_quotes_nobody(here: Town) -> None:
    sent = await here.client.get_partial_messageable(here.general.id).send("What else?")
    mine = await here.fake.say(here.alice, here.general, "Look.")
    for asked in (here.general.messages[sent.id], mine):
        await here.fake.say(here.alice, here.general, "this", mention=True, reply_to=asked)
    await here.heard(2)

    assert [incoming.quoted for incoming in here.inbound.heard] == [(), ()]
