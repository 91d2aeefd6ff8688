"""The working time of a run: earlier attempts count, and some is set aside for the last step."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.budget import RESERVED_SECONDS, WorkClock


class Monotonic:
    """A clock that nobody sets; it goes on when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def monotonic() -> Monotonic:
    return Monotonic()


def test_time_goes_by(monotonic: Monotonic) -> None:
    clock = WorkClock(100, monotonic=monotonic)
    assert (clock.used(), clock.fraction, clock.left(), clock.hard_left()) == (0, 0, 85, 100)

    monotonic.seconds += 68
    assert (clock.used(), clock.left(), clock.hard_left()) == (68, 17, 32)
    assert clock.fraction == pytest.approx(0.8)


def test_what_earlier_attempts_used_is_counted(monotonic: Monotonic) -> None:
    clock = WorkClock(100, 40, monotonic=monotonic)
    monotonic.seconds += 10

    assert (clock.used(), clock.left(), clock.hard_left()) == (50, 35, 50)


def test_the_last_step_gets_half_a_minute_at_most(monotonic: Monotonic) -> None:
    clock = WorkClock(600, monotonic=monotonic)

    assert clock.left() == 600 - RESERVED_SECONDS


def test_past_its_end_a_run_has_no_time_left(monotonic: Monotonic) -> None:
    clock = WorkClock(100, monotonic=monotonic)
    monotonic.seconds += 130

    assert clock.left() < 0
    assert clock.hard_left() == 0
    assert clock.fraction > 1


@given(st.floats(1, 36_000), st.floats(0, 40_000))
def test_the_last_step_always_begins_before_the_end(total: float, used: float) -> None:
    clock = WorkClock(total, used, monotonic=Monotonic())

    assert clock.left() < clock.hard_left() or clock.hard_left() == 0
    assert (clock.fraction < 1) == (clock.left() > 0) or clock.left() == pytest.approx(0, abs=1e-3)


def test_the_clock_stands_still_while_a_user_is_waited_for(monotonic: Monotonic) -> None:
    clock = WorkClock(100, monotonic=monotonic)
    monotonic.seconds += 10
    with clock.paused():
        monotonic.seconds += 500
        with clock.paused():
            monotonic.seconds += 500
            inside = (clock.used(), clock.left(), clock.hard_left())
        monotonic.seconds += 500
    monotonic.seconds += 5

    assert inside == (10, 75, 90)
    assert (clock.used(), clock.left(), clock.hard_left()) == (15, 70, 85)


async def test_what_cuts_the_work_off_waits_with_it() -> None:
    async with asyncio.timeout(10), asyncio.timeout(0.05) as limit:
        clock = WorkClock(0.05)
        clock.limit = limit
        with clock.paused():
            await asyncio.sleep(0.1)

    assert not limit.expired()


async def test_after_a_pause_the_work_is_cut_off_all_the_same() -> None:
    async def work() -> None:
        async with asyncio.timeout(0.05) as limit:
            clock = WorkClock(0.05)
            clock.limit = limit
            with clock.paused():
                pass
            await asyncio.Event().wait()

    async with asyncio.timeout(10):
        with pytest.raises(TimeoutError):
            await work()


async def test_a_lower_limit_counts_for_work_under_way_and_a_higher_one_does_not() -> None:
    clock = WorkClock(600)
    async with asyncio.timeout(clock.hard_left()) as clock.limit:
        clock.lower(900)
        assert clock.total == 600
        clock.lower(60)
        due = clock.limit.when()
        await asyncio.sleep(0)

    assert clock.total == 60
    assert due is not None
    assert due <= asyncio.get_running_loop().time() + 60
    assert clock.left() < 60
