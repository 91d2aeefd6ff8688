"""Work without an event for too long is interrupted; waits are no silence."""

import asyncio
from dataclasses import dataclass
from math import inf

import pytest

from bot.agent.activity import STALLED_REPORT_SECONDS, Activity


@dataclass
class Clock:
    """A monotonic clock that a test moves."""

    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("total", "longest"), [(100, 50), (600, 300), (900, 450), (6 * 3600, 450), (24 * 3600, 450)]
)
def test_the_longest_silence_is_half_of_the_time_and_at_most_450_seconds(
    total: float, longest: float
) -> None:
    clock = Clock()
    activity = Activity(total, monotonic=clock)

    clock.seconds += longest - 1
    before = activity.silent_for()
    clock.seconds += 2

    assert before < 0 < activity.silent_for()


async def silent(activity: Activity) -> bool:
    """Return True if work that begins nothing is interrupted now."""
    try:
        async with asyncio.timeout(None) as scope:
            interrupt = activity.interrupt_if_silent
            # The block itself is an event: what was before it is lost otherwise.
            activity._scope = scope
            if not interrupt():
                return False
            await asyncio.Event().wait()
    except TimeoutError:
        return activity.stalled
    return False


async def test_an_event_begins_the_silence_anew() -> None:
    clock = Clock()
    activity = Activity(100, monotonic=clock)

    clock.seconds += 49
    activity.note()
    clock.seconds += 49
    quiet = await silent(activity)
    clock.seconds += 2

    assert not quiet
    assert await silent(activity)


async def test_a_tool_may_be_silent_for_its_timeout_and_a_minute() -> None:
    clock = Clock()
    activity = Activity(100, monotonic=clock)

    with activity.tool(300):
        clock.seconds += 359
        within = await silent(activity)
        clock.seconds += 2
        beyond = await silent(activity)

    assert (within, beyond) == (False, True)


async def test_the_longest_of_several_tools_counts() -> None:
    clock = Clock()
    activity = Activity(100, monotonic=clock)

    with activity.tool(300), activity.tool(30):
        clock.seconds += 100
        assert not await silent(activity)


async def test_a_wait_for_a_user_is_no_silence() -> None:
    clock, waits = Clock(), [True]
    activity = Activity(100, waits=lambda: waits[0], monotonic=clock)

    clock.seconds += 1_000
    during = await silent(activity)
    waits[0] = False
    clock.seconds += 49
    after = await silent(activity)
    clock.seconds += 2

    assert (during, after) == (False, False)
    assert await silent(activity)


@pytest.mark.parametrize("seconds", [600.0, inf])
async def test_a_wait_for_a_provider_is_no_silence(seconds: float) -> None:
    clock = Clock()
    activity = Activity(100, monotonic=clock)

    activity.note_wait(seconds)
    clock.seconds += 640
    during = await silent(activity)
    activity.note()
    clock.seconds += 51

    assert not during
    assert await silent(activity)


async def test_an_event_of_a_delegated_run_is_one_of_the_work_that_waits() -> None:
    clock = Clock()
    turn = Activity(100, monotonic=clock)
    run = Activity(100, around=turn, monotonic=clock)

    clock.seconds += 40
    run.note()
    clock.seconds += 40

    assert not await silent(turn)


async def test_it_is_interrupted_once_and_only_at_work() -> None:
    clock = Clock()
    activity = Activity(100, monotonic=clock)
    clock.seconds += 1_000

    outside = activity.interrupt_if_silent()
    first = await silent(activity)

    assert (outside, first) == (False, True)
    assert not activity.interrupt_if_silent()
    assert STALLED_REPORT_SECONDS == 120
