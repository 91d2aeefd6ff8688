"""What was missed is read after each gap: latest places first, once, at the platform's pace."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.errors import DatabaseUnreachableError, DeliveryError
from bot.platforms.catch_up import CatchUp
from bot.platforms.past import Missed, PastMessage
from bot.tasks import Tasks
from bot.values import Identity, Place
from tests.fakes.ears import FakeEars
from tests.fakes.outlet import FakeOutlet

START = datetime(2026, 11, 22, 12, tzinfo=UTC)
ALICE = Identity("fake", "", "alice")


class FakeListening:
    """A connection that the test opens and closes."""

    listener = "fake"

    def __init__(self) -> None:
        self.is_connected = True
        self.heard: list[str] = []
        self.failure: Exception | None = None

    async def connected(self) -> bool:
        return self.is_connected

    def with_news(self, places: Sequence[Place], since: datetime) -> list[Place]:
        return [place for place in places if place.channel != "quiet"]

    async def hear_missed(self, message: PastMessage) -> None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.heard.append(message.text)


class SlowOutlet(FakeOutlet):
    """An outlet that refuses to read some places."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.refusals: dict[str, list[Exception]] = {}

    async def history(self, place: Place, after: datetime | str, limit: int) -> list[PastMessage]:
        self.reads.append(place.channel)
        if self.refusals.get(place.channel):
            raise self.refusals[place.channel].pop(0)
        return await super().history(place, after, limit)


class Scene:
    """A catch-up with a fake on every side."""

    def __init__(self, *channels: str, most_places: int = 10) -> None:
        self.ears, self.outlet, self.listening = FakeEars(), SlowOutlet(), FakeListening()
        self.pauses: list[float] = []
        places = tuple(Place("fake", "guild", channel) for channel in channels)
        self.ears.gap = Missed(
            since=START, places=places, most_places=most_places, most_messages=50
        )
        self.catch_up = CatchUp(
            self.listening,
            self.outlet,
            self.ears,
            pause_seconds=2,
            mark_seconds=0.01,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def put(self, channel: str, text: str, **changes: object) -> None:
        number = len(self.outlet.past) + 1
        message = PastMessage(
            event_id=f"e{number}",
            place=Place("fake", "guild", channel, message=str(number)),
            author=ALICE,
            author_name="alice",
            text=text,
            sent_at=START + timedelta(seconds=number),
            addressed=True,
        )
        self.outlet.past.append(replace(message, **changes))  # type: ignore[arg-type]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = Tasks()
        tasks.start(self.catch_up.run(), name="catch up")
        try:
            yield
        finally:
            await tasks.close()

    async def marked(self, more: int = 1) -> None:
        """Wait until it is recorded so many more times that the platform is heard."""
        wanted = len(self.ears.listeners) + more
        await self.ears.until(lambda: len(self.ears.listeners) >= wanted, "a mark")


async def test_what_is_for_the_bot_is_handed_on_in_order_and_the_rest_is_not() -> None:
    scene = Scene("new", "quiet", "old")
    scene.put("old", "one")
    scene.put("new", "two")
    scene.put("new", "for nobody", addressed=False)
    scene.put("new", "of a bot", by_bot=True)
    scene.put("new", "three")
    scene.put("quiet", "never read")

    async with scene.running():
        await scene.marked()

    assert scene.listening.heard == ["two", "three", "one"]
    assert scene.outlet.reads == ["new", "old"]
    assert scene.pauses == [2]


async def test_only_so_many_places_are_read_and_the_log_names_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene("a", "b", "c", "d", most_places=2)
    scene.outlet.refusals["b"] = [DeliveryError("Gone.", permanent=True)]

    async with scene.running():
        await scene.marked()

    assert scene.outlet.reads == ["a", "b"]
    assert "were not read: guild/c, guild/d, guild/b" in caplog.text


async def test_a_place_is_read_once_more_after_the_pause_that_the_platform_asks_for() -> None:
    scene = Scene("a", "b")
    scene.put("a", "one")
    scene.outlet.refusals["a"] = [DeliveryError("Busy.", retry_after_seconds=30)]

    async with scene.running():
        await scene.marked()

    assert scene.listening.heard == ["one"]
    assert scene.outlet.reads == ["a", "a", "b"]
    assert scene.pauses == [30, 2]


async def test_the_database_out_of_reach_makes_it_start_again_and_nothing_is_marked_before() -> (
    None
):
    scene = Scene("a")
    scene.put("a", "one")
    scene.listening.failure = DatabaseUnreachableError("Down.")

    async with scene.running():
        await scene.marked()

    assert scene.listening.heard == ["one"]
    assert scene.outlet.reads == ["a", "a"]


async def test_it_reads_again_after_a_lost_connection_and_after_a_session_not_resumed() -> None:
    scene = Scene("a")
    async with scene.running():
        await scene.marked(3)
        assert scene.outlet.reads == ["a"]
        scene.catch_up.missed()
        await scene.marked(3)
        assert scene.outlet.reads == ["a", "a"]
        scene.listening.is_connected = False
        while True:
            known = len(scene.ears.listeners)
            await asyncio.sleep(0.05)
            if len(scene.ears.listeners) == known:
                break
        scene.listening.is_connected = True
        await scene.marked()

    assert scene.outlet.reads == ["a", "a", "a"]


async def test_one_message_that_cannot_be_handled_does_not_stop_the_others() -> None:
    scene = Scene("a", "b")
    scene.put("a", "broken")
    scene.put("b", "two")
    scene.listening.failure = KeyError("a bug")

    async with scene.running():
        await scene.marked()

    assert scene.listening.heard == ["two"]
