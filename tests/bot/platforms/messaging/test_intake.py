"""What every platform's hearing shares: once each, in order, and nobody told the same twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.platforms.base import CommandReply, Incoming
from bot.platforms.messaging.intake import (
    REMEMBERED,
    TELL_AGAIN_SECONDS,
    AccessRefusal,
    Deduplicator,
    MessageReceiver,
    ReceivedMessage,
)
from bot.tasks import Tasks
from bot.values import Identity, Place
from tests.fakes.inbound import FakeInboundHandler


class Watch:
    """A clock of seconds that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    owner = Tasks()
    yield owner
    await owner.close()


def test_what_came_already_is_known_however_long_ago() -> None:
    watch = Watch()
    deduplicator = Deduplicator(monotonic=watch)

    assert deduplicator.first(("message", 1))
    watch.now += 1e9
    assert not deduplicator.first(("message", 1))
    assert deduplicator.first(("interaction", 1))


def test_what_is_remembered_does_not_grow_without_end() -> None:
    deduplicator = Deduplicator()

    assert all(deduplicator.first(number) for number in range(REMEMBERED + 1))

    assert not deduplicator.first(REMEMBERED)
    assert not deduplicator.first(1)
    assert deduplicator.first(0)


def test_what_came_again_is_remembered_from_then_on() -> None:
    deduplicator = Deduplicator()
    for number in range(REMEMBERED):
        deduplicator.first(number)

    assert deduplicator.first(0, again_after=0)
    assert deduplicator.first("one more")

    assert not deduplicator.first(0)
    assert deduplicator.first(1)


async def test_settling_waits_for_whoever_is_being_seen_to_but_not_for_ever(tasks: Tasks) -> None:
    deduplicator = Deduplicator()
    may_end, begun = asyncio.Event(), asyncio.Event()

    async def admitted() -> None:
        with deduplicator.tracking():
            begun.set()
            await may_end.wait()

    visiting = tasks.start(admitted(), name="visit")
    async with asyncio.timeout(5):
        await begun.wait()
        await deduplicator.wait_idle(0.01)
        assert not visiting.done()
        waiting = tasks.start(deduplicator.wait_idle(5), name="wait")
        too_early, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not too_early
        may_end.set()
        await waiting

        assert visiting.done()
        await deduplicator.wait_idle(5)


async def test_whoever_fails_is_no_longer_waited_for(tasks: Tasks) -> None:
    deduplicator = Deduplicator()
    may_end = asyncio.Event()

    async def fail() -> None:
        with deduplicator.tracking():
            raise ValueError("a bug")

    async def stay() -> None:
        with pytest.raises(ValueError, match="a bug"):
            await fail()
        await may_end.wait()

    staying = tasks.start(stay(), name="stay")
    async with asyncio.timeout(5):
        await asyncio.sleep(0)
        await deduplicator.wait_idle(5)

        assert not staying.done()
    may_end.set()


# --- one after the other --------------------------------------------------------------------------


class Receiver(MessageReceiver[ReceivedMessage]):
    """Refuses every message, once a test lets the handling of the message end.

    Attributes:
        log: The beginnings and ends of the handling.
        held: The messages whose handling does not end yet.
        failing: The messages whose handling fails.
        told: The messages whose users were told of the refusal.
    """

    def __init__(self, tasks: Tasks, deduplicator: Deduplicator | None = None) -> None:
        super().__init__(FakeInboundHandler(), deduplicator or Deduplicator(), tasks)
        self.log: list[str] = []
        self.held: set[str] = set()
        self.failing: set[str] = set()
        self.told: list[str] = []
        self._changed = asyncio.Event()

    def take(self, name: str, user: str = "alice", channel: str = "c") -> asyncio.Task[None]:
        """Receive a message."""
        incoming = Incoming(
            event_id=name,
            user=Identity("fake", "", user),
            user_name=user,
            place=Place("fake", channel=channel),
            text="hello",
        )
        task = self.start(ReceivedMessage(incoming=incoming, queue=(user, channel)))
        assert task is not None
        return task

    def release(self, name: str) -> None:
        """Let the handling of a message end."""
        self.held.discard(name)
        self._changed.set()

    async def _fetched(self, incoming: Incoming) -> ReceivedMessage:
        return ReceivedMessage(incoming=incoming)

    async def _admit(self, message: ReceivedMessage) -> tuple[ReceivedMessage, AccessRefusal]:
        name = message.incoming.event_id
        self.log.append(f"{name} begins")
        while name in self.held:
            self._changed.clear()
            await self._changed.wait()
        if name in self.failing:
            raise ValueError("a bug")
        self.log.append(f"{name} ends")
        return message, AccessRefusal("No.")

    async def _answer(
        self, message: ReceivedMessage, reply: CommandReply, *, first: bool = False
    ) -> None:
        if reply.text == "No.":
            self.told.append(message.incoming.event_id)

    async def _show_settlement(self, message: ReceivedMessage, reply: CommandReply) -> None:
        """No message answers a question."""


async def test_a_refusal_is_told_once_an_hour_to_each_user_in_each_channel(tasks: Tasks) -> None:
    watch = Watch()
    receiver = Receiver(tasks, Deduplicator(monotonic=watch))

    async with asyncio.timeout(5):
        await receiver.take("first")
        watch.now += TELL_AGAIN_SECONDS - 1
        await receiver.take("again")
        await receiver.take("elsewhere", channel="d")
        await receiver.take("other user", user="bob")
        watch.now += 1
        await receiver.take("after an hour")
        watch.now += TELL_AGAIN_SECONDS - 1
        await receiver.take("soon after that")

    assert receiver.told == ["first", "elsewhere", "other user", "after an hour"]


async def test_messages_of_one_queue_are_handled_in_order(tasks: Tasks) -> None:
    receiver, names = Receiver(tasks), ["one", "two", "three"]
    receiver.held = set(names)

    started = [receiver.take(name) for name in names]
    async with asyncio.timeout(5):
        for name in reversed(names):
            await asyncio.sleep(0)
            receiver.release(name)
        await asyncio.wait(started)

    assert receiver.log == [f"{name} {what}" for name in names for what in ("begins", "ends")]


async def test_a_late_message_waits_for_the_one_in_progress(tasks: Tasks) -> None:
    receiver = Receiver(tasks)
    receiver.held = {"two"}

    async with asyncio.timeout(5):
        await receiver.take("one")
        receiver.take("two")
        last = receiver.take("three")
        await asyncio.wait([last], timeout=0.05)
        assert receiver.log[-1] == "two begins"
        receiver.release("two")
        await last

    assert receiver.log[-1] == "three ends"


async def test_one_queue_does_not_hold_up_another(tasks: Tasks) -> None:
    receiver = Receiver(tasks)
    receiver.held = {"slow"}

    receiver.take("slow")
    async with asyncio.timeout(5):
        await receiver.take("quick", user="bob")

    assert receiver.log[-1] == "quick ends"


async def test_after_a_failure_the_next_message_is_handled(
    tasks: Tasks, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver(tasks)
    receiver.failing = {"first"}

    receiver.take("first")
    async with asyncio.timeout(5):
        await receiver.take("second")

    assert receiver.log[-1] == "second ends"
    assert "The first could not be handled" in caplog.text


async def test_settling_waits_for_all_queued_messages(tasks: Tasks) -> None:
    deduplicator = Deduplicator()
    receiver = Receiver(tasks, deduplicator)
    receiver.held = {"one"}
    started = [receiver.take(name) for name in ("one", "two")]

    async with asyncio.timeout(5):
        await asyncio.sleep(0)
        waiting = tasks.start(deduplicator.wait_idle(5), name="wait")
        await asyncio.sleep(0)
        receiver.release("one")
        await waiting

    assert all(task.done() for task in started)


async def test_messages_behind_a_cancelled_one_still_wait_for_the_first(tasks: Tasks) -> None:
    receiver = Receiver(tasks)
    receiver.held = {"first"}
    receiver.take("first")
    cancelled, last = receiver.take("second"), receiver.take("third")

    async with asyncio.timeout(5):
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await asyncio.wait([last], timeout=0.05)

        assert receiver.log == ["first begins"]
        receiver.release("first")
        await last

    assert receiver.log == ["first begins", "first ends", "third begins", "third ends"]


async def test_an_empty_queue_is_forgotten(tasks: Tasks) -> None:
    receiver = Receiver(tasks)

    async with asyncio.timeout(5):
        await asyncio.wait([receiver.take("one"), receiver.take("two")])
        await asyncio.sleep(0)

    assert not receiver._queues._locks
