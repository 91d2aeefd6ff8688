"""The longest block of an event loop, measured by a clock that the callbacks themselves move."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bot import loop_watch
from bot.config.model import Config
from bot.console import finish
from bot.loop_watch import (
    WINDOW_SECONDS,
    LoopBlock,
    LoopWatch,
    Result,
    WatchedLoop,
    longest_block,
    started,
)


class Seconds:
    """A clock that moves only by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def watch(clock: Seconds) -> LoopWatch:
    return LoopWatch(clock)


def run_on(watch: LoopWatch, work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=lambda: WatchedLoop(watch)) as runner:
        return runner.run(work)


def reckon(block: Callable[[], None]) -> None:
    """Call `block` from a function in a module of the bot."""
    module: dict[str, Any] = {"__name__": "bot.reckoning"}
    exec("def reckon(block):\n    block()\n", module)
    module["reckon"](block)


async def turned() -> None:
    """Let the loop come back to its selector."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def looked_at(watch: LoopWatch) -> None:
    """Let another thread look at the loop, in the middle of what blocks it."""
    thread = threading.Thread(target=watch.look)
    thread.start()
    thread.join()


def test_the_longest_block_is_measured_and_named(
    watch: LoopWatch, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    def block() -> None:
        clock.now += 0.3
        looked_at(watch)

    async def work() -> LoopBlock | None:
        started()
        clock.now += 0.02
        await turned()
        reckon(block)
        await turned()
        clock.now += 0.1
        await turned()
        return longest_block()

    longest = run_on(watch, work())

    assert longest is not None
    assert longest.seconds == pytest.approx(0.3)
    assert longest.where.startswith("bot.reckoning.reckon, line 2, called threading.")
    [warning] = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "blocked for 300 ms in bot.reckoning.reckon" in warning.getMessage()


@pytest.mark.parametrize(("seconds", "warned"), [(0.049, False), (0.051, True)])
def test_a_block_of_more_than_50_ms_is_logged_as_a_warning(
    watch: LoopWatch,
    clock: Seconds,
    caplog: pytest.LogCaptureFixture,
    *,
    seconds: float,
    warned: bool,
) -> None:
    async def work() -> None:
        started()
        clock.now += seconds
        await turned()

    run_on(watch, work())

    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert bool(warnings) == warned


def test_time_in_which_the_loop_waits_is_no_block() -> None:
    made, woke, done, woke_again, done_again = 0.0, 1.0, 1.25, 9.0, 9.0
    watch = LoopWatch(iter([made, woke, done, woke_again, done_again]).__next__)

    watch.select(0)
    watch.select(0)

    assert watch.longest == LoopBlock(0.25)


def test_blocks_of_the_start_are_neither_logged_nor_kept(
    watch: LoopWatch, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> LoopBlock | None:
        clock.now += 2
        await turned()
        # It ends in the middle of a callback.
        clock.now += 1
        started()
        await turned()
        return longest_block()

    assert run_on(watch, work()) == LoopBlock()
    assert not [each for each in caplog.records if each.levelno >= logging.INFO]


def test_an_old_block_is_forgotten(watch: LoopWatch, clock: Seconds) -> None:
    async def work() -> LoopBlock | None:
        started()
        clock.now += 0.2
        await turned()
        return longest_block()

    block = run_on(watch, work())

    assert block is not None
    assert block.seconds == pytest.approx(0.2)
    clock.now += WINDOW_SECONDS
    assert watch.longest == block
    clock.now += WINDOW_SECONDS
    assert watch.longest == LoopBlock()


def test_a_command_runs_on_a_loop_that_is_watched() -> None:
    async def work() -> bool:
        return longest_block() is not None

    assert finish(work(), Config(), loop_watch.run)
    assert not finish(work(), Config())
