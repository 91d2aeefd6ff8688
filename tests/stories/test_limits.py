"""Limits: what is refused, what waits, and who comes next."""

import pytest

from bot.agent import budget
from bot.subagents.limits import DelegationRateLimit, SpawnRateLimit, SubagentSettings
from bot.values import Identity, RunStatus, short
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ALICE, BOB, PLATFORM, Play, Stage, call, calls, is_run, said, stage


def waiting_runs(*words: str) -> dict[str, list[Reply]]:
    return {word: [call("wait_here"), Reply(text=f"{word} is done.")] for word in words}


async def as_they_ended(it: Stage, words: list[str]) -> list[str]:
    """Return these words of tasks in the order in which their runs have ended.

    Each is announced by itself: one announcement may overtake another.
    """
    ended = {word: (await it.run_of(word)).completed_at for word in words}
    return sorted(words, key=lambda word: str(ended[word]))


async def test_over_the_concurrency_cap_runs_wait_and_say_their_place(database_url: str) -> None:
    settings = SubagentSettings(max_concurrent_per_user=1, max_queued_per_user=2)
    play = Play(runs=waiting_runs("one", "two", "three", "four"))
    async with stage(database_url, play, subagents=settings) as it:
        first = await it.command(ALICE, "/subagents spawn one")
        await it.gate.held(1)
        second = await it.command(ALICE, "/subagents spawn two")
        third = await it.command(ALICE, "/subagents spawn three")
        fourth = await it.command(ALICE, "/subagents spawn four")
        two = await it.run_of("two")
        it.gate.opened.set()
        three = await it.run_of("three")
        await it.outlet.announced(three.id)

        assert "Started" in first.text
        assert "place 1 in your queue" in second.text
        assert "place 2 in your queue" in third.text
        assert fourth.failed
        assert "1 of your 1 run is still going and 2 of 2 are waiting" in fourth.text
        assert two.status is RunStatus.QUEUED
        assert await as_they_ended(it, ["three", "two", "one"]) == ["one", "two", "three"]


async def test_nobody_waits_behind_another_users_queue(database_url: str) -> None:
    people = [Identity(PLATFORM, "", f"user{number}") for number in range(3)]
    settings = SubagentSettings(max_concurrent_per_user=2, max_concurrent_global=1)
    words = [f"{person.account}-{n}" for person in people for n in "ab"]
    play = Play(runs={**waiting_runs("blocker"), **{w: [Reply(text=w)] for w in words}})
    async with stage(database_url, play, subagents=settings) as it:
        await it.command(BOB, "/subagents spawn blocker")
        await it.gate.held(1)
        for person in people:
            for n in "ab":
                await it.command(person, f"/subagents spawn {person.account}-{n}")
        it.gate.opened.set()
        await it.outlet.until(lambda: len(it.outlet.announcements) == 7, "all runs")

        assert await as_they_ended(it, sorted(words)) == [
            f"user{k}-{n}" for n in "ab" for k in range(3)
        ]


async def test_delegated_tasks_have_a_rate_limit_of_their_own(database_url: str) -> None:
    settings = SubagentSettings(
        spawn_rate_limit=SpawnRateLimit(max_requests=1),
        delegation_rate_limit=DelegationRateLimit(max_requests=2),
    )
    tasks = ["First", "Second", "Third"]
    play = Play(
        main=[
            *(call("delegate_to_subagent", task=task, tools_needed=[]) for task in tasks),
            call("sessions_spawn", task="Fourth"),
            Reply(text="Two were done."),
        ],
        runs={word: [Reply(text="Done.")] for word in (*tasks, "Fourth")},
    )
    async with stage(database_url, play, subagents=settings) as it:
        await it.say(ALICE, "Delegate three tasks.")
        await it.outlet.replied()
        await it.ended("Fourth", RunStatus.COMPLETED)
        usage = await it.command(ALICE, "/subagents usage")

    results = [said(body["messages"][-1]) for body in play.asked if not is_run(body)]
    refusal = results[3]
    assert "2 of 2 tasks in the last 1 h; the next one is possible in " in refusal
    assert "accepted" in results[4], "spawning has its own limit"
    assert "Tasks delegated in the last 1 h: 2 of 2" in usage.text
    assert "Runs started in the last 1 h: 1 of 1" in usage.text


async def test_the_rate_limit_names_itself_what_is_used_and_when_to_come_back(
    database_url: str,
) -> None:
    settings = SubagentSettings(spawn_rate_limit=SpawnRateLimit(max_requests=1))
    play = Play(
        main=[call("sessions_spawn", task="again"), Reply(text="Later, then.")],
        runs={"once": [Reply(text="1")]},
    )
    async with stage(database_url, play, subagents=settings) as it:
        await it.command(ALICE, "/subagents spawn once")
        await it.outlet.announced((await it.run_of("once")).id)
        refused = await it.command(ALICE, "/subagents spawn again")
        await it.say(ALICE, "Do it again.")
        await it.outlet.replied()

        assert refused.failed
        assert "1 of 1 run in the last 1 h" in refused.text
        assert "possible in" in refused.text
        assert "1 of 1 run" in said(play.asked[-1]["messages"][-1])


async def test_a_delegated_task_never_waits_and_the_model_is_told_what_to_do(
    database_url: str,
) -> None:
    settings = SubagentSettings(max_concurrent_per_user=1)
    play = Play(
        main=[call("delegate_to_subagent", task="now", tools_needed=[]), Reply(text="Later.")],
        runs=waiting_runs("long"),
    )
    async with stage(database_url, play, subagents=settings) as it:
        await it.command(ALICE, "/subagents spawn long")
        await it.gate.held(1)
        await it.say(ALICE, "Quickly!")
        await it.outlet.replied()

        assert "use sessions_spawn" in said(play.asked[-1]["messages"][-1])
        it.gate.opened.set()


async def test_a_queued_run_that_is_stopped_never_starts(database_url: str) -> None:
    settings = SubagentSettings(max_concurrent_per_user=1)
    play = Play(runs=waiting_runs("one", "two"))
    async with stage(database_url, play, subagents=settings) as it:
        await it.command(ALICE, "/subagents spawn one")
        await it.gate.held(1)
        await it.command(ALICE, "/subagents spawn two")
        two = await it.run_of("two")
        await it.command(ALICE, f"/subagents stop {short(two.id)}")
        told = await it.outlet.announced(two.id)
        it.gate.opened.set()
        await it.outlet.announced((await it.run_of("one")).id)

        assert "Sub-agent stopped" in told.title
        assert (await it.run_of("two")).started_at is None


async def test_stop_all_stops_what_runs_and_what_waits_and_nobody_elses(database_url: str) -> None:
    settings = SubagentSettings(max_concurrent_per_user=1)
    play = Play(runs=waiting_runs("one", "two", "bobs"))
    async with stage(database_url, play, subagents=settings) as it:
        for word in ("one", "two"):
            await it.command(ALICE, f"/subagents spawn {word}")
        await it.command(BOB, "/subagents spawn bobs")
        await it.gate.held(2)
        await it.command(ALICE, "/subagents stop all")
        await it.outlet.until(lambda: len(it.outlet.announcements) == 2, "both stops")

        assert {said.owner for said in it.outlet.announcements} == {ALICE}
        assert (await it.run_of("bobs")).status is RunStatus.RUNNING
        it.gate.opened.set()


async def test_a_small_budget_ends_the_run_with_what_it_had_and_says_why(database_url: str) -> None:
    play = Play(
        runs={
            "Read": [
                Reply(text="Page one is about cats.", calls=call("current_time").calls),
                Reply(text="In short: cats."),
            ]
        }
    )
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn --budget 2000 Read")
        run = await it.run_of("Read")
        told = await it.outlet.announced(run.id)
        over = await it.run_of("Read")

        assert over.status is RunStatus.BUDGET_EXCEEDED
        assert "ran out of budget" in told.title
        assert "2,000 tokens" in told.text
        assert "`subagents.max_token_budget`" in told.text
        assert "cats" in told.text
        assert over.tokens <= 2000 + 5000


async def test_at_its_last_tool_call_a_run_reports_and_does_not_count_as_completed(
    database_url: str,
) -> None:
    settings = SubagentSettings(max_tool_calls_per_run=2)
    play = Play(
        runs={
            "Dig": [
                calls(("current_time", {}), ("current_time", {"zone": "UTC"}), ("note_list", {})),
                Reply(text="I dug twice."),
            ]
        }
    )
    async with stage(database_url, play, subagents=settings) as it:
        await it.command(ALICE, "/subagents spawn Dig")
        run = await it.run_of("Dig")
        told = await it.outlet.announced(run.id)

        assert (await it.run_of("Dig")).status is RunStatus.MAX_TOOL_CALLS
        assert "I dug twice." in told.text
        assert play.asked[-1]["tool_choice"] == {"type": "none"}


async def test_a_run_out_of_time_is_asked_for_what_it_has(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of nine seconds, so many for the last words: a machine may halt for some.
    monkeypatch.setattr(budget, "RESERVED_SHARE", 0.8)
    play = Play(
        runs={
            "Wait": [
                Reply(text="So far: little.", calls=call("wait_here").calls),
                Reply(text="I only got so far."),
            ]
        }
    )
    settings = SubagentSettings(default_timeout_minutes=0.15)
    async with stage(database_url, play, subagents=settings) as it:
        await it.command(ALICE, "/subagents spawn Wait")
        run = await it.run_of("Wait")
        told = await it.outlet.announced(run.id)

        assert (await it.run_of("Wait")).status is RunStatus.TIMEOUT
        assert "I only got so far." in told.text
        assert "ran out of time" in told.title


async def test_what_was_used_is_shown(database_url: str) -> None:
    play = Play(runs={"Count": [Reply(text="1")]})
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn Count")
        await it.outlet.announced((await it.run_of("Count")).id)
        usage = await it.command(ALICE, "/subagents usage")

        assert "Runs started in the last 1 h: 1 of 10" in usage.text
        assert "1 run, 120 tokens" in usage.text
