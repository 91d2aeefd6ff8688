"""Results of the runs that one turn started are sent in one message, under one stored key."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import update

from bot.values import Identity
from db import deliveries, outbox
from db.database import Database
from db.deliveries import SPOKEN, TOGETHER
from db.outbox import NewOutboxEntry, OutboxEntry
from db.tables import subagent_runs, turns
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored, room


@dataclass
class Batch:
    """The runs that a turn of Alice started."""

    database: Database
    clock: FakeClock
    alice: Identity
    stored: Stored
    turn_id: str = ""
    runs: list[str] = field(default_factory=list)
    together: bool = True

    async def begin(self, count: int, *, speaks: bool = False) -> None:
        """Store a turn, at work or done, and running runs of it."""
        conversation_id = await self.stored.conversation(self.alice)
        self.turn_id = await self.stored.turn(self.alice, conversation_id)
        if not speaks:
            await self.speak()
        for _ in range(count):
            run = await self.stored.run(self.alice, batch_id=self.turn_id, status="running")
            self.runs.append(run.id)

    async def speak(self) -> list[str]:
        """End the turn; return the keys that are due."""
        async with self.database.transaction() as tx:
            await tx.execute(update(turns).where(turns.c.id == self.turn_id).values(status="done"))
            return await self.plan(tx)

    async def plan(self, tx: Any) -> list[str]:
        return await deliveries.plan(tx, self.turn_id, self.clock(), together=self.together)

    async def end(self, number: int, *, status: str = "completed") -> list[str]:
        """End a run with an announcement; return the keys that are due."""
        key = self.runs[number]
        item = NewOutboxEntry(
            key=key,
            user_id=self.alice.key,
            place=room(self.alice),
            run_id=key,
            title=f"Run {number}",
            text=f"Result {number}",
            batch_id=self.turn_id if status == "completed" else "",
        )
        async with self.database.transaction() as tx:
            this = subagent_runs.c.id == key
            await tx.execute(update(subagent_runs).where(this).values(status=status))
            await outbox.put(tx, item, self.clock())
            return await self.plan(tx)

    async def claim(self, number: int, worker: str = "w1") -> Sequence[OutboxEntry]:
        """Claim the item of a run, and what is sent with it."""
        async with self.database.transaction() as tx:
            key = self.runs[number]
            found = await deliveries.claim(tx, [key], worker, self.clock(), together=self.together)
        return found.get(key, [])

    async def due(self, number: int) -> datetime:
        """Return the time at which the item of a run is due."""
        return (await self.stored.read_item(self.runs[number])).due_at

    def texts(self, items: Sequence[OutboxEntry]) -> list[str]:
        return [item.text for item in items]


@pytest.fixture
def batch(database: Database, clock: FakeClock, alice: Identity) -> Batch:
    return Batch(database, clock, alice, Stored(database, clock))


async def test_the_last_result_brings_all_in_the_order_in_which_they_were_asked_for(
    batch: Batch,
) -> None:
    await batch.begin(3)
    assert await batch.end(2) == []
    batch.clock.advance(10)
    assert await batch.end(0) == []
    assert await batch.claim(0) == []

    [due] = await batch.end(1)
    async with batch.database.snapshot() as tx:
        assert await outbox.due(tx, ["discord"], batch.clock(), together=True) == [min(batch.runs)]
    assert due in batch.runs

    claimed = await batch.claim(1)
    assert batch.texts(claimed) == ["Result 0", "Result 1", "Result 2"]
    assert {item.send_key for item in claimed} == {batch.runs[1]}
    assert {item.status for item in claimed} == {"sending"}
    assert await batch.claim(0) == []


async def test_items_of_a_batch_that_are_claimed_at_once_are_one_message(batch: Batch) -> None:
    await batch.begin(2)
    await batch.end(0)
    await batch.end(1)

    async with batch.database.transaction() as tx:
        keys = list(reversed(batch.runs))
        claimed = await deliveries.claim(tx, keys, "w1", batch.clock(), together=True)

    assert [batch.texts(items) for items in claimed.values()] == [["Result 0", "Result 1"]]
    assert set(claimed) == {batch.runs[0]}


async def test_the_first_result_waits_two_minutes_and_what_comes_later_waits_no_more(
    batch: Batch,
) -> None:
    await batch.begin(3)
    await batch.end(0)
    first = await batch.due(0)
    assert first == batch.clock() + TOGETHER
    batch.clock.advance(60)
    await batch.end(1)
    assert await batch.due(1) == first

    batch.clock.advance(60)
    assert batch.texts(await batch.claim(0)) == ["Result 0", "Result 1"]

    assert await batch.end(2) == [batch.runs[2]]
    assert batch.texts(await batch.claim(2)) == ["Result 2"]


async def test_a_failure_is_not_held_back(batch: Batch) -> None:
    await batch.begin(3)
    await batch.end(0)
    await batch.end(1, status="failed")

    assert batch.texts(await batch.claim(1)) == ["Result 1"]
    assert await batch.claim(0) == []


async def test_a_failure_that_comes_last_brings_the_others(batch: Batch) -> None:
    await batch.begin(2)
    await batch.end(0)

    assert await batch.end(1, status="failed") == [batch.runs[0]]
    assert batch.texts(await batch.claim(0)) == ["Result 0"]


async def test_results_wait_for_the_turn_that_started_their_runs_for_a_minute(
    batch: Batch,
) -> None:
    await batch.begin(1, speaks=True)
    assert await batch.end(0) == []
    assert await batch.due(0) == batch.clock() + SPOKEN

    assert await batch.speak() == batch.runs
    assert batch.texts(await batch.claim(0)) == ["Result 0"]


async def test_without_groups_every_result_is_sent_alone(batch: Batch) -> None:
    batch.together = False
    await batch.begin(2)

    assert await batch.end(0) == [batch.runs[0]]
    assert await batch.end(1) == batch.runs
    assert batch.texts(await batch.claim(0)) == ["Result 0"]
    assert batch.texts(await batch.claim(1)) == ["Result 1"]


async def test_after_a_crash_the_same_items_are_sent_under_the_same_key(batch: Batch) -> None:
    await batch.begin(3)
    await batch.end(0)
    await batch.end(1)
    batch.clock.advance(TOGETHER.total_seconds())
    before = await batch.claim(1, worker="dead")
    assert await batch.end(2) == [batch.runs[2]]
    async with batch.database.transaction() as tx:
        assert await outbox.recover(tx, ["w1"]) == 2

    again = await batch.claim(0)

    assert batch.texts(again) == batch.texts(before) == ["Result 0", "Result 1"]
    assert {item.send_key for item in (*before, *again)} == {batch.runs[1]}
    assert all(item.maybe_repeated for item in again)
    assert batch.texts(await batch.claim(2)) == ["Result 2"]


async def test_a_blocked_result_that_is_tried_again_is_a_message_of_its_own(
    batch: Batch,
) -> None:
    await batch.begin(2)
    await batch.end(0)
    await batch.end(1)
    claimed = await batch.claim(0)
    async with batch.database.transaction() as tx:
        for each in claimed:
            await outbox.block(tx, each, error="The room is gone.")
        assert await outbox.retry_blocked(tx, batch.runs[1], batch.alice.key, batch.clock())

    [item] = await batch.claim(1)
    assert (item.text, item.send_key) == ("Result 1", "")


async def test_results_of_another_turn_or_place_are_not_sent_along(
    batch: Batch, database: Database, clock: FakeClock, alice: Identity
) -> None:
    other = Batch(database, clock, alice, batch.stored)
    await batch.begin(1)
    await other.begin(1)
    await batch.end(0)
    await other.end(0)

    assert batch.texts(await batch.claim(0)) == ["Result 0"]
    assert batch.texts(await other.claim(0)) == ["Result 0"]
