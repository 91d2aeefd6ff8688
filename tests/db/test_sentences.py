"""In each place one sentence at a time; none is posted beside the result of its run."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from bot.agent.journal import run_columns
from bot.agent.messages import Usage
from bot.values import Identity
from db import deliveries, outbox, runs, sentences
from db.database import Database
from db.rows import place_columns
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored, room

EVERY = timedelta(minutes=2)


async def claim(database: Database, user: Identity, clock: FakeClock) -> bool:
    async with database.transaction() as tx:
        return await sentences.claim(tx, room(user), now=clock(), before=clock() - EVERY)


async def test_a_sentence_is_begun_once_in_its_time_and_place(
    database: Database, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    begun = [await claim(database, alice, clock)]
    clock.advance(119)
    begun.append(await claim(database, alice, clock))
    clock.advance(1)
    begun.append(await claim(database, alice, clock))

    assert begun == [True, False, True]
    async with database.snapshot() as tx:
        assert await sentences.last(tx, room(alice)) == clock()


async def test_the_runs_of_a_place_are_those_at_work_in_the_background(
    database: Database, stored: Stored, alice: Identity
) -> None:
    mine = await stored.run(alice, status="running", place_message="m7")
    waiting = await stored.run(alice, status="waiting_input")
    await stored.run(alice, status="running", mode="sync")
    await stored.run(alice, status="queued")
    await stored.run(alice, status="completed")
    await stored.run(alice, status="running", place_thread="another")

    async with database.snapshot() as tx:
        found = await sentences.runs_at(tx, room(alice))

    assert [run.id for run in found] == [mine.id, waiting.id]


async def test_tokens_are_reserved_for_the_attempt_that_has_the_run(
    database: Database, stored: Stored, alice: Identity
) -> None:
    mine = await stored.run(alice, status="running", attempt=2, reserved_tokens=100)
    over = await stored.run(alice, status="completed", attempt=2)

    async with database.transaction() as tx:
        for run in (mine, over):
            await sentences.reserve(tx, run, 50)

    reserved = [(await stored.read_run(run.id)).reserved_tokens for run in (mine, over)]
    assert reserved == [150, 0]


async def test_a_run_that_is_over_is_charged_what_was_spent_since(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    counts = {"input_tokens": 100, "output_tokens": 10}
    over = await stored.run(alice, status="completed", completed_at=clock(), **counts)
    going = await stored.run(alice, status="running", **counts)

    async with database.transaction() as tx:
        for run in (over, going):
            for tokens in (100, 5):
                spent = Usage(input=tokens, output=30, cost=tokens)
                await sentences.charge(tx, run.id, run_columns(spent))

    charged = [await stored.read_run(run.id) for run in (over, going)]
    assert [(run.tokens, run.cost) for run in charged] == [(130, 100), (110, 0)]


async def test_no_run_ends_with_its_result_sent_while_its_sentence_is_posted(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = await stored.run(alice, status="running", **place_columns(room(alice)))
    await claim(database, alice, clock)
    checked, ended = asyncio.Event(), asyncio.Event()

    async def post() -> bool:
        async with database.transaction() as tx:
            until = clock() + timedelta(seconds=10)
            posts = await sentences.post(tx, room(alice), [run.id], until)
            checked.set()
            # The result cannot be sent in this time, since the end waits for this transaction.
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await ended.wait()
        return posts

    async def end() -> bool:
        await checked.wait()
        item = outbox.NewOutboxEntry(
            key=run.id, user_id=alice.key, place=room(alice), run_id=run.id, title="", text="Done."
        )
        async with database.transaction() as tx:
            await runs.finish(tx, run.id, {"status": "completed"}, attempt=None, now=clock())
            await outbox.put(tx, item, clock())
        async with database.transaction() as tx:
            sent = await deliveries.claim(tx, [run.id], "w1", clock()) != {}
        ended.set()
        return sent

    async with asyncio.TaskGroup() as group:
        posting, ending = group.create_task(post()), group.create_task(end())

    assert (posting.result(), ending.result()) == (True, False)
    async with database.transaction() as tx:
        await sentences.posted(tx, room(alice))
        assert await deliveries.claim(tx, [run.id], "w1", clock()) != {}
        assert not await sentences.post(tx, room(alice), [run.id], clock())
