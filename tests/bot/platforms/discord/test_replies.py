"""A reply grows in one message, ends whole whatever happens, and pings nobody."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.errors import DeliveryError
from bot.platforms.base import ReplyStream
from bot.platforms.discord.live import Tempo
from bot.platforms.discord.outlet import DiscordOutlet
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.discord.texts import IN_FILE, NO_ANSWER
from bot.values import Place
from tests.bot.platforms.discord.hostile import WHOLE, corpus, words_of
from tests.bot.platforms.discord.speaking import (
    MESSAGE,
    MESSAGES,
    THREADS,
    Stand,
    stand,
)
from tests.fakes.discord.faults import Fault
from tests.fakes.discord.things import Message

PATIENCE = 5.0
TYPING = "/channels/{id}/typing"


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


def shown(room: Stand, place: Place) -> list[Message]:
    channel = room.fake.channels.get(int(place.thread or place.channel))
    return room.fake.answers(channel) if channel else []


def texts(room: Stand, place: Place) -> list[str]:
    return [each.text() for each in shown(room, place)]


async def grown(room: Stand, place: Place, text: str) -> Message:
    """Wait until a reply shows something."""
    await room.fake.until(lambda: text in "".join(texts(room, place)), text)
    return shown(room, place)[-1]


# --- growing ------------------------------------------------------------------------------------


async def test_a_reply_grows_in_one_message_and_ends_in_it(room: Stand) -> None:
    begun: list[str] = []
    reply = room.outlet.open_reply(room.place, room.owner, begun=begun.append)
    reply.update("The answer")
    message = await grown(room, room.place, "The answer")
    reply.update("The answer is forty")
    await grown(room, room.place, "forty")

    delivered = await reply.finish("The answer is forty-two.")

    assert texts(room, room.place) == ["The answer is forty-two."]
    assert message.history == ["The answer", "The answer is forty", "The answer is forty-two."]
    assert begun == list(delivered.message_ids) == [str(message.id)]


async def test_a_text_that_did_not_change_is_not_edited_again(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("Done. \u200b")
    message = await grown(room, room.place, "Done.")
    reply.update("Done.\n")

    await reply.finish("Done.")

    assert message.edits == 0


async def test_the_next_edit_of_a_reply_waits_for_its_time(room: Stand) -> None:
    outlet = DiscordOutlet(room.client, DiscordSettings(edit_seconds=60), room.tasks)
    reply = outlet.open_reply(room.place, room.owner)
    reply.update("one")
    message = await grown(room, room.place, "one")
    reply.update("two")
    for _ in range(5):
        await room.sender.type(str(room.channel.id))

    assert message.history == ["one"]
    await reply.abandon()


async def test_a_growing_text_of_several_messages_shows_its_end(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("first\n" + "```py\n" + "x = 1\n" * 1000 + "last")

    message = await grown(room, room.place, "last")

    assert message.content.startswith("…\n```py\n")
    assert "first" not in message.content
    assert len(shown(room, room.place)) == 1


async def test_a_reply_begins_with_its_first_words(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update(" \n\u200b")
    reply.update("")

    await reply.abandon()
    await room.tasks.wait_idle(PATIENCE)

    assert texts(room, room.place) == []


# --- where --------------------------------------------------------------------------------------


async def test_in_a_channel_a_reply_points_to_the_message_and_pings_nobody(room: Stand) -> None:
    await room.outlet.open_reply(room.in_channel, room.owner).finish("Hello.")

    (message,) = room.fake.answers(room.channel)
    assert message.reference == room.said.id
    assert message.pings == set()


async def test_in_the_thread_of_a_message_a_reply_points_nowhere(room: Stand) -> None:
    await room.outlet.open_reply(room.place, room.owner).finish("Hello.")

    assert [each.reference for each in room.fake.answers(room.thread)] == [0]
    assert room.fake.answers(room.channel) == []


async def test_in_direct_messages_a_reply_is_a_message(room: Stand) -> None:
    question = await room.fake.say(room.alice, room.fake.dm(room.alice), "hello?")
    place = replace(room.direct, message=str(question.id))

    await room.outlet.open_reply(place, room.owner).finish("Hello.")

    assert [each.reference for each in room.fake.answers(room.fake.dm(room.alice))] == [0]


async def test_where_no_thread_may_be_made_the_reply_is_in_the_channel(room: Stand) -> None:
    room.guild.deny(room.channel, "create_public_threads")

    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("Hel")
    await reply.finish("Hello.")

    (message,) = room.fake.answers(room.channel)
    assert (message.text(), message.reference) == ("Hello.", room.said.id)


async def test_a_reply_whose_thread_is_gone_is_not_said_in_the_channel(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("Hel")
    await grown(room, room.place, "Hel")
    room.fake.delete_channel(room.thread)

    with pytest.raises(DeliveryError) as caught:
        await reply.finish("Hello. " * 400)

    assert caught.value.permanent
    assert not caught.value.fate_unknown
    assert room.fake.answers(room.channel) == []


async def test_a_refused_message_is_not_tried_with_every_word(room: Stand) -> None:
    refused = room.fake.fail("POST", MESSAGES, code=50013, times=None)
    reply = room.outlet.open_reply(room.in_channel, room.owner)
    for number in range(5):
        reply.update("word " * (number + 1))
        await room.fake.until(lambda: refused.hits, "a refusal")
        await room.sender.type(str(room.channel.id))
    assert refused.hits == 1

    with pytest.raises(DeliveryError) as caught:
        await reply.finish("The end.")

    assert caught.value.permanent
    assert refused.hits == 2


# --- long and empty -----------------------------------------------------------------------------


async def test_a_long_reply_is_several_messages_in_order(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("word0000")
    await grown(room, room.place, "word0000")
    words = [f"word{number:04}" for number in range(900)]

    delivered = await reply.finish(" ".join(words))

    messages = shown(room, room.place)
    assert 1 < len(messages) <= 5
    assert re.findall(r"word\d+", " ".join(each.text() for each in messages)) == words
    assert delivered.message_ids == tuple(str(each.id) for each in messages)


async def test_code_is_whole_in_every_message(room: Stand) -> None:
    code = "```py\n" + "\n".join(f"x{number} = {number}" for number in range(300)) + "\n```"

    await room.outlet.open_reply(room.place, room.owner).finish(code)

    for message in shown(room, room.place):
        assert message.content.startswith("```py\n")
        assert message.content.endswith("\n```")


async def test_a_very_long_reply_is_its_beginning_and_a_file(room: Stand) -> None:
    text = "\n".join(f"line {number}" for number in range(3000))

    delivered = await room.outlet.open_reply(room.place, room.owner).finish(text)

    first, second = shown(room, room.place)
    assert first.content.startswith("line 0\nline 1\n")
    assert second.content == IN_FILE
    assert second.files == [("answer.md", f"{text}\n".encode())]
    assert delivered.message_ids == (str(first.id), str(second.id))


async def test_a_very_long_reply_is_all_messages_where_files_are_refused(room: Stand) -> None:
    room.fake.refuse_files = True
    words = [f"word{number:04}" for number in range(3000)]

    await room.outlet.open_reply(room.place, room.owner).finish(" ".join(words))

    assert re.findall(r"word\d+", " ".join(texts(room, room.place))) == words
    assert len(shown(room, room.place)) > 5


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\u2060"])
async def test_an_empty_answer_is_said_to_be_one(room: Stand, text: str) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update(text)

    await reply.finish(text)

    assert texts(room, room.place) == [NO_ANSWER]


# --- once, and gone on with ----------------------------------------------------------------------


async def test_a_reply_that_is_gone_on_with_edits_its_message(room: Stand) -> None:
    begun: list[str] = []
    first = room.outlet.open_reply(room.place, room.owner)
    first.update("The answer is")
    message = await grown(room, room.place, "The answer is")
    await first.abandon()

    again = room.outlet.open_reply(room.place, room.owner, str(message.id), begun=begun.append)
    again.update("The answer is forty")
    delivered = await again.finish("The answer is forty-two.")

    assert texts(room, room.place) == ["The answer is forty-two."]
    assert delivered.message_ids == (str(message.id),)
    assert begun == []


async def test_a_reply_that_is_gone_on_with_never_shrinks(room: Stand) -> None:
    first = room.outlet.open_reply(room.place, room.owner)
    first.update("The answer is forty")
    message = await grown(room, room.place, "forty")
    await first.abandon()

    again = room.outlet.open_reply(room.place, room.owner, str(message.id))
    again.update("It is")
    await room.fake.until(lambda: bool(room.fake.requests("GET", MESSAGE)), "a look at the message")
    again.update("It is forty and a bit more.")
    await grown(room, room.place, "a bit more")
    await again.finish("It is forty-two.")

    assert message.history == [
        "The answer is forty",
        "It is forty and a bit more.",
        "It is forty-two.",
    ]


async def test_a_reply_in_the_channel_is_found_again_there(room: Stand) -> None:
    room.guild.deny(room.channel, "create_public_threads")
    first = room.outlet.open_reply(room.place, room.owner)
    first.update("The answer is")
    message = await grown(room, room.in_channel, "The answer is")
    await first.abandon()

    again = room.outlet.open_reply(room.place, room.owner, str(message.id))
    await again.finish("The answer is forty-two.")

    assert [each.text() for each in room.fake.answers(room.channel)] == ["The answer is forty-two."]


@pytest.mark.parametrize("message_id", ["123456789", "some message"])
async def test_a_reply_whose_message_is_gone_is_a_new_one(room: Stand, message_id: str) -> None:
    begun: list[str] = []
    reply = room.outlet.open_reply(room.place, room.owner, message_id, begun=begun.append)

    delivered = await reply.finish("Hello.")

    assert texts(room, room.place) == ["Hello."]
    assert begun == list(delivered.message_ids)


async def test_a_reply_that_somebody_deletes_while_it_grows_ends_in_a_new_message(
    room: Stand,
) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("Hel")
    await room.fake.delete(await grown(room, room.place, "Hel"))

    await reply.finish("Hello.")

    assert texts(room, room.place) == ["Hello."]


async def test_a_reply_too_old_to_be_edited_is_posted_anew_and_the_old_one_taken_away(
    room: Stand,
) -> None:
    room.fake.old_edit_retry_after = 0.001
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("Hel")
    old = await grown(room, room.place, "Hel")
    room.fake.make_old(old)

    await reply.finish("Hello.")

    assert texts(room, room.place) == ["Hello."]
    assert old.deleted


async def test_a_reply_whose_id_was_not_kept_is_not_said_twice(room: Stand) -> None:
    first = room.outlet.open_reply(room.place, room.owner)
    first.update("The answer is")
    await grown(room, room.place, "The answer is")
    await first.abandon()

    await room.outlet.open_reply(room.place, room.owner).finish("The answer is forty-two.")

    assert texts(room, room.place) == ["The answer is forty-two."]


async def test_a_long_reply_that_is_said_again_is_not_said_twice(room: Stand) -> None:
    await room.outlet.open_reply(room.place, room.owner).finish("old " * 900)

    await room.outlet.open_reply(room.place, room.owner).finish("new " * 900)

    assert len(shown(room, room.place)) == 2
    assert "old" not in "".join(texts(room, room.place))


# --- trouble --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [{"status": 503}, {"cloudflare": True}, {"cut": True}])
async def test_trouble_while_a_reply_grows_takes_nothing_from_its_end(
    room: Stand, fault: dict[str, bool]
) -> None:
    post = room.fake.fail("POST", MESSAGES, times=3, **fault)  # type: ignore[arg-type]
    reply = room.outlet.open_reply(room.place, room.owner)
    while post.times:
        await next_hit(room, reply, post)
    reply.update("words")
    await grown(room, room.place, "words")
    edit = room.fake.fail("PATCH", MESSAGE, times=3, **fault)  # type: ignore[arg-type]
    while edit.times:
        await next_hit(room, reply, edit)

    await reply.finish("The end.")

    assert texts(room, room.place) == ["The end."]


async def next_hit(room: Stand, reply: ReplyStream, fault: Fault) -> None:
    """Let a reply grow until Discord fails once more."""
    before = fault.hits
    reply.update(f"This is word {before}.")
    await room.fake.until(lambda: fault.hits > before, "another failure")


async def test_the_end_of_a_reply_waits_for_an_edit_under_way(room: Stand) -> None:
    hold = asyncio.Event()
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("one")
    message = await grown(room, room.place, "one")
    held = room.fake.fail("PATCH", MESSAGE, hold=hold)
    reply.update("two")
    await room.fake.until(lambda: held.hits, "an edit")
    reply.update("three")
    finishing = asyncio.ensure_future(reply.finish("four"))
    await asyncio.sleep(0)
    hold.set()
    await finishing

    assert message.history == ["one", "two", "four"]


@pytest.mark.parametrize(
    ("fault", "permanent", "unknown"),
    [
        ({"status": 503}, False, False),
        ({"cut": True}, False, True),
        ({"cloudflare": True}, False, False),
        ({"code": 50013}, True, False),
    ],
)
async def test_a_reply_that_does_not_get_through_says_why(
    room: Stand, fault: dict[str, object], permanent: bool, unknown: bool
) -> None:
    await room.made_thread()
    room.fake.fail("POST", MESSAGES, times=None, **fault)  # type: ignore[arg-type]
    reply = room.outlet.open_reply(room.place, room.owner)

    with pytest.raises(DeliveryError) as caught:
        await reply.finish("The end.")

    assert (caught.value.permanent, caught.value.fate_unknown) == (permanent, unknown)


async def test_a_reply_of_which_a_part_is_lost_did_not_get_through(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("word")
    await grown(room, room.place, "word")
    room.fake.fail("POST", MESSAGES, status=503)

    with pytest.raises(DeliveryError):
        await reply.finish("word " * 900)


async def test_a_reply_whose_thread_cannot_be_made_now_may_get_through_later(
    room: Stand,
) -> None:
    room.fake.fail("POST", THREADS, status=503, times=2)
    reply = room.outlet.open_reply(room.place, room.owner)
    with pytest.raises(DeliveryError) as caught:
        await reply.finish("Hello.")

    assert not caught.value.permanent
    assert room.fake.answers(room.channel) == []


# --- leaving ------------------------------------------------------------------------------------


async def test_a_reply_that_is_left_stays_as_it_is(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("Half of it")
    await grown(room, room.place, "Half")

    await reply.abandon()
    reply.update("Half of it and more")
    await room.tasks.wait_idle(PATIENCE)

    assert texts(room, room.place) == ["Half of it"]


# --- typing ---------------------------------------------------------------------------------------


async def test_a_reply_shows_typing_again_and_again_until_its_first_words(room: Stand) -> None:
    thread = await room.made_thread()
    reply = room.outlet.open_reply(room.place, room.owner)
    await room.fake.until(lambda: room.fake.typing(thread) >= 3, "typing")

    reply.update("Hello")
    await grown(room, room.place, "Hello")

    await typing_stops(room)
    await reply.abandon()


async def test_typing_ends_with_a_reply_that_does_not_get_through(room: Stand) -> None:
    room.fake.fail("POST", MESSAGES, status=503)
    reply = room.outlet.open_reply(room.place, room.owner)

    with pytest.raises(DeliveryError):
        await reply.finish("Hello.")

    await typing_stops(room)


async def test_typing_ends_with_the_reply(room: Stand) -> None:
    ended = room.outlet.open_reply(room.place, room.owner)
    await ended.finish("Hello.")
    await typing_stops(room)

    left = room.outlet.open_reply(room.place, room.owner)
    await left.abandon()

    await typing_stops(room)


async def typing_stops(room: Stand) -> None:
    await room.tasks.wait_idle(PATIENCE)
    assert len(room.tasks) == 0


async def test_typing_that_is_refused_is_not_repeated_and_the_rest_goes_on(room: Stand) -> None:
    refused = room.fake.fail("POST", TYPING, code=50013, times=None)
    reply = room.outlet.open_reply(room.place, room.owner)
    await typing_stops(room)

    await reply.finish("Hello.")

    assert refused.hits == 1
    assert texts(room, room.place) == ["Hello."]


async def test_typing_that_fails_once_is_shown_again(room: Stand) -> None:
    room.fake.fail("POST", TYPING, status=503)
    thread = await room.made_thread()

    reply = room.outlet.open_reply(room.place, room.owner)

    await room.fake.until(lambda: room.fake.typing(thread) >= 1, "typing")
    await reply.abandon()


async def test_typing_of_a_forgotten_reply_ends(room: Stand) -> None:
    tempo = Tempo(edit_seconds=0.0, typing_seconds=0.01, typing_at_most_seconds=0.1)
    outlet = DiscordOutlet(room.client, DiscordSettings(), room.tasks, tempo=tempo)

    outlet.open_reply(room.place, room.owner)

    await typing_stops(room)


# --- hostile texts --------------------------------------------------------------------------------


async def test_no_text_pings_or_is_refused_in_a_reply(room: Stand) -> None:
    thread = await room.made_thread()
    for number, text in enumerate(corpus(room.bob.id)):
        place = replace(room.place, message=str(1000 + number))
        before = len(room.fake.answers(thread))
        reply = room.outlet.open_reply(place, room.owner)
        reply.update(text)
        await reply.finish(text)
        assert len(room.fake.answers(thread)) > before, text

    assert not any(each.pings | each.edit_pings for each in room.everything())
    assert not [sent for sent in room.fake.sent if sent.status >= 400]


async def test_no_word_is_lost_in_a_reply(room: Stand) -> None:
    thread = await room.made_thread()
    for number, text in enumerate(WHOLE):
        place = replace(room.place, message=str(1000 + number))
        before = len(room.fake.answers(thread))
        await room.outlet.open_reply(place, room.owner).finish(text)
        said = "\n".join(each.text() for each in room.fake.answers(thread)[before:])
        assert words_of(said) == words_of(text) or (not words_of(text) and said)
