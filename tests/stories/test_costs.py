"""Each call of a model costs its price, once, in the row of the turn or run that made it."""

import random
from dataclasses import replace

import pytest

from bot.agent.messages import Usage
from bot.conversations.access import AccessSettings
from bot.models.prices import Prices
from bot.subagents.limits import SubagentSettings
from bot.values import Json, RunStatus
from db.tables import subagent_runs, turns
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.stories.stage import ADMIN, ALICE, BOB, Play, Stage, call, stage

pytestmark = pytest.mark.timeout(120)

PRICES = Prices({}, {})
NESTED = SubagentSettings(max_depth=2, present_seconds=0)
DICE = random.Random(7)


class Bill:
    """Answers as a play does, each time with another usage, and adds up the prices."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.total = Usage(cost=0)

    def __call__(self, body: Json) -> Reply:
        reply = self.play(body)
        usage = Usage(*(DICE.randint(0, most) for most in (1_500, 300, 3_000, 400)))
        self.total += PRICES.priced(usage, "anthropic", body["model"])
        return replace(reply, usage=usage)


async def charged(it: Stage, count: int) -> Usage:
    """Return the sum of all turns, once so many have ended, and of all runs."""

    async def have_ended() -> bool:
        return sum(row["ended_at"] is not None for row in await it.rows(turns)) == count

    await eventually(have_ended, f"{count} turns have ended")
    found = [*await it.rows(turns), *await it.rows(subagent_runs)]
    sums = {
        name: sum(row[name] for row in found)
        for name in ("input_tokens", "cached_tokens", "output_tokens", "cost")
    }
    fresh = sums["input_tokens"] - sums["cached_tokens"]
    return Usage(fresh, sums["output_tokens"], sums["cached_tokens"], cost=sums["cost"])


async def test_all_rows_together_cost_as_much_as_all_calls(database_url: str) -> None:
    play = Play(
        main=[
            call("delegate_to_subagent", task="Ask around", tools_needed=["current_time"]),
            call("sessions_spawn", task="Look around", label="seen", announce="summary"),
            Reply(text="Both are on it."),
            Reply(text="They saw hens."),
            Reply(text="Hello Bob."),
        ],
        runs={
            "Ask": [call("current_time", zone="UTC"), Reply(text="It is late.")],
            "Look": [
                call("delegate_to_subagent", task="Count hens", tools_needed=[]),
                Reply(text="Three hens."),
            ],
            "Count": [Reply(text="Three.")],
        },
    )
    bill = Bill(play)
    access = AccessSettings(admins=("fake:root",))
    async with stage(database_url, play, script=bill, subagents=NESTED, access=access) as it:
        await it.say(ALICE, "Look around, and ask.")
        run = await it.ended("Look", RunStatus.COMPLETED)
        said = await it.outlet.announced(run.id)
        await it.say(BOB, "Hello")
        info = await it.command(ALICE, "/subagents info seen")
        mine = await it.command(ALICE, "/subagents usage")
        refused = await it.command(ALICE, "/subagents usage all")
        everyone = await it.command(ADMIN, "/subagents usage all")
        sent = await it.command(ADMIN, "/subagents usage csv")
        total = await charged(it, 3)

    assert len(play.asked) == 10
    assert (total.total, total.cache_read) == (bill.total.total, bill.total.cache_read)
    assert total.cost == bill.total.cost
    assert run.cost
    dollars = f"${-(-run.cost // 100) / 10_000:.4f}"
    kinds = f"{run.cached_tokens:,} cached, {run.output_tokens:,} output"
    assert f"- Cost: {dollars}" in info.text
    assert all(words in text for words in (kinds,) for text in (info.text, said.footer))
    assert f" · {dollars} · " in said.footer
    assert "- Today (UTC): $0." in mine.text
    assert "- The last answer to you here: $0." in mine.text
    assert "Everyone this month" not in mine.text
    assert (refused.failed, refused.text) == (True, "Only admins can see everyone's usage.")
    for by in ("user", "channel", "agent", "model"):
        assert f"**Everyone this month, by {by}**" in everyone.text
    assert "- Alice (`" in everyone.text
    assert everyone.private
    assert sent.text == "What everyone used this month is in our direct messages."
