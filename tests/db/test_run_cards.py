"""The cards that do not show the end of their runs are found until they do."""

from datetime import timedelta

import pytest

from bot.values import Identity, Json
from db import run_cards
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

HOUR, NOW = timedelta(hours=1), timedelta(seconds=1)


async def left(database: Database, clock: FakeClock) -> list[str]:
    """Return the runs whose cards are to be drawn."""
    since, before = clock() - HOUR, clock() + NOW
    async with database.snapshot() as tx:
        found = await run_cards.not_drawn(tx, ["discord"], since=since, before=before)
    return [run.id for run in found]


async def test_a_card_is_due_from_the_end_of_its_run_until_it_is_drawn(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    ended: Json = {"status": "completed", "completed_at": clock()}
    run = await stored.run(alice, **ended)
    before = await left(database, clock)
    async with database.transaction() as tx:
        await run_cards.set_message(tx, run.id, "m1")
    due = await left(database, clock)
    async with database.transaction() as tx:
        await run_cards.mark_drawn(tx, run.id)

    assert before == []
    assert due == [run.id]
    assert await left(database, clock) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"status": "running", "completed_at": None},
        {"channel": "slack"},
        {"completed_at": FakeClock()() - 2 * HOUR},
    ],
)
async def test_no_card_is_due_of_an_unfinished_run_another_platform_or_an_earlier_day(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity, changed: Json
) -> None:
    ended: Json = {"status": "completed", "completed_at": clock(), "card_message_id": "m1"}
    await stored.run(alice, **(ended | changed))

    assert await left(database, clock) == []
