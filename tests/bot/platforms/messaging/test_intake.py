"""What every platform's hearing shares: once each, in order, and nobody told the same twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.platforms.messaging.intake import REMEMBERED, TELL_AGAIN_SECONDS, Deduplicator, KeyedQueue
from bot.tasks import Tasks


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


def test_a_refusal_is_worth_a_sentence_once_an_hour_for_each_person_and_channel() -> None:
    watch = Watch()
    deduplicator = Deduplicator(monotonic=watch)

    assert deduplicator.may_notify("11111", "30000")
    watch.now += TELL_AGAIN_SECONDS - 1
    assert not deduplicator.may_notify("11111", "30000")
    assert deduplicator.may_notify("11111", "30001")
    assert deduplicator.may_notify("11112", "30000")
    watch.now += 1
    assert deduplicator.may_notify("11111", "30000")
    watch.now += TELL_AGAIN_SECONDS - 1
    assert not deduplicator.may_notify("11111", "30000")


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
        await deduplicator.settle(0.01)
        assert not visiting.done()
        settling = tasks.start(deduplicator.settle(5), name="settle")
        too_early, _ = await asyncio.wait([settling], timeout=0.05)
        assert not too_early
        may_end.set()
        await settling

        assert visiting.done()
        await deduplicator.settle(5)


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
        await deduplicator.settle(5)

        assert not staying.done()
    may_end.set()


# --- one after the other --------------------------------------------------------------------------


class Work:
    """Something to be done, which ends when a test says so."""

    def __init__(self, log: list[str], name: str) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self._log, self._name = log, name

    async def __call__(self) -> str:
        self._log.append(f"{self._name} begins")
        self.begun.set()
        await self.may_end.wait()
        self._log.append(f"{self._name} ends")
        return self._name


async def test_what_stands_in_one_line_is_done_in_its_order(tasks: Tasks) -> None:
    lines, log = KeyedQueue(tasks, Deduplicator()), list[str]()
    works = [Work(log, name) for name in ("one", "two", "three")]

    started = [lines.start("alice", work(), name="work") for work in works]
    async with asyncio.timeout(5):
        await works[0].begun.wait()
        for work in reversed(works):
            work.may_end.set()
        names = [await task for task in started]

    assert names == ["one", "two", "three"]
    assert log == [f"{name} {what}" for name in names for what in ("begins", "ends")]


async def test_what_comes_late_stands_behind_what_still_goes_on(tasks: Tasks) -> None:
    lines, log = KeyedQueue(tasks, Deduplicator()), list[str]()
    one, two, three = (Work(log, name) for name in ("one", "two", "three"))
    one.may_end.set()
    three.may_end.set()

    for work in (one, two):
        lines.start("alice", work(), name="work")
    async with asyncio.timeout(5):
        await two.begun.wait()
        last = lines.start("alice", three(), name="work")
        await asyncio.wait([last], timeout=0.05)
        assert not three.begun.is_set()
        two.may_end.set()

        assert await last == "three"


async def test_one_line_does_not_hold_up_another(tasks: Tasks) -> None:
    lines, log = KeyedQueue(tasks, Deduplicator()), list[str]()
    slow, quick = Work(log, "slow"), Work(log, "quick")
    quick.may_end.set()

    lines.start("alice", slow(), name="slow")
    async with asyncio.timeout(5):
        assert await lines.start("bob", quick(), name="quick") == "quick"

    assert "slow ends" not in log


async def test_after_a_failure_the_next_in_line_has_its_turn(
    tasks: Tasks, caplog: pytest.LogCaptureFixture
) -> None:
    lines, log = KeyedQueue(tasks, Deduplicator()), list[str]()
    after = Work(log, "after")
    after.may_end.set()

    async def fail() -> None:
        raise ValueError("a bug")

    lines.start("alice", fail(), name="first")
    async with asyncio.timeout(5):
        assert await lines.start("alice", after(), name="second") == "after"

    assert "The task first failed" in caplog.text


async def test_settling_waits_for_all_that_stands_in_line(tasks: Tasks) -> None:
    deduplicator, log = Deduplicator(), list[str]()
    lines = KeyedQueue(tasks, deduplicator)
    works = [Work(log, "one"), Work(log, "two")]
    started = [lines.start("alice", work(), name="work") for work in works]

    async with asyncio.timeout(5):
        await works[0].begun.wait()
        settling = tasks.start(deduplicator.settle(5), name="settle")
        for work in works:
            work.may_end.set()
        await settling

    assert all(task.done() for task in started)


async def test_what_never_has_its_turn_is_closed_without_a_warning(tasks: Tasks) -> None:
    lines, log = KeyedQueue(tasks, Deduplicator()), list[str]()
    first, second = Work(log, "first"), Work(log, "second")
    lines.start("alice", first(), name="first")
    waiting = lines.start("alice", second(), name="second")

    async with asyncio.timeout(5):
        await first.begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])

    assert waiting.cancelled()
    assert log == ["first begins"]


async def test_a_line_that_is_empty_again_is_forgotten(tasks: Tasks) -> None:
    lines, log = KeyedQueue(tasks, Deduplicator()), list[str]()
    works = [Work(log, "one"), Work(log, "two")]
    for work in works:
        work.may_end.set()

    started = [lines.start("alice", work(), name="work") for work in works]
    async with asyncio.timeout(5):
        await asyncio.wait(started)
        await asyncio.sleep(0)

    assert not lines._newest
