"""What a long result was shortened to is kept once, by the attempt that has the run."""

import pytest

from bot.values import Identity
from db import runs
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


async def keep(database: Database, run_id: str, clock: FakeClock, attempt: int) -> None:
    async with database.transaction() as tx:
        await runs.store_summary(
            tx, run_id, attempt, "In short.", input_tokens=70, output_tokens=5, now=clock()
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
    assert (now.input_tokens, now.output_tokens) == (70, 5)


@pytest.mark.parametrize(("status", "attempt"), [("running", 3), ("cancelled", 2)])
async def test_it_is_not_kept_by_an_attempt_that_lost_the_run_or_when_it_is_over(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, status: str, attempt: int
) -> None:
    run = await stored.run(alice, status=status, attempt=attempt)

    await keep(database, run.id, clock, 2)

    assert (await stored.read_run(run.id)).metadata == {}
