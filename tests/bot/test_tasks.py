"""The owner of tasks: each fails alone, is heard of, and is cancelled at the end."""

import asyncio
import contextvars

import pytest

from bot.tasks import Tasks

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


async def test_a_task_gives_its_result_and_is_forgotten() -> None:
    tasks = Tasks()

    async def count() -> int:
        return 12

    task = tasks.start(count(), name="count")
    assert (len(tasks), task.get_name()) == (1, "count")
    await tasks.wait_idle(5)

    assert task.result() == 12
    assert len(tasks) == 0


async def test_a_task_that_fails_is_logged_and_hurts_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = Tasks()
    go_on = asyncio.Event()

    async def fail() -> None:
        raise RuntimeError("no sheep here")

    broken = tasks.start(fail(), name="count")
    other = tasks.start(go_on.wait(), name="wait")
    await asyncio.wait({broken})

    assert not other.done()
    assert "The task count failed" in caplog.text
    assert "no sheep here" in caplog.text
    go_on.set()
    await tasks.wait_idle(5)
    assert other.result() is True


async def test_closing_cancels_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()
    hung = tasks.start(asyncio.Event().wait(), name="hang")

    async with asyncio.timeout(5):
        await tasks.close()

    assert hung.cancelled()
    assert caplog.text == ""


async def test_closing_lets_brief_tasks_end_and_cancels_those_that_do_not() -> None:
    tasks, begun, cancelled = Tasks(), asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    tasks.start(hang(), name="hang")
    ends = tasks.start(cancelled.wait(), name="end with the other", brief=True)
    stays = tasks.start(asyncio.Event().wait(), name="stay", brief=True)
    await begun.wait()
    async with asyncio.timeout(5):
        await tasks.close()

    assert ends.result() is True
    assert stays.cancelled()


async def test_closing_leaves_behind_and_names_what_ignores_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = Tasks()
    begun, released = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        begun.set()
        try:
            await released.wait()
        except asyncio.CancelledError:
            await released.wait()

    tasks.start(stubborn(), name="mule")
    await begun.wait()
    async with asyncio.timeout(5):
        await tasks.close(0.01)

    assert "The task mule ignores being cancelled; it is left behind" in caplog.text
    released.set()
    await tasks.wait_idle(5)
    assert len(tasks) == 0


async def test_waiting_for_nothing_returns_at_once() -> None:
    async with asyncio.timeout(5):
        await Tasks().wait_idle(60)


@pytest.mark.parametrize(("fresh", "seen"), [(False, "alice"), (True, "nobody")])
async def test_a_task_may_carry_nothing_over(fresh: bool, seen: str) -> None:
    tasks = Tasks()
    NAME.set("alice")

    async def who() -> str:
        return NAME.get()

    task = tasks.start(who(), name="who", fresh_context=fresh)
    await tasks.wait_idle(5)

    assert task.result() == seen


async def test_what_is_to_happen_later_happens_once_and_not_after_the_end() -> None:
    tasks = Tasks()
    happened: list[str] = []

    tasks.later(0.0, lambda: happened.append("soon"), name="soon")
    await tasks.wait_idle(5)
    tasks.later(60.0, lambda: happened.append("never"), name="never")
    await tasks.close(5)

    assert happened == ["soon"]
    assert len(tasks) == 0
