"""The fake Discord as discord.py sees it: what is said, and what is refused."""

import asyncio
import io
from typing import Any

import aiohttp
import discord
import pytest

from tests.fakes.discord.listener import Listener, listening, logged_in
from tests.fakes.discord.rules import pinged
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, Guild, User

CONTENT = 1 << 18
NOBODY = discord.AllowedMentions.none()


class Town:
    """A server with a channel and a user, and where they are for discord.py."""

    def __init__(self, fake: FakeDiscord) -> None:
        self.guild: Guild = fake.add_guild("Town")
        self.channel: Channel = fake.add_channel(self.guild, "general")
        self.alice: User = fake.add_user("alice")
        fake.join(self.guild, self.alice)


@pytest.fixture
def town(fake: FakeDiscord) -> Town:
    return Town(fake)


@pytest.fixture
def room(speaker: Listener, town: Town) -> discord.PartialMessageable:
    return speaker.get_partial_messageable(town.channel.id)


def file(name: str = "a.md", content: bytes = b"# hello") -> discord.File:
    return discord.File(io.BytesIO(content), name)


def card(*items: discord.ui.Item[Any]) -> discord.ui.LayoutView:
    view = discord.ui.LayoutView()
    for item in items:
        view.add_item(item)
    return view


def button(custom_id: str = "x", label: str = "Go") -> discord.ui.Button[Any]:
    return discord.ui.Button(label=label, custom_id=custom_id)


# -- what is heard ---------------------------------------------------------------------------------


async def test_without_the_intent_only_what_is_meant_for_the_bot_can_be_read(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    await fake.say(town.alice, town.channel, "among us", files=[("a.txt", "text/plain", b"a")])
    await fake.say(town.alice, town.channel, "listen", mention=True)
    await fake.say(town.alice, fake.dm(town.alice), "hello")
    own = await listener.get_partial_messageable(town.channel.id).send("said")
    answer = await fake.say(
        town.alice, town.channel, "to you", reply_to=fake.messages(town.channel)[-1]
    )
    await fake.until(lambda: len(listener.messages) == 4, "all heard")

    unread, mention, dm, reply = listener.messages
    assert (unread.content, unread.attachments) == ("", [])
    assert mention.content == f"{fake.bot.mention} listen"
    assert mention.mentions == [listener.user]
    assert dm.content == "hello"
    assert isinstance(dm.channel, discord.DMChannel)
    assert reply.content == "to you"
    assert reply.id == answer.id
    assert reply.reference
    assert reply.reference.message_id == own.id


async def test_with_the_intent_everything_can_be_read(fake: FakeDiscord, town: Town) -> None:
    fake.application_flags = CONTENT
    intents = discord.Intents.default()
    intents.message_content = True

    async with listening(fake, intents=intents) as listener:
        sent = await fake.say(
            town.alice, town.channel, "look", files=[("a.txt", "text/plain", b"abc")]
        )
        await fake.until(lambda: listener.messages, "a message")
        [heard] = listener.messages
        [attached] = heard.attachments

        assert heard.content == "look"
        assert (attached.filename, attached.size) == ("a.txt", 3)
        assert attached.content_type == "text/plain"
        assert await attached.read() == b"abc"
        assert isinstance(heard.author, discord.Member)
        assert heard.guild
        assert heard.guild.id == town.guild.id
        assert heard.id == sent.id


async def test_what_people_do_is_told(fake: FakeDiscord, town: Town, listener: Listener) -> None:
    message = await fake.say(town.alice, town.channel, "one", mention=True)
    await fake.edit(message, f"{fake.bot.mention} two")
    await fake.redeliver(message)
    await fake.react(town.alice, message, "👍")
    await fake.delete(message)
    staff = fake.add_role(town.guild, "staff")
    fake.join(town.guild, town.alice, roles=[staff])
    await fake.say(town.alice, town.channel, "three", mention=True)
    await fake.until(lambda: len(listener.messages) == 3, "three messages")

    first, again, third = listener.messages
    assert first.id == again.id
    assert [raw.message.content for (raw,) in listener.events("raw_message_edit")] == [
        f"{fake.bot.mention} two"
    ]
    assert listener.events("raw_reaction_add")
    assert [raw.message_id for (raw,) in listener.events("raw_message_delete")] == [message.id]
    assert isinstance(third.author, discord.Member)
    assert [role.id for role in third.author.roles] == [town.guild.id, staff.id]


async def test_bots_webhooks_and_discord_itself_speak_too(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    other = fake.add_user("other", bot=True)
    fake.join(town.guild, other)

    await fake.say(other, town.channel, "beep", mention=True)
    await fake.say(town.alice, town.channel, "from outside", webhook=True)
    await fake.say(town.alice, town.channel, kind=7)
    await fake.until(lambda: len(listener.messages) == 3, "three messages")

    bot, webhook, joined = listener.messages
    assert bot.author.bot
    assert webhook.webhook_id == town.alice.id
    assert joined.is_system()


async def test_servers_channels_and_permissions_are_known(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    category = fake.add_channel(town.guild, "work", kind="category")
    below = fake.add_channel(town.guild, "below", category=category)
    for kind in ("news", "voice", "forum"):
        fake.add_channel(town.guild, kind, kind=kind)
    town.guild.deny(below, "create_public_threads")
    fake.delete_channel(town.channel)
    await fake.until(lambda: listener.events("guild_channel_delete"), "the last event")

    guild = listener.get_guild(town.guild.id)
    assert guild
    channel = guild.get_channel(below.id)
    assert isinstance(channel, discord.TextChannel)
    assert channel.category_id == category.id
    assert not channel.permissions_for(guild.me).create_public_threads
    assert channel.permissions_for(guild.me).send_messages
    assert {each.name for each in guild.channels} == {"work", "below", "news", "voice", "forum"}


async def test_a_bot_that_is_thrown_out_hears_and_says_nothing_there(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    room = listener.get_partial_messageable(town.channel.id)
    fake.kick(town.guild)
    await fake.until(lambda: listener.events("guild_remove"), "the farewell")

    await fake.say(town.alice, town.channel, "gone?", mention=True)
    with pytest.raises(discord.Forbidden) as refusal:
        await room.send("I am")

    assert refusal.value.code == 50001
    assert listener.messages == []


# -- what is said ----------------------------------------------------------------------------------


async def test_messages_stand_as_they_were_sent_edited_and_deleted(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    first = await room.send("one")
    second = await room.send("two", file=file(), nonce="key-1")
    await room.send("three", reference=second)
    await first.edit(content="changed", attachments=[file("b.txt", b"b")])
    await first.edit(content="changed again")
    await second.delete()

    one, three = fake.messages(town.channel)
    assert (one.content, one.files, one.edits) == ("changed again", [("b.txt", b"b")], 2)
    assert one.history == ["one", "changed", "changed again"]
    assert (three.content, three.reference) == ("three", second.id)
    assert [str(sent) for sent in fake.requests("DELETE", "/channels/{id}/messages/{id}")] == [
        f"DELETE /channels/{town.channel.id}/messages/{second.id} (204)"
    ]
    [posted, *_] = fake.requests("POST", "/channels/{id}/messages")
    assert posted.json["content"] == "one"


async def test_what_a_bot_does_beside_talking_can_be_seen(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable, speaker: Listener
) -> None:
    said = await fake.say(town.alice, town.channel, "hello")
    partial = room.get_partial_message(said.id)

    await partial.add_reaction("👀")
    assert said.reactions == {"👀": [fake.bot.id]}
    await partial.remove_reaction("👀", discord.Object(fake.bot.id))
    await speaker.http.send_typing(town.channel.id)
    fetched = await partial.fetch()

    assert said.reactions == {}
    assert fake.typing(town.channel) == 1
    assert fetched.content == "hello"


async def test_a_second_message_with_the_same_nonce_is_the_first(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    first = await room.send("once", nonce="the-key")
    second = await room.send("once", nonce="the-key")
    assert first.id == second.id
    assert len(fake.messages(town.channel)) == 1

    fake.nonce_seconds = 0
    third = await room.send("once", nonce="the-key")

    assert third.id != first.id


async def test_direct_messages_are_opened_and_can_be_closed(
    fake: FakeDiscord, town: Town, speaker: Listener
) -> None:
    alice = await speaker.fetch_user(town.alice.id)
    await alice.send("psst")
    fake.close_dm(town.alice)

    with pytest.raises(discord.Forbidden) as refusal:
        await alice.send("psst!")

    assert refusal.value.code == 50007
    assert [each.content for each in fake.messages(fake.dm(town.alice))] == ["psst"]


async def test_a_card_shows_its_texts_and_buttons(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    off = discord.ui.Button[Any](label="Off", custom_id="off", disabled=True)
    row = discord.ui.ActionRow[Any](button("run:stop", "Stop"), off)
    section = discord.ui.Section[Any]("below", accessory=button("run:log", "Log"))

    await room.send(view=card(discord.ui.Container(discord.ui.TextDisplay("# Run"), row), section))

    [message] = fake.messages(town.channel)
    assert message.texts() == ["# Run", "below"]
    assert message.buttons() == ["Stop", "Log"]
    assert message.button("Stop")["custom_id"] == "run:stop"


# -- threads ---------------------------------------------------------------------------------------


async def test_a_thread_of_a_message_has_its_id_and_there_is_only_one(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    message = await fake.say(town.alice, town.channel, "hello", mention=True)
    partial = listener.get_partial_messageable(town.channel.id).get_partial_message(message.id)

    made = await listener.http.start_thread_with_message(
        town.channel.id, message.id, name="hello", auto_archive_duration=1440
    )
    with pytest.raises(discord.HTTPException) as refusal:
        await listener.http.start_thread_with_message(
            town.channel.id, message.id, name="again", auto_archive_duration=60
        )
    await listener.get_partial_messageable(int(made["id"])).send("inside")
    await fake.until(lambda: len(listener.events("message")) == 3, "all messages")

    [thread] = fake.threads(town.channel)
    assert thread.id == int(made["id"]) == message.id
    assert refusal.value.code == 160004
    assert [each.content for each in fake.messages(thread)] == ["inside"]
    assert (await partial.fetch()).flags.has_thread
    guild = listener.get_guild(town.guild.id)
    assert guild
    assert guild.get_thread(thread.id)
    assert [each.type.value for (each,) in listener.events("message")] == [0, 21, 0]


async def test_people_talk_in_threads_which_wake_up(
    fake: FakeDiscord, town: Town, listener: Listener
) -> None:
    thread = await fake.open_thread(town.alice, town.channel)
    room = listener.get_partial_messageable(thread.id)
    said = await room.send("here")
    fake.archive(thread)
    with pytest.raises(discord.HTTPException) as refusal:
        await said.edit(content="there")
    await fake.say(town.alice, thread, "hello", mention=True)
    assert not thread.archived

    fake.archive(thread, locked=True)
    with pytest.raises(discord.Forbidden) as locked:
        await room.send("anyone?")

    assert refusal.value.code == 50083
    assert locked.value.code == 160005
    await fake.until(lambda: listener.messages, "the message")
    assert isinstance(listener.messages[0].channel, discord.Thread)
    assert listener.messages[0].channel.parent_id == town.channel.id


@pytest.mark.parametrize(
    ("denied", "code"), [("create_public_threads", 50013), ("view_channel", 50001)]
)
async def test_threads_need_permission(
    fake: FakeDiscord, town: Town, speaker: Listener, denied: str, code: int
) -> None:
    message = await fake.say(town.alice, town.channel, "hello")
    town.guild.deny(town.channel, denied)

    with pytest.raises(discord.Forbidden) as refusal:
        await speaker.http.start_thread_with_message(
            town.channel.id, message.id, name="x", auto_archive_duration=60
        )
    town.guild.allow(town.channel, denied)
    await speaker.http.start_thread_with_message(
        town.channel.id, message.id, name="x", auto_archive_duration=60
    )

    assert refusal.value.code == code


async def test_a_forum_has_threads_only(fake: FakeDiscord, town: Town, speaker: Listener) -> None:
    forum = fake.add_channel(town.guild, "ideas", kind="forum")
    with pytest.raises(discord.HTTPException) as refusal:
        await speaker.get_partial_messageable(forum.id).send("hello")

    channel = await speaker.fetch_channel(forum.id)
    assert isinstance(channel, discord.ForumChannel)
    made = await channel.create_thread(name="idea", content="what if")

    assert refusal.value.code == 50008
    assert fake.messages(fake.channels[made.thread.id])[0].content == "what if"


# -- what is refused -------------------------------------------------------------------------------

TEXT = discord.ui.TextDisplay[Any]


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({"content": "x" * 2001}, 50035),
        ({"content": " "}, 50006),
        ({"content": "x", "nonce": "x" * 26}, 50035),
        ({"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}}, 50035),
        ({"content": "x", "allowed_mentions": {"parse": ["nobody"]}}, 50035),
        ({"content": "x", "message_reference": {"message_id": "77"}}, 50035),
        ({"content": "x", "flags": 1 << 15, "components": [{"type": 10, "content": "y"}]}, 50035),
        ({"components": [{"type": 10, "content": "y"}]}, 50035),
        ({"flags": 1 << 15, "components": [{"type": 10, "content": "y"}] * 41}, 50035),
        ({"flags": 1 << 15, "components": [{"type": 10, "content": "y" * 2001}] * 2}, 50035),
        ({"flags": 1 << 15, "components": [{"type": 10, "content": ""}]}, 50035),
        ({"flags": 1 << 15, "components": [{"type": 1, "components": []}]}, 50035),
        (
            {
                "flags": 1 << 15,
                "components": [
                    {
                        "type": 1,
                        "components": [
                            {"type": 2, "style": 1, "label": "Go", "custom_id": "x" * 101}
                        ],
                    }
                ],
            },
            50035,
        ),
        (
            {
                "content": "x",
                "components": [
                    {
                        "type": 1,
                        "components": [
                            {"type": 2, "style": 1, "label": "Go", "custom_id": "x"},
                            {"type": 2, "style": 1, "label": "Stop", "custom_id": "x"},
                        ],
                    }
                ],
            },
            50035,
        ),
    ],
)
async def test_a_message_that_breaks_the_rules_is_refused(
    fake: FakeDiscord, town: Town, speaker: Listener, payload: dict[str, Any], code: int
) -> None:
    route = discord.http.Route(
        "POST", "/channels/{channel_id}/messages", channel_id=town.channel.id
    )

    with pytest.raises(discord.HTTPException) as refusal:
        await speaker.http.request(route, json=payload)

    assert (refusal.value.status, refusal.value.code) == (400, code)
    assert fake.messages(town.channel) == []


async def test_a_card_stays_a_card(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    sent = await room.send(view=card(TEXT("one")))

    await sent.edit(suppress=True, view=card(TEXT("two")))
    with pytest.raises(discord.HTTPException) as refusal:
        await sent.edit(content="text")

    assert refusal.value.code == 50035
    assert fake.messages(town.channel)[0].texts() == ["two"]


async def test_a_file_that_is_too_large_is_refused(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    fake.file_limit = 3
    with pytest.raises(discord.HTTPException) as large:
        await room.send(file=file(content=b"1234"))
    fake.refuse_files = True
    with pytest.raises(discord.HTTPException) as refused:
        await room.send(file=file(content=b"1"))

    assert (large.value.status, large.value.code) == (413, 40005)
    assert refused.value.code == 40005
    assert fake.messages(town.channel) == []


async def test_what_is_not_there_is_not_found(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable, speaker: Listener
) -> None:
    sent = await room.send("x")
    await fake.delete(fake.messages(town.channel)[0])
    with pytest.raises(discord.NotFound) as message:
        await sent.edit(content="y")
    fake.delete_channel(town.channel)
    with pytest.raises(discord.NotFound) as channel:
        await room.send("y")
    with pytest.raises(discord.NotFound) as user:
        await speaker.fetch_user(77)
    with pytest.raises(discord.NotFound) as guild:
        await speaker.fetch_guild(77)

    codes = [each.value.code for each in (message, channel, user, guild)]
    assert codes == [10008, 10003, 10013, 10004]


async def test_only_its_own_messages_may_be_edited_and_not_the_old_ones(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    said = await fake.say(town.alice, town.channel, "mine")
    sent = await room.send("x")
    fake.make_old(fake.messages(town.channel)[1])

    with pytest.raises(discord.Forbidden) as foreign:
        await room.get_partial_message(said.id).edit(content="yours")
    with pytest.raises(discord.HTTPException) as old:
        await sent.edit(content="y")

    assert foreign.value.code == 50005
    assert (old.value.status, old.value.code) == (429, 30046)
    assert fake.messages(town.channel)[1].content == "x"


async def test_a_wrong_token_is_refused(fake: FakeDiscord) -> None:
    with pytest.raises(discord.LoginFailure):
        async with logged_in(fake, token="another"):
            pass


# -- what goes wrong -------------------------------------------------------------------------------

MESSAGES = "/channels/{id}/messages"


async def test_a_request_fails_as_often_as_ordered(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    fault = fake.fail("POST", MESSAGES, status=503, times=2)

    for _ in range(2):
        with pytest.raises(discord.DiscordServerError):
            await room.send("x")
    await room.send("y")

    assert fault.hits == 2
    assert [each.content for each in fake.messages(town.channel)] == ["y"]
    assert [sent.status for sent in fake.requests("POST", MESSAGES)] == [503, 503, 200]


async def test_a_rate_limit_is_waited_for(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    fake.fail("POST", MESSAGES, retry_after=0.2)

    await room.send("x")

    first, second = fake.requests("POST", MESSAGES)
    assert (first.status, second.status) == (429, 200)
    assert second.at - first.at >= 0.2
    assert len(fake.messages(town.channel)) == 1


async def test_a_ban_of_the_network_is_no_rate_limit(
    fake: FakeDiscord, room: discord.PartialMessageable
) -> None:
    fake.fail("POST", MESSAGES, cloudflare=True)

    with pytest.raises(discord.HTTPException) as refusal:
        await room.send("x")

    assert (refusal.value.status, refusal.value.code) == (429, 0)


async def test_a_connection_is_cut_before_or_after_the_message_is_there(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    fake.fail("POST", MESSAGES, refuse=True)
    fake.fail("POST", MESSAGES, cut=True)

    with pytest.raises(aiohttp.ClientError):
        await room.send("lost", nonce="1")
    assert fake.messages(town.channel) == []
    with pytest.raises(aiohttp.ClientError):
        await room.send("stored", nonce="2")
    again = await room.send("stored", nonce="2")

    [there] = fake.messages(town.channel)
    assert there.id == again.id


async def test_a_request_waits_as_long_as_the_test_wants(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    hold = asyncio.Event()
    fault = fake.fail("POST", MESSAGES, hold=hold)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(room.send("x"))
        await fake.until(lambda: fault.hits, "the request")
        assert fake.messages(town.channel) == []
        hold.set()

    assert len(fake.messages(town.channel)) == 1


async def test_waiting_in_vain_says_what_stands_there(fake: FakeDiscord, town: Town) -> None:
    await fake.say(town.alice, town.channel, "hello")
    fake.pulse.patience = 0.05

    with pytest.raises(AssertionError, match=r"not: a miracle(.|\n)*#general alice: 'hello'"):
        await fake.until(lambda: False, "a miracle")


# -- whom a message pings --------------------------------------------------------------------------

ALL = "@everyone <@5> <@!6> <@&7>"


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (None, {"everyone", 5, 6, 7}),
        ({}, set()),
        ({"parse": []}, set()),
        ({"parse": [], "users": ["5", "99"]}, {5}),
        ({"users": [6], "roles": ["7"]}, {6, 7}),
        ({"parse": ["everyone"], "users": []}, {"everyone"}),
        ({"parse": ["users", "roles"]}, {5, 6, 7}),
        ({"parse": [], "replied_user": True}, {9}),
    ],
)
def test_mentions_ping_only_as_allowed(
    allowed: dict[str, Any] | None, expected: set[int | str]
) -> None:
    found = pinged([ALL], allowed, replied_to=9)

    assert found == expected | ({9} if allowed is None else set())


async def test_a_message_knows_whom_it_really_pinged(
    fake: FakeDiscord, town: Town, room: discord.PartialMessageable
) -> None:
    text = f"@everyone {town.alice.mention}"
    await room.send(text, allowed_mentions=NOBODY)
    await room.send(text)
    await room.send(view=card(TEXT(text)))
    town.guild.deny(None, "mention_everyone")
    only = discord.AllowedMentions(everyone=True, users=[discord.Object(town.alice.id)])
    last = await room.send(text, allowed_mentions=only)
    await last.edit(content=f"{fake.owner.mention}")

    none, both, shown, named = fake.messages(town.channel)
    assert none.pings == set()
    assert none.allowed_mentions == {"parse": []}
    assert both.pings == shown.pings == {"everyone", town.alice.id}
    assert named.pings == {town.alice.id}
    assert named.edit_pings == {fake.owner.id}
