"""Token budgets of runs count weighted tokens: input read from a cache counts by its price."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bot.agent.messages import Usage
from bot.values import Json, RunStatus
from tests.fakes.anthropic_server import Reply
from tests.fakes.prompt_cache import PromptCache
from tests.stories.stage import ALICE, Play, call, is_run, stage

ZONES = [f"Etc/GMT+{hours}" for hours in range(1, 13)] + ["UTC", "Asia/Tokyo", "Europe/Paris"]
OUTPUT = 40

#: Gives the usage of a request, as a provider reports it.
Counting = Callable[[Json], Usage]


def with_cache_counters() -> Counting:
    cache = PromptCache()
    return lambda body: cache.usage(body, output=OUTPUT)


def without_cache_counters() -> Counting:
    return lambda body: Usage(PromptCache().usage(body).all_input, OUTPUT)


@pytest.mark.parametrize("counting", [with_cache_counters, without_cache_counters])
async def test_fifteen_empty_tool_calls_cost_a_fraction_of_the_budget(
    sqlite_url: str, counting: Callable[[], Counting]
) -> None:
    usage_of = counting()
    work = [call("current_time", zone=zone) for zone in ZONES]
    play = Play(
        main=[call("sessions_spawn", task="Look around", label="clocks"), Reply(text="Ok.")],
        runs={"Look around": [*work, Reply(text="Fifteen clocks.")]},
    )

    def script(body: Json) -> Reply:
        return replace(play(body), usage=usage_of(body))

    async with stage(sqlite_url, play, script=script) as it:
        await it.say(ALICE, "Look at all clocks.")
        run = await it.ended("Look around", RunStatus.COMPLETED)
        info = await it.command(ALICE, "/subagents info clocks")
        usage = await it.command(ALICE, "/subagents usage")
        said = await it.outlet.announced(run.id)

    assert run.tool_call_count == 15
    asked_by_run = [body for body in play.asked if is_run(body)]
    assert len(asked_by_run) == 16
    assert play.asked[0]["max_tokens"] == 16_000
    # A quarter of what its budget leaves behind the share for the last report.
    assert asked_by_run[0]["max_tokens"] == 10_000
    assert run.tokens > 35_000
    assert run.weighted_tokens <= 15_000
    assert f"- Tokens: {run.weighted_tokens:,} of 50,000 (weighted); {run.tokens:,} in all" in (
        info.text
    )
    assert f"1 run, {run.tokens:,} tokens ({run.weighted_tokens:,} weighted)" in usage.text
    assert said.footer.startswith(f"{run.weighted_tokens:,} of 50,000 tokens")
