"""Sums of the tokens and costs of turns and runs."""

from datetime import timedelta

import pytest

from bot.agent.journal import columns
from bot.agent.messages import Usage
from bot.values import Identity
from db import spending, tables
from db.database import Database
from db.rows import change
from db.spending import SpendingSum
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


async def turn(stored: Stored, user: Identity, usage: Usage, model: str = "big") -> None:
    """Store a turn with a usage."""
    turn_id = await stored.turn(user, await stored.conversation(user))
    async with stored.database.transaction() as tx:
        this = tables.turns.c.id == turn_id
        await change(tx, tables.turns, this, **columns(usage), answering_model=model)


async def test_turns_and_runs_of_a_user_are_added_up(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await turn(stored, alice, Usage(100, 10, 30, cost=500))
    await stored.run(alice, **columns(Usage(7, 1, 2, cost=4)))
    await stored.run(alice, **columns(Usage(1)))
    await stored.run(alice, created_at=clock() - timedelta(days=1), **columns(Usage(9, cost=9)))
    await stored.run(bob, **columns(Usage(50, cost=50)))

    async with database.snapshot() as tx:
        mine = await spending.of_user(tx, alice.key, clock() - timedelta(hours=1))
        none = await spending.of_user(tx, "nobody", clock() - timedelta(hours=1))

    assert mine == SpendingSum(fresh=108, cached=32, output=11, cost=504, unpriced=1)
    assert none == SpendingSum(fresh=0, cached=0, output=0, cost=0, unpriced=0)


async def test_the_groups_that_cost_most_come_first(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await turn(stored, alice, Usage(100, cost=500))
    await turn(stored, bob, Usage(100, cost=100))
    await stored.run(bob, agent="coder", model="small", **columns(Usage(3, cost=450)))
    await stored.run(bob, agent="idle", model="none")

    async with database.snapshot() as tx:
        since = clock() - timedelta(hours=1)
        found = {
            by: [(each.group[-1], each.cost) for each in await spending.top(tx, by, since, limit=2)]
            for by in ("user", "agent", "model")
        }
        first = await spending.top(tx, "user", since, limit=1)
        channels = await spending.top(tx, "channel", since, limit=10)

    assert found["user"] == [(bob.key, 550), (alice.key, 500)]
    assert found["agent"] == [(spending.MAIN, 600), ("coder", 450)]
    assert found["model"] == [("big", 600), ("small", 450)]
    assert [each.group for each in first] == [(bob.key,)]
    assert sum(each.cost for each in channels) == 1_050
    assert {len(each.group) for each in channels} == {3}


async def test_the_table_has_a_row_for_each_user_place_agent_and_model(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await turn(stored, alice, Usage(100, cost=500))
    await turn(stored, alice, Usage(20, cost=5))
    await stored.run(alice, agent="coder", model="small", **columns(Usage(3)))
    await stored.run(alice, agent="idle", model="none")

    async with database.snapshot() as tx:
        rows = await spending.table(tx, clock() - timedelta(hours=1))

    assert [(row.group[0], *row.group[4:], row.cost, row.unpriced) for row in rows] == [
        (alice.key, spending.MAIN, "big", 505, 0),
        (alice.key, "coder", "small", 0, 1),
    ]
