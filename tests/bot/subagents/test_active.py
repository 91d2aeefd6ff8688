"""The runs at work in this process: stopped, drained, and told that there is mail."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.subagents.active import ActiveRun, ActiveRuns, CancelReason, RunInbox
from bot.subagents.requests import PRIVATE
from bot.tasks import Tasks
from bot.values import Identity
from db import run_messages, runs
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet, store_run


class AtWork:
    """Runs that go on until they are cancelled."""

    def __init__(self, tasks: Tasks) -> None:
        self.active = ActiveRuns()
        self._tasks = tasks

    async def begin(self, run_id: str) -> ActiveRun:
        begun = asyncio.Event()

        async def work() -> None:
            entered = self.active.enter(run_id)
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.active.leave(run_id, entered)

        self._tasks.start(work(), name=run_id)
        await begun.wait()
        return self.active.by_id[run_id]


@pytest.fixture
async def at_work() -> AsyncIterator[AtWork]:
    tasks = Tasks()
    yield AtWork(tasks)
    await tasks.close()


async def ended(run: ActiveRun) -> None:
    async with asyncio.timeout(5):
        await asyncio.wait({run.task})
    assert run.task.cancelled()


async def test_a_run_is_stopped_at_once_and_only_that_one(at_work: AtWork) -> None:
    one, other = await at_work.begin("one"), await at_work.begin("other")

    assert at_work.active.stop("one")
    await ended(one)

    assert one.reason is CancelReason.STOPPED
    assert not other.task.done()
    assert list(at_work.active.by_id) == ["other"]


async def test_a_run_that_is_not_at_work_here_cannot_be_stopped_here(at_work: AtWork) -> None:
    assert not at_work.active.stop("elsewhere")


async def test_draining_leaves_all_runs_to_another_process(at_work: AtWork) -> None:
    runs = [await at_work.begin("one"), await at_work.begin("other")]

    assert at_work.active.drain() == [run.task for run in runs]
    for run in runs:
        await ended(run)
        assert run.reason is CancelReason.DRAINING


async def test_the_first_reason_to_cancel_stays(at_work: AtWork) -> None:
    run = await at_work.begin("one")

    at_work.active.stop("one")
    at_work.active.drain()
    await ended(run)

    assert run.reason is CancelReason.STOPPED


async def test_a_newer_attempt_is_not_taken_out_by_the_one_before_it(at_work: AtWork) -> None:
    older = await at_work.begin("one")
    newer = await at_work.begin("one")

    at_work.active.leave("one", older)

    assert at_work.active.by_id == {"one": newer}
    older.task.cancel()


async def test_the_inbox_looks_for_mail_when_it_is_told_to_and_then_once(
    at_work: AtWork, database: Database, clock: FakeClock, alice: Identity
) -> None:
    await meet(database, alice, clock())
    run_id = await store_run(database, alice, clock())
    run = await at_work.begin(run_id)
    inbox = RunInbox(database, run_id, run)
    async with database.transaction() as tx:
        await run_messages.add(tx, message_id="m1", run_id=run_id, text="Hurry.", now=clock())
    assert await inbox.take() == (), "nobody said that there is mail"

    at_work.active.notify_of_message(run_id)
    at_work.active.notify_of_message("elsewhere")

    assert await inbox.take() == [("m1", "Hurry.")]
    assert await inbox.take() == ()


async def test_a_message_with_private_material_makes_the_run_private_when_it_is_taken(
    at_work: AtWork, database: Database, clock: FakeClock, alice: Identity
) -> None:
    await meet(database, alice, clock())
    run_id = await store_run(database, alice, clock())
    run = await at_work.begin(run_id)
    inbox = RunInbox(database, run_id, run)
    async with database.transaction() as tx:
        current = await runs.hold(tx, run_id)
        assert current is not None
        await runs.add_metadata(tx, current, {PRIVATE: True})
    before = inbox.private

    at_work.active.notify_of_message(run_id)
    await inbox.take()

    assert (before, inbox.private) == (False, True)
