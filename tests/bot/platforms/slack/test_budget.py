"""A workspace is asked for so much in a minute and no more, and what matters goes first."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.platforms.messaging.pacing import Spacing
from bot.platforms.slack.budget import (
    BURST,
    EDITS_PER_MINUTE,
    GROWTHS_PER_MINUTE,
    RESERVED,
    STREAMS_PER_MINUTE,
    BudgetedPace,
    RequestBudget,
    WorkspaceBudgets,
)


class Time:
    """A clock that only sleeping moves: to the next moment that somebody sleeps for."""

    def __init__(self) -> None:
        self.now = 100.0
        self._alarms: list[tuple[float, asyncio.Event]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        rings = asyncio.Event()
        self._alarms.append((self.now + seconds, rings))
        await rings.wait()

    async def run(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self.now + seconds
        while True:
            for _ in range(20):
                await asyncio.sleep(0)
            due = [alarm for alarm in self._alarms if alarm[0] <= end]
            if not due:
                break
            moment = min(at for at, _ in due)
            self.now = max(self.now, moment)
            self._alarms = [alarm for alarm in self._alarms if alarm[0] > moment]
            for at, rings in due:
                if at == moment:
                    rings.set()
        self.now = end


class Line:
    """People who wait to send, and who sent when."""

    def __init__(self, per_minute: float = EDITS_PER_MINUTE) -> None:
        self.time = Time()
        self.budget = RequestBudget(per_minute, now=self.time, sleep=self.time.sleep)
        self.went: list[tuple[str, float]] = []
        self.tasks: list[asyncio.Task[None]] = []

    def wait(self, name: str, *, urgent: Callable[[], bool] = lambda: False) -> None:
        async def send() -> None:
            await self.budget.wait(urgent=urgent)
            self.went.append((name, self.time.now))

        self.tasks.append(asyncio.create_task(send()))  # noqa: TID251

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.went]


async def test_after_a_quiet_time_a_few_go_at_once_and_some_are_kept() -> None:
    line = Line()
    for number in range(20):
        line.wait(str(number))
    await line.time.run(0)

    assert line.names == [str(number) for number in range(BURST - RESERVED)]
    for task in line.tasks:
        task.cancel()


async def test_what_is_urgent_goes_first_at_once() -> None:
    line = Line()
    for number in range(20):
        line.wait(str(number))
    await line.time.run(0)
    line.wait("the end", urgent=lambda: True)
    await line.time.run(0)

    assert line.names[-1] == "the end"
    for task in line.tasks:
        task.cancel()


async def test_what_becomes_urgent_while_it_waits_goes_first() -> None:
    line = Line()
    over: list[bool] = []
    for number in range(20):
        line.wait(str(number))
    line.wait("the last", urgent=lambda: bool(over))
    await line.time.run(0)
    over.append(True)
    await line.time.run(1)

    assert "the last" in line.names
    assert len(line.names) <= BURST
    for task in line.tasks:
        task.cancel()


async def test_all_get_their_turn_in_order() -> None:
    line = Line()
    for number in range(30):
        line.wait(str(number))
    await line.time.run(60)

    assert line.names == [str(number) for number in range(30)]


async def test_who_gives_up_is_not_waited_for() -> None:
    line = Line()
    for number in range(10):
        line.wait(str(number))
    await line.time.run(0)
    line.tasks[5].cancel()
    await line.time.run(60)

    assert line.names == [str(number) for number in range(10) if number != 5]


@given(arrivals=st.lists(st.tuples(st.floats(0, 20), st.booleans()), min_size=1, max_size=150))
@settings(max_examples=25, deadline=None)
def test_no_minute_sees_more_than_slack_takes(arrivals: list[tuple[float, bool]]) -> None:
    async def play() -> list[float]:
        line = Line()
        for pause, urgent in arrivals:
            line.wait("someone", urgent=lambda urgent=urgent: urgent)  # type: ignore[misc]
            await line.time.run(pause)
        await line.time.run(600)
        return [at for _, at in line.went]

    times = asyncio.run(play())

    assert len(times) == len(arrivals)
    for start in times:
        assert len([at for at in times if start <= at < start + 60]) <= 50


@pytest.mark.parametrize("urgent", [True, False])
@pytest.mark.parametrize(
    ("per_minute", "most"),
    [(EDITS_PER_MINUTE, 50), (GROWTHS_PER_MINUTE, 100), (STREAMS_PER_MINUTE, 20)],
)
async def test_a_crowd_is_let_through_as_fast_as_slack_takes_it(
    per_minute: int, most: int, *, urgent: bool
) -> None:
    line = Line(per_minute)
    for number in range(3 * most):
        line.wait(str(number), urgent=lambda: urgent)
    await line.time.run(60)

    assert per_minute <= len(line.names) <= most
    await line.time.run(600)
    assert len(line.names) == 3 * most


async def test_now_or_never_takes_what_is_left() -> None:
    line = Line(60)

    assert [line.budget.take_now() for _ in range(BURST + 1)] == [True] * BURST + [False]

    await line.time.run(1)

    assert line.budget.take_now()


async def test_every_workspace_has_a_budget_of_its_own() -> None:
    budgets = WorkspaceBudgets()

    assert budgets.edits["T1"] is budgets.edits["T1"]
    assert budgets.edits["T1"] is not budgets.edits["T2"]
    assert budgets.edits["T1"] is not budgets.growths["T1"]


@pytest.mark.parametrize("final", [True, False])
async def test_a_share_waits_for_its_spacing_and_its_budget(*, final: bool) -> None:
    line = Line()
    spacing = Spacing(3.0, now=line.time, sleep=line.time.sleep)
    share = BudgetedPace(lambda: (spacing, line.budget))
    for _ in range(BURST):
        line.budget.take_now()

    async def twice() -> list[float]:
        at = []
        for _ in range(2):
            await share.wait(final=final)
            at.append(line.time.now)
        return at

    task = asyncio.create_task(twice())  # noqa: TID251
    await line.time.run(60)
    first, second = task.result()

    assert first >= 100 + (1 if final else 1 + RESERVED) * 60 / EDITS_PER_MINUTE - 0.01
    assert second - first >= 1


async def test_what_takes_nothing_from_a_budget_does_not_wait_for_it() -> None:
    line = Line()
    while line.budget.take_now():
        pass
    share = BudgetedPace(lambda: (Spacing(0.0), None))

    async with asyncio.timeout(10):
        await share.wait(final=False)
