"""A day on which fifty users work: the pools have counted what all calls have cost."""

import random
from dataclasses import replace

import pytest

from bot.agent.messages import Usage
from bot.models.prices import Prices
from bot.spending.pools import MICRO_DOLLARS
from bot.spending.settings import SpendingSettings
from bot.subagents.limits import SpawnRateLimit, SubagentSettings
from bot.values import Identity, Json
from db.tables import pools, reservations, subagent_runs, turns
from tests.fakes.anthropic_server import Reply
from tests.fakes.patience import eventually
from tests.stories.stage import PLATFORM, ROOM, Play, call, is_run, stage

pytestmark = pytest.mark.timeout(300)

USERS, MESSAGES = 50, 3
CENT = MICRO_DOLLARS // 100
PRICES = Prices({}, {})


class Provider:
    """Answers at random, bills at random, and adds up what all calls have cost."""

    def __init__(self) -> None:
        self.dice = random.Random(11)
        self.cost = self.calls = 0

    def __call__(self, body: Json) -> Reply:
        self.calls += 1
        if self.dice.random() < 0.02:
            return Reply(status=529, kind="overloaded_error")
        reply = self._reply(body)
        usage = Usage(*(self.dice.randint(0, most) for most in (3_000, 400, 9_000, 600)))
        self.cost += PRICES.priced(usage, "anthropic", body["model"]).cost or 0
        return replace(reply, usage=usage)

    def _reply(self, body: Json) -> Reply:
        begun = any(each["role"] == "assistant" for each in body["messages"][-2:])
        chance = self.dice.random()
        if body.get("tool_choice") or chance < (0.7 if begun else 0.3):
            return Reply(text="Hens, and nothing but hens.")
        if chance < 0.7 or is_run(body):
            return call("current_time", zone="UTC")
        if chance < 0.85:
            return call("delegate_to_subagent", task="Count the hens", tools_needed=[])
        return call("sessions_spawn", task="Look around", tools_needed=["current_time"])


async def test_after_a_day_of_fifty_users_the_pools_agree_with_the_bill(database_url: str) -> None:
    provider = Provider()
    users = [Identity(PLATFORM, "", f"user{number}") for number in range(USERS)]
    month = {"month": {"usd": 1_000}}
    limits = SpendingSettings.model_validate(
        {"user": {"day": {"usd": 50}}, "channel": month, "bot": {"day": {"usd": 900}, **month}}
    )
    many = SubagentSettings(spawn_rate_limit=SpawnRateLimit(max_requests=100), present_seconds=0)
    async with stage(database_url, Play(), script=provider, spending=limits, subagents=many) as it:
        for message in range(MESSAGES):
            for number, user in enumerate(users):
                place = replace(ROOM, thread=f"thread {number} {message}")
                await it.say(user, "Look after the hens.", place)

        async def all_over() -> bool:
            found = [*await it.rows(turns), *await it.rows(subagent_runs)]
            ended = [row.get("ended_at") or row.get("completed_at") for row in found]
            return len(found) >= USERS * MESSAGES and all(ended)

        await eventually(all_over, "all turns and runs have ended", seconds=240)
        used = [(row["id"].split("|"), row["used_cost"]) for row in await it.rows(pools)]
        stored = [*await it.rows(turns), *await it.rows(subagent_runs)]
        left = await it.rows(reservations)

    assert provider.calls > 300
    assert left == []
    for scope, length in (("bot", 10), ("bot", 7), ("channel", 7), ("user", 10)):
        drawn = [cost for pool, cost in used if (pool[0], len(pool[1])) == (scope, length)]
        assert len(drawn) == (USERS if scope == "user" else 1)
        assert abs(sum(drawn) - provider.cost) < CENT, scope
    assert abs(sum(row["cost"] or 0 for row in stored) - provider.cost) < CENT
