"""A run that waits holds no slot; what cannot go on here ends the attempt, and not the run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from sqlalchemy import select

from bot.errors import DatabaseUnreachableError, DeliveryError, FencedError, LeftError
from bot.tasks import Tasks
from bot.values import Identity, RunStatus
from db import admission
from db.database import DatabaseSettings, Transaction
from db.runs import Run
from db.tables import subagent_runs
from skills import ask_user
from tests.fakes.asking import SLOTS, Asked, letter, until
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet, LateOutlet
from tests.fakes.watched_database import WatchedDatabase


class FarDatabase(WatchedDatabase):
    """A database that can be read by the one task that is named, until it is out of reach."""

    away: "asyncio.Task[object] | None" = None

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        if self.away is not None and asyncio.current_task() is self.away:
            raise DatabaseUnreachableError("The database is out of reach.")
        async with super().snapshot() as tx:
            yield tx


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[FarDatabase]:
    async with FarDatabase.open(database_settings) as opened:
        yield opened


async def slots(asked: Asked, user: Identity) -> int:
    async with asked.database.snapshot() as tx:
        return (await admission.counts(tx, user.key, asked.clock())).running


async def test_taking_over_runs_that_wait_takes_no_slot(asked: Asked, alice: Identity) -> None:
    waits = [await asked.run(alice, status="waiting_input") for _ in range(3)]
    waits.append(await asked.run(alice, status="waiting_approval"))
    await asked.run(alice)
    for run in waits:
        begun = await asked.office.begin(run)
        assert (begun.status, begun.attempt) == (run.status, 2)

    assert await slots(asked, alice) == SLOTS


async def test_a_run_that_asks_gives_its_slot_back_and_has_one_when_it_goes_on(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice)
    async with asked.going(asked.permit(asked.asking(run, alice), run, alice)) as work:
        question = await asked.outlet.asked()
        await asked.comes_to(run, RunStatus.WAITING_APPROVAL)
        meanwhile = await slots(asked, alice)
        await asked.choose(alice, question.id, "yes")
        told = await asyncio.wait_for(work, 10)

    assert (meanwhile, told) == (0, "")
    assert await slots(asked, alice) == 1


async def test_a_question_that_is_being_posted_when_its_attempt_is_cancelled_is_known_to_the_next(
    database: FarDatabase, clock: FakeClock, alice: Identity
) -> None:
    outlet = LateOutlet("discord")
    async with Tasks() as tasks:
        asked = Asked(database, clock, tasks, outlet)
        run = await asked.run(alice)
        async with asked.going(asked.permit(asked.asking(run, alice), run, alice)) as work:
            posted = await outlet.asked()
            work.cancel()
            outlet.released.set()
            await asyncio.wait({work})
        question = await asked.question(posted.id)

    assert work.cancelled()
    assert question.message_id == "question-1"


async def test_a_database_out_of_reach_ends_the_attempt_and_a_later_answer_counts(
    asked: Asked, database: FarDatabase, alice: Identity
) -> None:
    run, mail = await asked.run(alice), asked.mail()
    box = asked.toolbox(asked.asking(run, alice), mail)
    async with asked.going(box.call(letter("1.0"), asked.context(run, alice))) as work:
        question = await asked.outlet.asked()
        database.away = work
        with pytest.raises(LeftError):
            await asyncio.wait_for(work, 10)
    reply = await asked.choose(alice, question.id, "yes")
    left = await asked.stored.read_run(run.id)
    again = await asked.office.begin(run)
    later = asked.asking(again, alice)
    await later.resume()
    result = await asked.toolbox(later, mail).call(letter("1.0"), asked.context(again, alice))

    assert "Allowed" in reply.text
    assert (left.status, asked.posted) == (RunStatus.WAITING_APPROVAL, [{"to": "1.0"}])
    assert not result.failed
    assert (await asked.stored.read_run(run.id)).status is RunStatus.RUNNING


async def test_what_ends_the_attempt_passes_a_tool_that_asks(
    asked: Asked, database: FarDatabase, alice: Identity
) -> None:
    run = await asked.run(alice, attempt=2)
    tool = ask_user.ask_user
    call = replace(letter("1.0"), name=tool.name, arguments={"question": "Which?"})
    for attempt, error in ((1, FencedError), (2, LeftError)):
        asking = asked.asking(replace(run, attempt=attempt), alice)
        context = replace(asked.context(run, alice), ask=asking.ask)
        box = asked.toolbox(asking, tool, other="ask")
        # The tool has a task of its own, and asks in that.
        before = asyncio.all_tasks()
        async with asked.going(box.call(call, context)) as work:
            if error is LeftError:
                await asked.outlet.asked()
                new = [each for each in asyncio.all_tasks() - before if each is not work]
                database.away = next(each for each in new if "ask_user" in each.get_name())
            with pytest.raises(error):
                await asyncio.wait_for(work, 10)


async def test_a_question_that_cannot_be_sent_is_a_no_and_the_next_one_waits(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice)
    asking = asked.asking(run, alice)
    asked.outlet.fail_next("question", DeliveryError("Nobody may write there.", permanent=True))
    async with asked.going(asked.permit(asking, run, alice, "1.0")) as first:
        told = await asyncio.wait_for(first, 10)
    async with asked.going(asked.permit(asking, run, alice, "1.1")):
        await asked.outlet.asked()
        await asked.comes_to(run, RunStatus.WAITING_APPROVAL)

    assert "mail was not called" in told
    assert "Nobody may write there." in told


async def test_a_question_that_fails_unexpectedly_is_a_no(asked: Asked, alice: Identity) -> None:
    run = await asked.run(alice)
    asked.outlet.fail_next("question", RuntimeError("unforeseen"))
    async with asked.going(asked.permit(asked.asking(run, alice), run, alice)) as work:
        told = await asyncio.wait_for(work, 10)

    assert "mail was not called" in told
    assert "unforeseen" not in told


@pytest.mark.parametrize(
    "error",
    [
        DeliveryError("The connection broke.", fate_unknown=True),
        TimeoutError(),
    ],
    ids=["fate-unknown", "timeout"],
)
async def test_a_question_that_may_be_visible_stays_open_for_its_answer(
    asked: Asked, alice: Identity, error: Exception
) -> None:
    run = await asked.run(alice)
    asked.outlet.fail_next("question", error, taken=True)
    async with asked.going(asked.permit(asked.asking(run, alice), run, alice)) as work:
        question = await asked.outlet.asked()
        await asked.comes_to(run, RunStatus.WAITING_APPROVAL)
        reply = await asked.choose(alice, question.id, "yes")
        refused = await asyncio.wait_for(work, 10)

    assert "Allowed" in reply.text
    assert refused == ""
    assert len(asked.outlet.questions) == 1


async def ready(asked: Asked, run: Run) -> None:
    """Wait until a run has asked for a slot."""

    async def there() -> bool:
        async with asked.database.snapshot() as tx:
            query = select(subagent_runs.c.ready_at).where(subagent_runs.c.id == run.id)
            return await tx.scalar(query) is not None

    await until(there)


async def test_an_answer_that_came_while_nobody_was_at_work_waits_for_a_slot_first(
    asked: Asked, alice: Identity
) -> None:
    busy = await asked.run(alice)
    run = await asked.run(alice, status="waiting_approval")
    asking = asked.asking(run, alice)
    await asked.put(asking, run, "1.0", status="yes")
    async with asked.going(asking.resume()) as work:
        await ready(asked, run)
        early, held = work.done(), await slots(asked, alice)
        await asked.office.end(busy)
        await asyncio.wait_for(work, 10)

    assert (early, held) == (False, SLOTS)
    assert (await asked.stored.read_run(run.id)).status is RunStatus.RUNNING


async def test_an_answer_that_comes_just_after_the_start_waits_for_a_slot_too(
    asked: Asked, alice: Identity
) -> None:
    busy = await asked.run(alice)
    run = await asked.run(alice, status="waiting_approval")
    asking = asked.asking(run, alice)
    question = await asked.put(asking, run, "1.0")
    await asking.resume()
    await asked.choose(alice, question.id, "yes")
    async with asked.going(asked.permit(asking, run, alice)) as work:
        await ready(asked, run)
        early = work.done()
        await asked.office.end(busy)
        told = await asyncio.wait_for(work, 10)

    assert (early, told) == (False, "")
    assert (await asked.stored.read_run(run.id)).status is RunStatus.RUNNING


async def test_an_answer_is_shown_at_its_question_although_the_process_ends_then(
    database: FarDatabase, clock: FakeClock, alice: Identity
) -> None:
    outlet = FakeOutlet("discord")
    async with Tasks() as tasks:
        asked = Asked(database, clock, tasks, outlet)
        run = await asked.run(alice)
        asking = asked.asking(run, alice)
        question = await asked.put(asking, run, "1.0", status="yes")
        await asked.permit(asking, run, alice)

    assert outlet.settled[question.id].chosen == "Allow once"
