"""All work draws from the limits: nested, summarised, stopped, killed and taken over."""

import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, select

from bot.agent.messages import Usage
from bot.agent.settings import AgentsSettings
from bot.spending.settings import SpendingSettings
from bot.subagents.limits import SubagentSettings
from bot.values import Json, RunStatus
from db.database import Database, DatabaseSettings
from db.tables import pools, reservations, subagent_runs, turns
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.patience import eventually
from tests.stories.actor import actor
from tests.stories.stage import ALICE, Play, call, stage

pytestmark = pytest.mark.timeout(120)

#: Output costs ten micro-dollars a token, and everything else nothing.
PRICE = {"input": 0, "output": 10}
PRICES = {"prices": dict.fromkeys(("claude-sonnet-5-5", "claude-haiku-5-5"), PRICE)}
LIMITS: Json = {"run": {"usd": 5}, "user": {"day": {"usd": 9}}, "bot": {"month": {"usd": 9}}}
SECTIONS: Json = {"spending": LIMITS, "more_models": PRICES}
SPAWN = "/subagents spawn --label work Work on it"
LONG = "\n".join(f"Barn {number} holds {number * 7} sheep." for number in range(1, 250))
COUNTER = "---\nname: counter\ndescription: Counts.\ntools: []\nsummarize: The sum.\n---\nCount."


def costing(reply: Reply, output: int) -> Reply:
    return replace(reply, usage=Usage(0, output))


def used(rows: Sequence[Json]) -> dict[str, int]:
    """Return the used cost of each pool: of a run by its id, of others by their scope."""
    parts = [(row["id"].split("|"), row["used_cost"]) for row in rows]
    return {scope if scope != "run" else subject: cost for (scope, _, subject), cost in parts}


async def rows(database_url: str, table: Table) -> list[Json]:
    """Return the rows of a table of a database, by a connection of its own."""
    async with (
        Database.open(DatabaseSettings(url=database_url)) as database,
        database.snapshot() as tx,
    ):
        return [dict(row) for row in (await tx.execute(select(table))).mappings()]


def around_a_lost_call() -> Play:
    """Return a run of two calls that cost, with one between them that is never answered."""
    lost = Reply(text="never read", fault="hang")
    work = [costing(call("look", at="left"), 1_000), lost, costing(Reply(text="Done."), 2_000)]
    return Play(runs={"Work": work})


async def end_within_a_call(
    database_url: str, server: FakeAnthropic, number: signal.Signals
) -> None:
    """Start a run, and end the bot's process by a signal while its second call is under way."""
    async with actor(database_url, server.url, sections=SECTIONS) as first:
        first.say("alice", SPAWN)
        await server.received(2)
        first.signal(number)
        await first.gone()


class Spendthrift:
    """Writes all output that a request allows, and adds up what that costs."""

    def __init__(self) -> None:
        self.cost = 0

    def __call__(self, body: Json) -> Reply:
        self.cost += 10 * body["max_tokens"]
        reply = Reply(text="Hens.") if body.get("tool_choice") else call("look", at="left")
        return replace(costing(reply, body["max_tokens"]), latency_seconds=0.5)


async def test_nested_work_and_summaries_draw_from_the_limits_of_the_run_that_began_them(
    database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "counter.md").write_text(COUNTER)
    count = call("delegate_to_subagent", task="Count barns", agent="counter", tools_needed=[])
    play = Play(
        main=[
            costing(call("sessions_spawn", task="Look around"), 1_000),
            costing(Reply(text="It looks."), 2_000),
        ],
        runs={
            "Look": [costing(count, 4_000), costing(Reply(text="Many."), 8_000)],
            "Count": [costing(Reply(text=LONG), 16_000), costing(Reply(text="Sheep."), 32_000)],
        },
    )
    sections: dict[str, Any] = {
        "spending": SpendingSettings.model_validate(LIMITS),
        "subagents": SubagentSettings(
            max_depth=2,
            present_seconds=0,
            default_token_budget=200_000,
        ),
        "agents": AgentsSettings(folders=(str(tmp_path),)),
        "more_models": PRICES,
    }
    async with stage(database_url, play, **sections) as it:
        await it.say(ALICE, "Look around")
        run = await it.ended("Look", RunStatus.COMPLETED)
        inner = await it.run_of("Count")
        await it.outlet.announced(run.id)
        found, left = used(await it.rows(pools)), await it.rows(reservations)

    assert len(play.asked) == 6
    assert left == []
    assert found == {"user": 630_000, "bot": 630_000, run.id: 600_000, inner.id: 480_000}


async def test_answers_and_runs_that_are_stopped_draw_what_they_may_have_cost(
    database_url: str,
) -> None:
    words = "Once upon a time there was a very long story. " * 3
    slow = Reply(text=words, fault="hang", after_events=5)
    play = Play(main=[slow], runs={"Work": [costing(call("current_time"), 1_000), slow]})
    limits = SpendingSettings.model_validate(LIMITS)
    async with stage(database_url, play, spending=limits, more_models=PRICES) as it:
        await it.say(ALICE, "Tell me a story.")
        await it.outlet.until(
            lambda: bool(it.outlet.replies and it.outlet.replies[0].updates), "the first words"
        )
        held = await it.rows(reservations)
        await it.command(ALICE, "/stop")
        await it.outlet.replied()
        after_answer = used(await it.rows(pools))
        await it.command(ALICE, SPAWN)
        await it.server.received(3)
        await it.command(ALICE, "/subagents stop last")
        run = await it.ended("Work", RunStatus.CANCELLED)

        async def settled() -> bool:
            return await it.rows(reservations) == []

        await eventually(settled, "no call is in progress")
        found = used(await it.rows(pools))
        costs = [row["cost"] for row in (*await it.rows(turns), *await it.rows(subagent_runs))]

    assert len(held) == 1
    assert 0 < after_answer["user"] < held[0]["cost"]
    assert found["user"] == found["bot"] == sum(costs)
    assert found[run.id] == run.cost
    assert run.cost is not None
    assert run.cost >= 10_000


async def test_a_call_whose_process_is_killed_counts_in_full_and_the_run_goes_on(
    database_url: str,
) -> None:
    async with FakeAnthropic(around_a_lost_call()) as server:
        await end_within_a_call(database_url, server, signal.SIGKILL)
        (held,) = await rows(database_url, reservations)
        before = used(await rows(database_url, pools))
        async with actor(database_url, server.url, sections=SECTIONS) as second:
            told = await second.event("announcement")

            async def settled() -> bool:
                return await rows(database_url, reservations) == []

            await eventually(settled, "no call is in progress")
        after = used(await rows(database_url, pools))

    assert told["text"] == "Done."
    assert set(before.values()) == {10_000}
    assert held["cost"] > 10_000
    assert set(after.values()) == {10_000 + held["cost"] + 20_000}
    assert len(after) == 3


async def test_a_process_that_ends_in_order_settles_its_calls_and_the_next_goes_on(
    database_url: str,
) -> None:
    async with FakeAnthropic(around_a_lost_call()) as server:
        await end_within_a_call(database_url, server, signal.SIGTERM)
        held = await rows(database_url, reservations)
        async with actor(database_url, server.url, sections=SECTIONS) as second:
            await second.event("announcement")
        after = used(await rows(database_url, pools))

    # Its answer had not begun: only its input may be charged, which costs nothing here.
    assert held == []
    assert set(after.values()) == {30_000}


async def test_three_bots_of_which_one_is_killed_spend_no_more_than_a_limit(
    postgres_url: str,
) -> None:
    limit, most = 2_000_000, {"max_concurrent_global": 30}
    sections = SECTIONS | {"spending": {"bot": {"day": {"usd": 2}}}, "subagents": most}
    bots = partial(actor, postgres_url, sections=sections)
    bill = Spendthrift()
    async with FakeAnthropic(bill) as server:
        async with bots(server.url) as one, bots(server.url) as two, bots(server.url) as three:
            for number in range(12):
                (one, two, three)[number % 3].say(f"user{number % 4}", SPAWN)
            await server.received(20)
            # It is likely to be at several calls.
            await max((one, two, three), key=lambda each: len(each.events("tool"))).kill()

            async def all_over() -> bool:
                runs = await rows(postgres_url, subagent_runs)
                left = await rows(postgres_url, reservations)
                return len(runs) >= 8 and all(run["completed_at"] for run in runs) and not left

            await eventually(all_over, "all runs have ended", seconds=100)
        spent = used(await rows(postgres_url, pools))["bot"]

    # The price of input is 0, so that no estimate is wrong.
    assert 0.8 * limit < bill.cost <= spent <= limit
