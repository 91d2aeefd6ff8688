"""What every outlet promises of `history`: the newest messages after a moment, oldest first."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from bot.errors import DeliveryError
from bot.platforms.base import Outlet
from bot.platforms.messages import PastMessage
from bot.platforms.messaging.intake import message_key
from bot.values import Identity, Place
from tests.bot.platforms.discord.speaking import Stand as DiscordStand
from tests.bot.platforms.discord.speaking import stand as discord_stand
from tests.bot.platforms.slack.speaking import Stand as SlackStand
from tests.bot.platforms.slack.speaking import stand as slack_stand
from tests.fakes.outlet import FakeOutlet

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Room(Protocol):
    """A channel, a direct message and a thread, and somebody who says things there.

    Attributes:
        gone: A channel that is not there; `None` where any place can be read.
    """

    outlet: Outlet
    alice: Identity
    channel: Place
    direct: Place
    thread: Place
    gone: Place | None

    async def say(self, place: Place, text: str, *, mention: bool = False) -> str:
        """Let Alice say something, and return the id of the message."""
        ...

    async def answer(self, place: Place, text: str) -> None:
        """Let the bot say something."""
        ...


class FakeRoom:
    """The fake outlet."""

    gone: Place | None = None

    def __init__(self) -> None:
        self.fake = FakeOutlet()
        self.outlet: Outlet = self.fake
        self.alice = Identity("fake", "", "alice")
        self.channel = Place("fake", "guild", "room")
        self.direct = Place("fake", "", "alice")
        self.thread = Place("fake", "guild", "room", "thread")

    async def say(self, place: Place, text: str, *, mention: bool = False) -> str:
        return self._put(place, text, addressed=mention or place == self.direct)

    async def answer(self, place: Place, text: str) -> None:
        self._put(place, text, own=True)

    def _put(self, place: Place, text: str, *, addressed: bool = False, own: bool = False) -> str:
        number = str(len(self.fake.past) + 1)
        self.fake.past.append(
            PastMessage(
                event_id=message_key(place.workspace, place.thread or place.channel, number),
                place=replace(place, message=number),
                author=Identity("fake", "", "bot") if own else self.alice,
                author_name="alice",
                text=text,
                sent_at=LONG_AGO + timedelta(hours=int(number)),
                by_bot=own,
                own=own,
                addressed=addressed,
            )
        )
        return number


class DiscordRoom:
    """A server on Discord."""

    def __init__(self, stand: DiscordStand) -> None:
        self.stand = stand
        self.outlet: Outlet = stand.outlet
        self.alice = stand.owner
        self.channel = replace(stand.in_channel, message="")
        self.direct = stand.direct
        self.thread = replace(stand.place, message="")
        self.gone: Place | None = replace(self.channel, channel="404")

    async def say(self, place: Place, text: str, *, mention: bool = False) -> str:
        there = self.stand.fake.channels[int(place.thread or place.channel)]
        return str((await self.stand.fake.say(self.stand.alice, there, text, mention=mention)).id)

    async def answer(self, place: Place, text: str) -> None:
        reply = self.outlet.open_reply(place, self.alice)
        await reply.finish(text)


class SlackRoom:
    """A workspace of Slack."""

    def __init__(self, stand: SlackStand) -> None:
        self.stand = stand
        self.outlet: Outlet = stand.outlet
        self.alice = stand.owner
        self.channel = stand.in_channel
        self.direct = replace(stand.in_channel, channel=stand.direct.id)
        self.thread = replace(stand.place, message="")
        self.gone: Place | None = replace(self.channel, channel="C404")

    async def say(self, place: Place, text: str, *, mention: bool = False) -> str:
        fake, stand = self.stand.fake, self.stand
        there = fake.world.channels[place.channel]
        root = stand.said if place.thread else None
        return (await fake.say(stand.alice, there, text, mention=mention, thread=root)).ts

    async def answer(self, place: Place, text: str) -> None:
        reply = self.outlet.open_reply(place, self.alice)
        await reply.finish(text)


@asynccontextmanager
async def fake_room() -> AsyncIterator[Room]:
    yield FakeRoom()


@asynccontextmanager
async def discord_room() -> AsyncIterator[Room]:
    async with discord_stand() as stand:
        await stand.made_thread()
        yield DiscordRoom(stand)


@asynccontextmanager
async def slack_room() -> AsyncIterator[Room]:
    async with slack_stand() as stand:
        yield SlackRoom(stand)


ROOMS: dict[str, Callable[[], AbstractAsyncContextManager[Room]]] = {
    "fake": fake_room,
    "discord": discord_room,
    "slack": slack_room,
}


@pytest.fixture(params=list(ROOMS))
async def room(request: pytest.FixtureRequest) -> AsyncIterator[Room]:
    async with ROOMS[request.param]() as opened:
        yield opened


@pytest.fixture(params=["channel", "direct", "thread"])
def place(request: pytest.FixtureRequest, room: Room) -> Place:
    found: Place = getattr(room, request.param)
    return found


async def test_the_newest_messages_come_oldest_first(room: Room, place: Place) -> None:
    for number in range(5):
        await room.say(place, f"number {number}")

    found = await room.outlet.history(place, "", 3)

    assert [each.text for each in found] == ["number 2", "number 3", "number 4"]


async def test_the_message_that_opened_a_thread_is_read_besides_the_newest(room: Room) -> None:
    for number in range(5):
        await room.say(room.thread, f"number {number}")

    first, *rest = await room.outlet.history(room.thread, "", 3, opening=True)

    assert [each.text for each in rest] == ["number 2", "number 3", "number 4"]
    assert first.text not in {"number 1", "number 2", "number 3", "number 4"}
    assert first.sent_at < rest[0].sent_at


async def test_what_was_said_before_is_not_among_them(room: Room, place: Place) -> None:
    await room.say(place, "before")
    last = await room.say(place, "the last one known")
    for number in range(3):
        await room.say(place, f"number {number}")
    everything = await room.outlet.history(place, LONG_AGO, 100)
    known = next(each for each in everything if each.place.message == last)

    by_id = await room.outlet.history(place, last, 100)
    by_time = await room.outlet.history(place, known.sent_at, 100)
    newest = await room.outlet.history(place, last, 2)

    assert [each.text for each in by_id] == ["number 0", "number 1", "number 2"]
    # On a platform that counts in milliseconds several may be said at the same time.
    assert by_time == by_id[len(by_id) - len(by_time) :]
    assert [each.text for each in newest] == ["number 1", "number 2"]


async def test_a_message_says_who_wrote_it_where_and_to_whom(room: Room, place: Place) -> None:
    last = await room.say(place, "not for you")
    said = await room.say(place, "for you", mention=True)

    first, second = (await room.outlet.history(place, "", 100))[-2:]

    direct = place == room.direct
    assert (first.addressed, second.addressed) == (direct, True)
    assert (second.text, second.author, second.by_bot) == ("for you", room.alice, False)
    assert second.author_name.lower() == "alice"
    assert (first.place.message, second.place.message) == (last, said)
    assert (second.place.channel, second.place.workspace) == (place.channel, place.workspace)
    assert second.event_id.endswith(f":{said}")
    assert first.sent_at <= second.sent_at


async def test_what_the_bot_said_is_marked_as_its_own(room: Room) -> None:
    await room.say(room.direct, "Hello")
    await room.answer(room.direct, "Good morning.")

    *_, mine = await room.outlet.history(room.direct, "", 100)

    assert (mine.own, mine.by_bot) == (True, True)
    assert "Good morning." in mine.text


async def test_a_thread_and_its_channel_are_read_apart(room: Room) -> None:
    await room.say(room.channel, "above")
    await room.say(room.thread, "below")

    above = [each.text for each in await room.outlet.history(room.channel, "", 100)]
    below = [each.text for each in await room.outlet.history(room.thread, "", 100)]

    assert ("above" in above, "below" in above) == (True, False)
    assert ("above" in below, "below" in below) == (False, True)


async def test_a_place_that_cannot_be_read_says_so(room: Room) -> None:
    if room.gone is None:
        assert await room.outlet.history(Place("fake", "", "nowhere"), "", 10) == []
        return
    with pytest.raises(DeliveryError) as refused:
        await room.outlet.history(room.gone, "", 10)

    assert refused.value.permanent
