"""What was missed is read after each gap: latest places first, once, at the platform's pace."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.errors import DatabaseUnreachableError, DeliveryError
from bot.platforms.messages import Attachment, Missed, PastMessage, Quoted
from bot.platforms.messaging.catch_up import LEFT_OUT, MOST_CONTEXT, CatchUp
from bot.tasks import Tasks
from bot.values import Identity, Place
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.outlet import FakeOutlet

START = datetime(2026, 11, 22, 12, tzinfo=UTC)
ALICE = Identity("fake", "", "alice")


class FakeListening:
    """A connection that the test opens and closes."""

    listener = "fake"

    def __init__(self) -> None:
        self.is_connected = True
        self.heard: list[str] = []
        self.quoted: list[tuple[Quoted, ...]] = []
        self.failure: Exception | None = None

    async def connected(self) -> bool:
        return self.is_connected

    def with_news(self, places: Sequence[Place], since: datetime) -> list[Place]:
        return [place for place in places if place.channel != "quiet"]

    async def receive_missed(self, message: PastMessage) -> bool:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.heard.append(message.text)
        self.quoted.append(message.quoted)
        return bool(message.text) and not message.text.startswith("/")


class SlowOutlet(FakeOutlet):
    """An outlet that refuses to read some places."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.refusals: dict[str, list[Exception]] = {}

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        self.reads.append(place.channel)
        if self.refusals.get(place.channel):
            raise self.refusals[place.channel].pop(0)
        return await super().history(place, after, limit, opening=opening)


class Scene:
    """A catch-up with a fake on every side."""

    def __init__(self, *channels: str, most_places: int = 10) -> None:
        self.inbound, self.outlet, self.listening = (
            FakeInboundHandler(),
            SlowOutlet(),
            FakeListening(),
        )
        self.pauses: list[float] = []
        places = tuple(Place("fake", "guild", channel) for channel in channels)
        self.inbound.gap = Missed(
            since=START - timedelta(minutes=2),
            heard_at=START,
            places=places,
            most_places=most_places,
            most_messages=50,
        )
        self.catch_up = CatchUp(
            self.listening,
            self.outlet,
            self.inbound,
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
        wanted = len(self.inbound.listeners) + more
        await self.inbound.until(lambda: len(self.inbound.listeners) >= wanted, "a mark")


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


async def test_of_a_place_only_the_newest_messages_are_read() -> None:
    scene = Scene("a")
    for number in range(60):
        scene.put("a", str(number))

    async with scene.running():
        await scene.marked()

    assert scene.listening.heard == [str(number) for number in range(10, 60)]


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
            known = len(scene.inbound.listeners)
            await asyncio.sleep(0.05)
            if len(scene.inbound.listeners) == known:
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


async def said_before(scene: Scene) -> list[str]:
    """Let the place be read; return what each message that was handed on brought along."""
    async with scene.running():
        await scene.marked()
    assert all(each.kind == "said_before" for quoted in scene.listening.quoted for each in quoted)
    return ["\n".join(each.text for each in quoted) for quoted in scene.listening.quoted]


async def test_what_was_said_before_a_message_comes_with_it_once() -> None:
    scene = Scene("a", "b")
    scene.put("a", "Ship it?", addressed=False, author_name="bob")
    scene.put("a", "Build 7 failed", addressed=False, by_bot=True, author_name="")
    scene.put("a", "I am the bot", addressed=False, by_bot=True, own=True)
    scene.put("a", "why?")
    scene.put("a", "and now?")
    scene.put("a", "a log\nalice (12:00): ship it", addressed=False, author_name="eve")
    scene.put("b", "elsewhere")
    scene.put("a", "who was that?")
    scene.put("a", "for the next call", addressed=False)

    assert await said_before(scene) == [
        "bob (2026-11-22 12:00 UTC): Ship it?\nan app (2026-11-22 12:00 UTC): Build 7 failed",
        "",
        "eve (2026-11-22 12:00 UTC): a log\n  alice (12:00): ship it",
        "",
    ]


async def test_forwards_and_names_of_files_said_before_come_along() -> None:
    async def read() -> bytes:
        return b""

    scene = Scene("a")
    file = Attachment(name="plan.pdf", media_type="", size=1, read=read)
    quoted = (Quoted("forwarded", "Pay now."),)
    scene.put("a", "", addressed=False, quoted=quoted, files=(file,))
    scene.put("a", "what is it?")

    assert await said_before(scene) == [
        "alice (2026-11-22 12:00 UTC): [forwarded] Pay now.\n  [file] plan.pdf"
    ]


async def test_a_command_or_an_empty_mention_leaves_what_was_said_to_the_next_message() -> None:
    scene = Scene("a")
    scene.put("a", "Ship it?", addressed=False)
    scene.put("a", "/subagents list")
    scene.put("a", "")
    scene.put("a", "why?")

    _, empty, question = await said_before(scene)

    assert empty == ""
    assert "Ship it?" in question


async def test_what_was_heard_before_the_gap_does_not_come_along() -> None:
    scene = Scene("a")
    scene.put("a", "heard", addressed=False, sent_at=START - timedelta(seconds=1))
    scene.put("a", "why?")

    assert await said_before(scene) == [""]


async def test_of_too_much_the_newest_comes_along_and_a_line_says_so() -> None:
    scene = Scene("a", "b")
    for number in range(10):
        scene.put("a", f"{number} " + "x" * 1_000, addressed=False)
    scene.put("a", "why?")
    scene.put("b", "y" * 20_000, addressed=False)
    scene.put("b", "why?")

    many, long = await said_before(scene)

    assert many.startswith(f"{LEFT_OUT}\nalice (2026-11-22 12:00 UTC): 5 x")
    assert "UTC): 9 x" in many
    assert long.startswith(f"{LEFT_OUT}\nalice (2026-11-22 12:00 UTC): yyy")
    assert max(len(many), len(long)) <= MOST_CONTEXT + len(LEFT_OUT) + 10


async def test_older_messages_are_compared_with_the_stored_ones_and_not_answered() -> None:
    scene = Scene("general")
    scene.put("general", "two days ago", sent_at=START - timedelta(days=2))
    scene.put("general", "an hour ago", sent_at=START - timedelta(hours=1))
    scene.put("general", "now")
    async with scene.running():
        await scene.marked()

    ((place, texts),) = scene.inbound.compared
    assert (place.channel, texts) == ("general", ["an hour ago", "now"])
    assert scene.listening.heard == ["now"]
