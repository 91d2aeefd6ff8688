"""The working memory of a run: its own, bounded, and gone with the run."""

import pytest
from sqlalchemy import delete

from bot.errors import BadRequestError
from bot.values import Identity
from db import scratch
from db.database import Database
from db.tables import subagent_runs
from db.whiteboard import MOST_CHARACTERS, MOST_KEYS
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


async def test_values_are_read_back_replaced_and_of_one_run_only(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run, other = (await stored.run(alice)).id, (await stored.run(alice)).id

    async with database.transaction() as tx:
        for key, value in (("b", "1"), (" a  key ", "first"), ("a key", "second")):
            await scratch.write(tx, run, key, value, clock())

        assert await scratch.read(tx, run, "a key") == "second"
        assert await scratch.keys(tx, run) == ["a key", "b"]
        assert await scratch.read(tx, other, "a key") is None
        assert await scratch.keys(tx, other) == []


async def test_they_are_bounded(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run = (await stored.run(alice)).id

    async with database.transaction() as tx:
        with pytest.raises(BadRequestError, match="put it under several keys"):
            await scratch.write(tx, run, "a", "x" * (MOST_CHARACTERS + 1), clock())
        for number in range(MOST_KEYS):
            await scratch.write(tx, run, str(number), "x", clock())
        with pytest.raises(BadRequestError, match="put several values under one key"):
            await scratch.write(tx, run, "one more", "x", clock())
        await scratch.write(tx, run, "0", "replaced", clock())


async def test_they_are_copied_to_a_continuation_and_deleted_with_their_run(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    run, again = (await stored.run(alice)).id, (await stored.run(alice)).id

    async with database.transaction() as tx:
        await scratch.write(tx, run, "plan", "dig", clock())
        await scratch.copy(tx, run, again)
        await tx.execute(delete(subagent_runs).where(subagent_runs.c.id == run))

        assert await scratch.keys(tx, run) == []
        assert await scratch.read(tx, again, "plan") == "dig"
