"""The newest value wins, one send at a time, not too often."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.conversations.announcements import SEND_SECONDS
from bot.errors import DeliveryError
from bot.platforms.messaging.pacing import QUEUE_SECONDS, Paced, Queues, Spacing
from bot.tasks import Tasks

PATIENCE = 5.0


class Time:
    """A clock that only sleeping moves, and that remembers when what happened."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Gate:
    """A pace whose turns the test grants."""

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self._turns = asyncio.Semaphore(0)
        self._asked = asyncio.Event()

    async def wait(self, *, final: bool) -> None:
        self.asked.append(final)
        self._asked.set()
        await self._turns.acquire()

    def grant(self) -> None:
        self._turns.release()

    async def is_asked(self, times: int = 1) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.asked) < times:
                self._asked.clear()
                await self._asked.wait()


class Wire:
    """A send that takes as long as the test says."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.arrived: list[str] = []
        self.held: set[str] = set()
        self.failing: dict[str, Exception] = {}
        self._changed = asyncio.Event()

    async def __call__(self, value: str) -> None:
        self.begun.append(value)
        self._changed.set()
        await self.until(lambda: value not in self.held)
        if value in self.failing:
            raise self.failing[value]
        self.arrived.append(value)
        self._changed.set()

    def release(self, value: str) -> None:
        self.held.discard(value)
        self._changed.set()

    async def until(self, condition: object) -> None:
        assert callable(condition)
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    owner = Tasks()
    yield owner
    await owner.close()


def paced(wire: Wire, tasks: Tasks, pace: Gate | Spacing | None = None) -> Paced[str]:
    return Paced(wire, pace or Spacing(0.0), tasks, name="test")


async def test_the_first_value_is_sent_at_once(wire: Wire, tasks: Tasks) -> None:
    time = Time()

    paced(wire, tasks, Spacing(60.0, now=time, sleep=time.sleep)).put("one")
    await wire.until(lambda: wire.arrived == ["one"])

    assert time.slept == []


async def test_of_the_values_that_wait_only_the_newest_is_sent(
    wire: Wire, tasks: Tasks, gate: Gate
) -> None:
    sender = paced(wire, tasks, gate)
    for value in ("one", "two", "three"):
        sender.put(value)
    gate.grant()
    await wire.until(lambda: bool(wire.arrived))

    assert wire.begun == ["three"]


async def test_nothing_is_sent_while_a_send_is_under_way(wire: Wire, tasks: Tasks) -> None:
    wire.held.add("one")
    sender = paced(wire, tasks)
    sender.put("one")
    await wire.until(lambda: wire.begun == ["one"])
    sender.put("two")
    sender.put("three")
    await asyncio.sleep(0)
    assert wire.begun == ["one"]

    wire.release("one")
    await wire.until(lambda: wire.arrived == ["one", "three"])

    assert wire.begun == ["one", "three"]


async def test_sends_start_so_many_seconds_apart(wire: Wire, tasks: Tasks) -> None:
    time = Time()
    sender = paced(wire, tasks, Spacing(1.5, now=time, sleep=time.sleep))
    sender.put("one")
    await wire.until(lambda: wire.arrived == ["one"])
    time.now += 0.5
    sender.put("two")
    await wire.until(lambda: wire.arrived == ["one", "two"])
    time.now += 2.0
    sender.put("three")
    await wire.until(lambda: len(wire.arrived) == 3)

    assert time.slept == [1.0]


async def test_a_failure_is_logged_and_the_next_value_is_sent(
    wire: Wire, tasks: Tasks, caplog: pytest.LogCaptureFixture
) -> None:
    wire.failing["one"] = ConnectionError("the wire is cut")
    sender = paced(wire, tasks)
    sender.put("one")
    await wire.until(lambda: wire.begun == ["one"])
    sender.put("two")
    await wire.until(lambda: wire.arrived == ["two"])

    assert "the wire is cut" in caplog.text


async def test_after_a_permanent_refusal_nothing_is_sent(wire: Wire, tasks: Tasks) -> None:
    wire.failing = {
        "one": DeliveryError("Not now."),
        "two": DeliveryError("Never.", permanent=True),
    }
    sender = paced(wire, tasks)
    for value in ("one", "two", "three"):
        sender.put(value)
        await tasks.wait_idle(PATIENCE)

    assert wire.begun == ["one", "two"]
    assert sender.refused


async def test_the_last_send_does_not_wait_for_the_pace() -> None:
    time = Time()
    spacing = Spacing(1.5, now=time, sleep=time.sleep)
    await spacing.wait(final=False)
    await spacing.wait(final=True)

    assert time.slept == []


async def test_after_closing_nothing_is_sent(wire: Wire, tasks: Tasks) -> None:
    wire.held.add("one")
    sender = paced(wire, tasks)
    sender.put("one")
    await wire.until(lambda: wire.begun == ["one"])
    sender.put("two")
    closing = asyncio.ensure_future(sender.close())
    wire.release("one")
    await closing
    sender.put("three")
    await tasks.wait_idle(PATIENCE)

    assert wire.begun == wire.arrived == ["one"]


async def test_closing_gives_up_what_is_in_flight_for_too_long(wire: Wire, tasks: Tasks) -> None:
    wire.held.add("one")
    sender = paced(wire, tasks)
    sender.put("one")
    await wire.until(lambda: wire.begun == ["one"])

    await sender.close(seconds=0.0)
    await tasks.wait_idle(PATIENCE)
    wire.release("one")

    assert wire.arrived == []
    assert len(tasks) == 0


async def test_closing_what_never_sent_is_nothing(wire: Wire, tasks: Tasks) -> None:
    await paced(wire, tasks).close()

    assert wire.begun == []


async def test_values_that_come_later_find_a_new_send(wire: Wire, tasks: Tasks) -> None:
    sender = paced(wire, tasks)
    sender.put("one")
    await tasks.wait_idle(PATIENCE)
    sender.put("two")
    await tasks.wait_idle(PATIENCE)

    assert wire.arrived == ["one", "two"]


async def test_who_waits_too_long_behind_others_was_not_sent_and_the_next_gets_its_turn() -> None:
    queues = Queues(seconds=0.01)
    async with queues.lock("room"):
        async with queues.lock("elsewhere"):
            pass
        with pytest.raises(DeliveryError) as caught:
            async with queues.lock("room"):
                pytest.fail("It is another's turn.")

    assert not caught.value.fate_unknown
    assert not caught.value.permanent
    assert QUEUE_SECONDS < SEND_SECONDS
    async with queues.lock("room"):
        pass
