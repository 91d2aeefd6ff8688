"""What the bot says reaches its user: in place if possible, else nearby, never elsewhere."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import discord
import pytest

from bot.errors import DeliveryError
from bot.platforms.base import Announcement, Choice, Confirmation, Weight
from bot.platforms.discord import texts
from bot.platforms.discord.outlet import DiscordOutlet
from bot.platforms.discord.sending import Draft
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.messaging.texts import KEPT_FOR_USER
from bot.values import Identity, Place, Stopper
from tests.bot.platforms.discord.hostile import WHOLE, corpus, words_of
from tests.bot.platforms.discord.speaking import AT_ONCE, MESSAGES, RUN, THREADS, Stand, stand

NOW = 1_700_000_000
REACTION = "/channels/{id}/messages/{id}/reactions/{emoji}/@me"
DIRECT = "/users/@me/channels"


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


def news(room: Stand, **changes: object) -> Announcement:
    values: dict[str, object] = {
        "key": RUN,
        "place": room.place,
        "owner": room.owner,
        "title": "news completed",
        "text": "There is some.",
        "footer": "12,345 tokens",
    }
    return Announcement(**(values | changes))  # type: ignore[arg-type]


def question(room: Stand, **changes: object) -> Confirmation:
    values: dict[str, object] = {
        "id": "0" * 32,
        "owner": room.owner,
        "place": room.place,
        "text": "Shall I delete the list?",
        "expires_in_seconds": 600.0,
    }
    return Confirmation(**(values | changes))  # type: ignore[arg-type]


# --- acknowledging --------------------------------------------------------------------------------


async def test_a_mention_is_acknowledged_by_eyes_a_thread_and_typing_in_it(room: Stand) -> None:
    await room.outlet.acknowledge(room.place)

    assert room.said.reactions == {"👀": [room.fake.bot.id]}
    assert [each.id for each in room.fake.threads(room.channel)] == [room.said.id]
    assert room.fake.typing(room.thread) == 1


async def test_a_message_in_a_thread_is_acknowledged_there(room: Stand) -> None:
    thread = await room.made_thread()
    said = await room.fake.say(room.alice, thread, "and then?")

    await room.outlet.acknowledge(replace(room.place, message=str(said.id)))

    assert said.reactions == {"👀": [room.fake.bot.id]}
    assert room.fake.typing(thread) == 1


async def test_a_direct_message_is_acknowledged(room: Stand) -> None:
    dm = room.fake.dm(room.alice)
    said = await room.fake.say(room.alice, dm, "hello")

    await room.outlet.acknowledge(replace(room.direct, message=str(said.id)))

    assert said.reactions == {"👀": [room.fake.bot.id]}
    assert room.fake.typing(dm) == 1


async def test_where_no_thread_may_be_made_typing_is_shown_in_the_channel(room: Stand) -> None:
    room.guild.deny(room.channel, "create_public_threads")

    await room.outlet.acknowledge(room.place)

    assert room.fake.typing(room.channel) == 1


@pytest.mark.parametrize("fault", [{"code": 50013}, {"status": 503}, {"cut": True}])
@pytest.mark.parametrize("path", [REACTION, THREADS, "/channels/{id}/typing"])
async def test_acknowledging_never_raises(room: Stand, path: str, fault: dict[str, object]) -> None:
    room.fake.fail("*", path, times=None, **fault)  # type: ignore[arg-type]

    await room.outlet.acknowledge(room.place)


async def test_one_part_of_acknowledging_does_without_the_other(room: Stand) -> None:
    room.fake.fail("PUT", REACTION, code=50013)

    await room.outlet.acknowledge(room.place)

    assert room.fake.typing(room.thread) == 1


async def test_acknowledging_nowhere_is_nothing(room: Stand) -> None:
    await room.outlet.acknowledge(Place("discord", channel="nowhere at all"))
    await room.client.close()

    await room.outlet.acknowledge(room.place)


async def test_acknowledging_and_replying_make_one_thread(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    async with asyncio.TaskGroup() as group:
        group.create_task(room.outlet.acknowledge(room.place))
        group.create_task(reply.finish("Hello."))

    assert len(room.fake.requests("POST", THREADS)) == 1


# --- announcing -----------------------------------------------------------------------------------


async def test_an_announcement_is_in_its_thread_and_pings_its_owner(room: Stand) -> None:
    delivered = await room.outlet.announce(news(room))

    (message,) = room.fake.answers(room.thread)
    assert message.content == (
        f"{room.alice.mention} **news completed**\nThere is some.\n-# 12,345 tokens"
    )
    assert message.pings == {room.alice.id}
    assert delivered.message_ids == (str(message.id),)


async def test_an_announcement_mentions_in_a_server_who_stopped_a_run_and_names_them_elsewhere(
    room: Stand,
) -> None:
    admin = Stopper(Identity("discord", "", "77"), "Ro**ot**")
    foreign = Stopper(Identity("slack", "T1", "77"), "Root")

    for number, (place, stopper) in enumerate(
        [(room.place, admin), (room.direct, admin), (room.place, foreign)]
    ):
        await room.outlet.announce(
            news(room, key=f"{RUN[:-1]}{number}", place=place, stopped_by=stopper)
        )

    first, last = room.fake.answers(room.thread)
    (direct,) = room.fake.answers(room.fake.dm(room.alice))
    assert "-# Stopped by <@77>." in first.content
    assert first.pings == {room.alice.id}
    assert "-# Stopped by @Ro\\*\\*ot\\*\\*." in direct.content
    assert "-# Stopped by @Root." in last.content


@pytest.mark.parametrize("text", ["There is some.", "A long story. " * 300])
async def test_an_announcement_of_a_run_that_can_be_resumed_has_a_button(
    room: Stand, text: str
) -> None:
    await room.outlet.announce(news(room, text=text, resumable=RUN))

    *before, last = room.fake.answers(room.thread)
    assert last.button("Resume")["custom_id"] == f"run:resume:{RUN}"
    assert [message.buttons() for message in before] == [[] for _ in before]


async def test_an_announcement_in_a_channel_is_a_reply(room: Stand) -> None:
    await room.outlet.announce(news(room, place=room.in_channel))

    (message,) = room.fake.answers(room.channel)
    assert message.reference == room.said.id
    assert message.pings == {room.alice.id}


async def test_an_announcement_in_direct_messages_needs_no_ping(room: Stand) -> None:
    await room.outlet.announce(news(room, place=room.direct))

    (message,) = room.fake.answers(room.fake.dm(room.alice))
    assert message.content.startswith("**news completed**")


async def test_only_the_first_message_of_a_long_announcement_pings(room: Stand) -> None:
    words = [f"word{number:04}" for number in range(700)]

    delivered = await room.outlet.announce(news(room, text=" ".join(words)))

    messages = room.fake.answers(room.thread)
    assert [each.pings for each in messages] == [{room.alice.id}, *[set()] * (len(messages) - 1)]
    assert re.findall(r"word\d+", " ".join(each.text() for each in messages)) == words
    assert messages[-1].text().endswith("-# 12,345 tokens")
    assert delivered.message_ids == tuple(str(each.id) for each in messages)


async def test_a_very_long_announcement_is_its_beginning_and_a_file(room: Stand) -> None:
    text = "\n".join(f"line {number}" for number in range(3000))

    await room.outlet.announce(news(room, text=text))

    first, second = room.fake.answers(room.thread)
    assert first.pings == {room.alice.id}
    assert second.files == [("result.md", f"**news completed**\n{text}\n".encode())]


async def test_an_announcement_that_is_sent_again_is_one_message(room: Stand) -> None:
    text = "word " * 700
    await room.outlet.announce(news(room, text=text))

    await room.outlet.announce(news(room, text=text, maybe_repeated=True))

    assert len(room.fake.answers(room.thread)) == 2


async def test_an_announcement_that_got_no_answer_is_one_message(room: Stand) -> None:
    await room.made_thread()
    room.fake.fail("POST", MESSAGES, cut=True, times=3)
    with pytest.raises(DeliveryError) as caught:
        await room.outlet.announce(news(room))

    await room.outlet.announce(news(room, maybe_repeated=True))

    assert caught.value.fate_unknown
    (message,) = room.fake.answers(room.thread)
    assert message.history == [message.content]


async def test_an_announcement_whose_thread_is_gone_is_a_direct_message_and_nowhere_else(
    room: Stand,
) -> None:
    thread = await room.made_thread()
    room.fake.delete_channel(thread)

    await room.outlet.announce(news(room))

    (message,) = room.fake.answers(room.fake.dm(room.alice))
    assert message.content == (
        f"{texts.ELSEWHERE}\n**news completed**\nThere is some.\n-# 12,345 tokens"
    )
    assert room.everything() == [message]


async def test_an_announcement_whose_first_part_was_in_a_thread_that_is_gone_is_whole_again(
    room: Stand,
) -> None:
    thread = await room.made_thread()
    words = [f"word{number:04}" for number in range(700)]
    await room.sender.post(str(thread.id), Draft(text="word0000"), key=news(room).key)
    room.fake.delete_channel(thread)

    await room.outlet.announce(news(room, text=" ".join(words)))

    said = " ".join(each.text() for each in room.fake.answers(room.fake.dm(room.alice)))
    assert re.findall(r"word\d+", said) == words
    assert room.fake.answers(room.channel) == []


async def test_an_announcement_in_a_locked_thread_is_a_direct_message(room: Stand) -> None:
    thread = await room.made_thread()
    room.fake.archive(thread, locked=True)

    await room.outlet.announce(news(room))

    assert room.fake.answers(thread) == room.fake.answers(room.channel) == []
    assert len(room.fake.answers(room.fake.dm(room.alice))) == 1


async def test_when_direct_messages_are_closed_the_channel_is_told_in_a_line_without_content(
    room: Stand,
) -> None:
    thread = await room.made_thread()
    room.fake.delete_channel(thread)
    room.fake.close_dm(room.alice)

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.announce(news(room))

    assert caught.value.permanent
    (message,) = room.everything()
    assert message.content == f"{room.alice.mention} {KEPT_FOR_USER}"
    assert message.pings == {room.alice.id}


async def test_around_a_thread_that_may_be_private_nothing_is_said(room: Stand) -> None:
    thread = await room.made_thread()
    room.fake.delete_channel(thread)
    room.fake.close_dm(room.alice)
    later = replace(room.place, message=str(int(room.place.message) + 1))

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.announce(news(room, place=later))

    assert caught.value.permanent
    assert room.everything() == []


async def test_what_is_told_for_a_thread_that_is_gone_is_told_in_direct_messages_only(
    room: Stand,
) -> None:
    thread = await room.made_thread()
    room.fake.delete_channel(thread)

    await room.outlet.tell(room.place, room.owner, "salaries.xlsx is too large.")

    assert room.everything() == room.fake.answers(room.fake.dm(room.alice)) != []


async def test_an_announcement_in_an_archived_thread_opens_it_again(room: Stand) -> None:
    thread = await room.made_thread()
    room.fake.archive(thread)

    await room.outlet.announce(news(room))

    assert len(room.fake.answers(thread)) == 1


async def test_an_announcement_for_a_thread_that_was_never_made_makes_it(room: Stand) -> None:
    await room.outlet.announce(news(room))

    assert len(room.fake.answers(room.thread)) == 1


async def test_where_no_thread_may_be_made_an_announcement_is_in_the_channel_as_usual(
    room: Stand,
) -> None:
    room.guild.deny(room.channel, "create_public_threads")

    await room.outlet.announce(news(room))

    (message,) = room.fake.answers(room.channel)
    assert message.content.startswith(f"{room.alice.mention} **news completed**")


async def test_an_announcement_whose_channel_is_gone_is_a_direct_message(room: Stand) -> None:
    await room.made_thread()
    room.fake.delete_channel(room.channel)

    await room.outlet.announce(news(room))

    (message,) = room.fake.answers(room.fake.dm(room.alice))
    assert message.content.startswith(f"{texts.ELSEWHERE}\n**news completed**")


async def test_an_announcement_of_a_bot_that_was_thrown_out_is_a_direct_message(
    room: Stand,
) -> None:
    room.fake.kick(room.guild)

    await room.outlet.announce(news(room))

    assert len(room.fake.answers(room.fake.dm(room.alice))) == 1


@pytest.mark.parametrize("opening", [True, False])
async def test_an_announcement_that_nobody_takes_is_kept_for_good(
    room: Stand, opening: bool
) -> None:
    room.fake.delete_channel(room.channel)
    room.fake.close_dm(room.alice, opening=opening)

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.announce(news(room))

    assert caught.value.permanent
    assert room.everything() == []


async def test_an_announcement_is_never_anywhere_else(room: Stand) -> None:
    room.fake.add_channel(room.guild, "other")
    room.fake.delete_channel(room.channel)
    room.fake.close_dm(room.alice)
    with pytest.raises(DeliveryError):
        await room.outlet.announce(news(room))

    assert room.everything() == []


@pytest.mark.parametrize(
    ("fault", "unknown"),
    [({"status": 503}, False), ({"cloudflare": True}, False), ({"cut": True}, True)],
)
async def test_trouble_is_no_reason_to_say_it_elsewhere(
    room: Stand, fault: dict[str, bool], unknown: bool
) -> None:
    await room.made_thread()
    room.fake.fail("POST", MESSAGES, times=3, **fault)  # type: ignore[arg-type]

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.announce(news(room))

    assert not caught.value.permanent
    assert caught.value.fate_unknown is unknown
    assert room.fake.answers(room.channel) == []
    assert room.fake.requests("POST", DIRECT) == []


async def test_while_discord_refuses_too_much_an_announcement_waits(room: Stand) -> None:
    for _ in range(1000):
        room.client.breaker.count(403)

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.announce(news(room))

    assert not caught.value.permanent
    assert room.everything() == []


# --- asking ---------------------------------------------------------------------------------------


async def test_a_question_names_its_owner_the_time_and_the_answers(room: Stand) -> None:
    outlet = DiscordOutlet(
        room.client, DiscordSettings(), room.tasks, tempo=AT_ONCE, now=lambda: float(NOW)
    )

    await outlet.ask(question(room))

    (message,) = room.fake.answers(room.thread)
    assert message.content.startswith(f"{room.alice.mention} Shall I delete the list?")
    assert f"<t:{NOW + 600}:R>" in message.content
    assert message.pings == {room.alice.id}
    assert len(message.buttons()) == 2
    assert [message.button(name)["custom_id"] for name in message.buttons()] == [
        f"ask:yes:{'0' * 32}",
        f"ask:no:{'0' * 32}",
    ]


ALLOWED = (
    Choice("yes", "Allow once", Weight.GOOD),
    Choice("all", "Allow for this run", Weight.PLAIN),
    Choice("no", "Deny", Weight.BAD),
)


async def test_a_question_has_a_button_for_each_choice_in_its_colour(room: Stand) -> None:
    await room.outlet.ask(question(room, choices=ALLOWED))

    (message,) = room.fake.answers(room.thread)
    assert message.buttons() == ["Allow once", "Allow for this run", "Deny"]
    shown = [message.button(name) for name in message.buttons()]
    assert [each["custom_id"].split(":")[1] for each in shown] == ["yes", "all", "no"]
    styles = discord.ButtonStyle.success, discord.ButtonStyle.secondary, discord.ButtonStyle.danger
    assert [each["style"] for each in shown] == [each.value for each in styles]
    assert "counts as no" in message.content


async def test_an_open_question_says_that_a_message_is_an_answer_and_has_at_most_six_buttons(
    room: Stand,
) -> None:
    options = tuple(Choice(f"{number}", f"Option {number}") for number in range(1, 8))

    await room.outlet.ask(question(room, choices=options, open_ended=True))

    (message,) = room.fake.answers(room.thread)
    assert "Answer here with a message" in message.content
    assert "counts as no" not in message.content
    assert [len(row["components"]) for row in message.components] == [5, 1]
    assert message.buttons()[-1] == "Option 6"


async def test_no_label_pings_or_is_refused_whatever_a_model_wrote(room: Stand) -> None:
    for text in corpus(room.bob.id):
        choices = Choice("1", text), Choice("2", text * 3), Choice("skip", "")
        await room.outlet.ask(question(room, id=uuid.uuid4().hex, choices=choices))

        *_, message = room.fake.answers(room.thread)
        assert all(1 <= len(each) <= 70 for each in message.buttons())
        # A label is no Markdown: what looks like a ping in it is none, in code neither.
        assert message.pings == {room.alice.id}


async def test_a_long_question_is_shown_whole_before_it_can_be_answered(room: Stand) -> None:
    words = [f"word{number:04}" for number in range(900)]

    await room.outlet.ask(question(room, text=" ".join(words)))

    messages = room.fake.answers(room.thread)
    assert re.findall(r"word\d+", " ".join(each.text() for each in messages)) == words
    assert [bool(each.buttons()) for each in messages] == [
        *[False] * (len(messages) - 1),
        True,
    ]


async def test_a_question_whose_thread_is_gone_is_asked_in_direct_messages_only(
    room: Stand,
) -> None:
    thread = await room.made_thread()
    room.fake.delete_channel(thread)

    asked = await room.outlet.ask(question(room))

    (message,) = room.everything()
    assert message in room.fake.answers(room.fake.dm(room.alice))
    assert len(message.buttons()) == 2
    assert asked == str(message.id)


async def test_where_nobody_can_be_asked_the_question_fails(room: Stand) -> None:
    room.fake.delete_channel(room.channel)
    room.fake.close_dm(room.alice)

    with pytest.raises(DeliveryError):
        await room.outlet.ask(question(room))


async def test_a_question_that_is_asked_again_is_one_message(room: Stand) -> None:
    await room.outlet.ask(question(room))

    await room.outlet.ask(question(room))

    assert len(room.fake.answers(room.thread)) == 1


# --- telling --------------------------------------------------------------------------------------


async def test_what_is_told_is_said_in_place_and_pings_nobody(room: Stand) -> None:
    await room.outlet.tell(room.in_channel, room.owner, "Your run was stopped.")

    (message,) = room.fake.answers(room.channel)
    assert (message.content, message.reference) == ("Your run was stopped.", room.said.id)
    assert message.pings == set()


async def test_what_is_told_twice_is_said_twice(room: Stand) -> None:
    for _ in range(2):
        await room.outlet.tell(room.place, room.owner, "Your run was stopped.")

    assert len(room.fake.answers(room.thread)) == 2


async def test_what_cannot_be_told_in_place_is_told_in_a_direct_message(room: Stand) -> None:
    room.fake.delete_channel(room.channel)

    await room.outlet.tell(room.place, room.owner, "Your run was stopped.")

    (message,) = room.fake.answers(room.fake.dm(room.alice))
    assert message.content.endswith("Your run was stopped.")


@pytest.mark.parametrize("fault", [{"code": 50013}, {"status": 503}, {"cut": True}])
async def test_telling_never_raises(room: Stand, fault: dict[str, object]) -> None:
    room.fake.fail("POST", MESSAGES, times=None, **fault)  # type: ignore[arg-type]

    await room.outlet.tell(room.place, room.owner, "Hello?")
    await room.outlet.tell(Place("discord", channel="?"), Identity("discord", "", "?"), "Hello?")


# --- hostile texts --------------------------------------------------------------------------------


async def test_no_text_pings_or_is_refused_wherever_it_stands(room: Stand) -> None:
    for text in corpus(room.bob.id):
        said = news(room, key=str(uuid.uuid4()), title=text, text=text, footer=text)
        await room.outlet.announce(said)
        await room.outlet.ask(question(room, id=uuid.uuid4().hex, text=text))
        await room.outlet.tell(room.place, room.owner, text)

    pinged = [each.pings | each.edit_pings for each in room.everything()]
    assert len([each for each in pinged if each]) == 2 * len(corpus(room.bob.id))
    assert all(each <= {room.alice.id} for each in pinged)
    assert not [sent for sent in room.fake.sent if sent.status >= 400]


async def test_the_owner_of_a_text_is_not_pinged_by_it(room: Stand) -> None:
    for text in (room.alice.mention, f"@everyone {room.alice.mention} {room.bob.mention}"):
        await room.outlet.tell(room.place, room.owner, text)

    assert [each.pings for each in room.everything()] == [set(), set()]


async def test_no_word_of_an_announcement_is_lost(room: Stand) -> None:
    for text in WHOLE:
        before = len(room.everything())
        said = news(room, key=str(uuid.uuid4()), title="", text=text, footer="", place=room.direct)
        await room.outlet.announce(said)
        shown = "\n".join(each.text() for each in room.everything()[before:])
        assert words_of(shown) == words_of(text) or (not words_of(text) and shown)
