"""Requests without an answer that may be charged are in the row of their turn or run."""

from typing import Literal

import pytest
from sqlalchemy import Table, select

from bot.agent.messages import Usage
from bot.models.prices import Prices
from db.tables import subagent_runs, turns
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.stories.stage import ALICE, RETRY, Play, Stage, stage

SPAWN = "/subagents spawn --label work Work on it"
TWICE = RETRY.model_copy(update={"attempts": 2})
#: Input of a request of which nothing was reported: some thousand tokens.
LEAST_INPUT = 1_000
TABLES = (turns, subagent_runs)


async def used_in(it: Stage, table: Table) -> Usage:
    """Return the usage of the only row of a table."""
    async with it.bot.database.snapshot() as tx:
        row = (await tx.execute(select(*table.c))).one()
    return Usage(row.input_tokens, row.output_tokens, cost=row.cost)


def price(table: Table, usage: Usage) -> int:
    """Return the price of a call of a turn or of a run."""
    model = "claude-sonnet-5-5" if table is turns else "claude-haiku-5-5"
    cost = Prices({}, {}).of("anthropic", model, usage)
    assert cost
    return cost


async def over(it: Stage) -> None:
    """Wait until the only turn has ended: its row is written after its reply."""

    async def is_over() -> bool:
        async with it.bot.database.snapshot() as tx:
            return await tx.scalar(select(turns.c.ended_at)) is not None

    await eventually(is_over, "the turn has ended")


async def asked(play: Play, times: int = 1) -> None:
    """Wait until the model was asked so often."""

    async def has_been() -> bool:
        return len(play.asked) >= times

    await eventually(has_been, "the request")


@pytest.mark.parametrize("fault", ["garbage", "hang"])
async def test_a_turn_that_ends_without_an_answer_has_what_was_asked_in_its_row(
    database_url: str, fault: Literal["garbage", "hang"]
) -> None:
    play = Play(main=[Reply(fault=fault)] * 2)
    async with stage(database_url, play, more_models={"retry": TWICE}) as it:
        await it.say(ALICE, "Hello")
        if fault == "hang":
            await asked(play)
            await it.command(ALICE, "/stop")
        await it.outlet.replied()
        await over(it)

        used = await used_in(it, turns)

    assert used.input > LEAST_INPUT
    assert used.cost
    # Each of two requests is rounded up.
    assert 0 <= used.cost - price(turns, used) <= 1


async def test_a_drain_stores_what_the_requests_that_it_cuts_off_may_cost(
    database_url: str,
) -> None:
    hang = Reply(fault="hang")
    cut = Play(main=[hang], runs={"Work": [hang]})
    usage = Usage(100, 20)
    answers = Play(main=[Reply(text="Hi.", usage=usage)], runs={"Work": [Reply(usage=usage)]})
    async with stage(database_url, cut) as it:
        await it.command(ALICE, SPAWN)
        await it.say(ALICE, "Hello")
        await asked(cut, 2)
        await it.bot.drain(0)
        left = [await used_in(it, table) for table in TABLES]
    async with stage(database_url, answers) as it:
        await it.outlet.replied()
        await it.outlet.announced((await it.run_of("Work")).id)
        await over(it)

        ended = [await used_in(it, table) for table in TABLES]

    assert all(used.input > LEAST_INPUT for used in left)
    assert ended == [Usage(used.input + usage.input, usage.output) for used in left]
    for table, used, over_all in zip(TABLES, left, ended, strict=True):
        assert used.cost == price(table, used)
        assert over_all.cost == used.cost + price(table, usage)
