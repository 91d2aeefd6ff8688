"""The thread of a mention is made once, by whoever needs it first."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.errors import DeliveryError
from bot.platforms.base import Announcement
from bot.platforms.discord.live import Tempo, Threads
from bot.platforms.discord.sending import Draft, Sender
from bot.tasks import Tasks
from tests.bot.platforms.discord.hearing import town
from tests.bot.platforms.discord.speaking import (
    IMPATIENT,
    MESSAGES,
    THREADS,
    Stand,
    card_of,
    readable,
    stand,
)
from tests.fakes.discord.server import FakeDiscord


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


async def test_all_who_need_a_thread_at_once_share_one_attempt(room: Stand) -> None:
    threads = room.threads

    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(threads.ready(room.place)) for _ in range(5)]

    assert [each.result() for each in asked] == [True] * 5
    assert len(room.fake.requests("POST", THREADS)) == 1


async def test_a_thread_is_made_once(room: Stand) -> None:
    threads = room.threads
    await threads.ready(room.place)

    assert await threads.ready(room.place)
    assert len(room.fake.requests("POST", THREADS)) == 1


async def test_a_thread_that_somebody_else_made_will_do(room: Stand) -> None:
    await room.made_thread()

    assert await room.threads.ready(room.place)


async def test_a_thread_may_have_outlived_its_message(room: Stand) -> None:
    await room.made_thread()
    await room.fake.delete(room.said)

    assert await room.threads.ready(room.place)


async def test_a_place_without_a_thread_needs_none(room: Stand) -> None:
    assert not await room.threads.ready(room.in_channel)
    assert not await room.threads.ready(room.direct)
    assert room.fake.requests("POST", THREADS) == []


async def test_a_message_in_a_thread_begins_no_other(room: Stand) -> None:
    thread = await room.made_thread()
    inside = replace(room.place, message="1234567")
    before = len(room.fake.requests("POST", THREADS))

    assert await room.threads.ready(inside)
    assert inside.thread == str(thread.id)
    assert len(room.fake.requests("POST", THREADS)) == before


async def test_where_no_thread_may_be_made_there_is_none_and_nobody_asks_again(
    room: Stand,
) -> None:
    room.guild.deny(room.channel, "create_public_threads")
    threads = room.threads

    assert not await threads.ready(room.place)
    assert not await threads.ready(room.place)
    assert len(room.fake.requests("POST", THREADS)) == 1


async def test_a_thread_that_cannot_be_made_now_is_made_later(room: Stand) -> None:
    room.fake.fail("POST", THREADS, status=503)
    threads = room.threads
    with pytest.raises(DeliveryError) as caught:
        await threads.ready(room.place)

    assert not caught.value.permanent
    assert await threads.ready(room.place)


async def test_who_gives_up_waiting_takes_the_thread_from_nobody(room: Stand) -> None:
    hold = asyncio.Event()
    held = room.fake.fail("POST", THREADS, hold=hold)
    threads = room.threads
    impatient = asyncio.ensure_future(threads.ready(room.place))
    await room.fake.until(lambda: held.hits, "the request")
    patient = asyncio.ensure_future(threads.ready(room.place))
    await asyncio.sleep(0)
    impatient.cancel()
    hold.set()

    assert await patient
    assert len(room.fake.requests("POST", THREADS)) == 1


async def test_a_thread_is_called_after_what_was_said() -> None:
    async with FakeDiscord.open() as fake, town(fake) as heard:
        await fake.say(
            heard.alice, heard.general, "What is new in @everyone's\nworld?", mention=True
        )
        await heard.heard()
        tasks = Tasks()

        await Threads(heard.client, Sender(heard.client), tasks).ready(heard.inbound.heard[0].place)

        assert [each.name for each in fake.threads(heard.general)] == [
            "What is new in @ everyone's world?"
        ]


# --- when Discord does not open it in time -------------------------------------------------------


async def test_a_thread_that_takes_too_long_is_answered_in_the_channel_from_then_on() -> None:
    async with stand(IMPATIENT) as room:
        assert Tempo(edit_seconds=0).open_seconds == 5
        held = room.fake.fail("POST", THREADS, hold=asyncio.Event(), times=None)
        threads = Threads(room.client, room.sender, room.tasks, open_seconds=0.1)

        assert not await threads.ready(room.place)
        held.take_back()
        assert not await threads.ready(room.place)

        assert len(room.fake.requests("POST", THREADS)) == 1


async def test_a_thread_that_was_opened_without_an_answer_is_found(room: Stand) -> None:
    await room.made_thread()
    room.fake.fail("POST", THREADS, hold=asyncio.Event(), times=None)

    assert await Threads(room.client, room.sender, room.tasks, open_seconds=0.1).ready(room.place)


async def test_beyond_the_limit_of_threads_the_channel_is_used_at_once(room: Stand) -> None:
    room.fake.limit("POST", THREADS, limit=1, seconds=300)
    threads = room.threads
    another = await room.fake.say(room.alice, room.channel, "and this?", mention=True)
    place = replace(room.place, thread=str(another.id), message=str(another.id))

    assert await threads.ready(room.place)
    assert not await threads.ready(place)


async def test_without_its_thread_all_of_a_place_is_said_in_the_channel_in_order() -> None:
    async with stand(IMPATIENT) as room:
        room.fake.fail("POST", THREADS, hold=asyncio.Event(), times=None)
        outlet = room.outlet
        reply = outlet.open_reply(room.place, room.owner)
        async with asyncio.TaskGroup() as group:
            group.create_task(outlet.acknowledge(room.place))
            group.create_task(reply.finish("the answer"))
            await asyncio.sleep(0)
            outlet.show_card(card_of(room, label="the card"))
            await asyncio.sleep(0)
            for number in range(3):
                announcement = Announcement(
                    key=str(number),
                    place=room.place,
                    owner=room.owner,
                    title="done",
                    text=f"result {number}",
                )
                group.create_task(outlet.announce(announcement))
                await asyncio.sleep(0)
        await room.fake.until(lambda: len(room.fake.answers(room.channel)) == 5, "all of it")

        order = ["the answer", "the card", "result 0", "result 1", "result 2"]
        shown = [readable(each) for each in room.fake.answers(room.channel)]
        assert [words in text for words, text in zip(order, shown, strict=True)] == [True] * 5
        assert room.fake.answers(room.channel)[0].reference == room.said.id
        assert len(room.fake.requests("POST", THREADS)) == 1


async def test_messages_of_one_channel_do_not_overtake_one_another(room: Stand) -> None:
    hold = asyncio.Event()
    sender, other = room.sender, room.fake.add_channel(room.guild, "other")
    # Discord takes many at once, and we know it.
    await sender.post(str(room.channel.id), Draft(text="before"), key="before")
    held = room.fake.fail("POST", MESSAGES, hold=hold)
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            draft = Draft(text=f"number {number}")
            group.create_task(sender.post(str(room.channel.id), draft, key=str(number)))
            await asyncio.sleep(0)
        await room.fake.until(lambda: held.hits, "the first")
        await sender.post(str(other.id), Draft(text="elsewhere"), key="other")
        assert len(room.fake.answers(room.channel)) == 1
        hold.set()

    shown = [each.text() for each in room.fake.answers(room.channel)]
    assert shown == ["before", "number 0", "number 1", "number 2"]
