"""What a long result was shortened to is kept once, by the attempt that has the run."""

import pytest

from bot.agent.journal import run_columns
from bot.agent.messages import Usage
from bot.values import Identity
from db import run_summaries
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


async def keep(database: Database, run_id: str, clock: FakeClock, attempt: int) -> None:
    async with database.transaction() as tx:
        spent = Usage(input=60, cache_read=10, output=5, cost=12)
        await run_summaries.store(
            tx, run_id, attempt, "In short.", counts=run_columns(spent), now=clock()
        )


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


async def test_it_is_kept_with_what_the_run_has_cost_beside_what_is_known_of_it(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = await stored.run(alice, status="running", attempt=2, metadata={"other": 1})

    await keep(database, run.id, clock, 2)

    now = await stored.read_run(run.id)
    assert run.summary == ""
    assert now.summary == "In short."
    assert now.metadata["other"] == 1
    assert (now.input_tokens, now.cached_tokens, now.output_tokens, now.cost) == (70, 10, 5, 12)


@pytest.mark.parametrize(("status", "attempt"), [("running", 3), ("cancelled", 2)])
async def test_it_is_not_kept_by_an_attempt_that_lost_the_run_or_when_it_is_over(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, status: str, attempt: int
) -> None:
    run = await stored.run(alice, status=status, attempt=attempt)

    await keep(database, run.id, clock, 2)

    assert (await stored.read_run(run.id)).metadata == {}
